"""Settings: recipes, TOML files, changes by name, and errors."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.aliases import NEWER_SETTINGS, SETTINGS
from edgeformers.config import (
    RECIPES,
    RunConfig,
    TrainSettings,
    make_config,
    matches_file,
    parse_setting,
    read_toml,
)
from edgeformers.errors import ConfigError

EDGES, LINKS = "edge-classification", "link-prediction"


@pytest.mark.parametrize("task", [EDGES, LINKS])
@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_config_written_as_toml_is_read_back_the_same(task, recipe, tmp_path):
    config = make_config(task, recipe, settings={"model.tokens": [], "train.patience": 4})
    file = tmp_path / "config.toml"
    file.write_text(config.to_toml(), encoding="utf-8")
    assert make_config(task, file=file) == config
    assert RunConfig.from_dict(tomllib.loads(config.to_toml())) == config


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 1e300))
def test_any_text_and_any_number_survive_toml(text, number):
    config = make_config(EDGES, settings={"model.backbone": text, "train.lr": number})
    if text != "none":
        assert RunConfig.from_dict(tomllib.loads(config.to_toml())) == config


@pytest.mark.parametrize("task", [EDGES, LINKS])
def test_the_paper_recipe_has_the_hyperparameters_of_the_paper(task):
    config = make_config(task, "paper")
    train = config.train
    assert (train.lr, train.node_lr, train.head_lr) == (1e-5, 1e-5, 1e-5)
    assert (train.weight_decay, train.decay_nodes, train.sparse_nodes) == (1e-3, True, False)
    assert (train.batch_size, train.eval_batch_size, train.patience, train.seed) == (30, 100, 3, 42)
    assert (train.warmup_ratio, train.lr_schedule, train.max_grad_norm, train.precision) == (
        0,
        "constant",
        None,
        "fp32",
    )
    assert (config.model.backbone, config.model.node_width) == ("bert-base-uncased", 64)
    assert (config.model.fidelity, config.model.node_dropout) == ("paper", 0.0)
    assert config.data.max_tokens == 64
    assert train.select_metric == {EDGES: None, LINKS: "paper/hit@1"}[task]
    assert config.links.temperature is None
    assert not config.links.normalize
    tuned = make_config(task, "paper-tuned").to_dict()
    rates = ("lr", "node_lr", "head_lr", "precision")
    for name in rates:
        tuned["train"][name] = config.to_dict()["train"][name]
    assert tuned == config.to_dict() | {"recipe": "paper-tuned"}


def test_settings_override_a_file_and_a_file_overrides_its_recipe(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('recipe = "paper"\n[train]\nlr = 2e-5\nmax_grad_norm = 3\nepochs = 7\n')
    config = make_config(EDGES, file=file, settings={"train.epochs": 9})
    assert (config.recipe, config.train.batch_size) == ("paper", 30)
    assert (config.train.lr, config.train.max_grad_norm, config.train.epochs) == (2e-5, 3.0, 9)
    assert make_config(EDGES, "fast", file=file).recipe == "fast"


def test_numpy_numbers_and_tuples_become_plain_values():
    settings = {"train.lr": np.float64(0.5), "train.epochs": np.int64(3)}
    config = make_config(LINKS, settings={**settings, "data.source_neighbors": (2, 3)})
    assert "lr = 0.5" in config.to_toml()
    assert config.data.source_neighbors == [2, 3]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("train.lr=3e-5", "train.lr", 3e-5),
        ("model.backbone=minilm", "model.backbone", "minilm"),
        ("train.max_grad_norm = none", "train.max_grad_norm", "none"),
        ("data.source_neighbors=[2, 3]", "data.source_neighbors", [2, 3]),
        ("model.direction=true", "model.direction", True),
    ],
)
def test_a_setting_is_parsed_from_one_argument(text, name, value):
    assert parse_setting(text) == (name, value)
    assert make_config(LINKS, settings=dict([parse_setting(text)]))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"trian.lr": 1.0}, "'train'"),
        ({"train.lrr": 1.0}, "'lr'"),
        ({"recipes": "fast"}, "'recipe'"),
        ({"train": 3}, "train"),
        ({"task.name": "x"}, "task"),
        ({"train.epochs": 0}, "train.epochs"),
        ({"train.epochs": 2.5}, "train.epochs"),
        ({"train.epochs": True}, "train.epochs"),
        ({"train.micro_batch_size": 0}, "train.micro_batch_size"),
        ({"train.lr": -1}, "train.lr"),
        ({"train.lr": float("nan")}, "train.lr"),
        ({"train.lr": "fast"}, "train.lr"),
        ({"train.seed": -1}, "train.seed"),
        ({"train.warmup_ratio": 1.0}, "train.warmup_ratio"),
        ({"train.max_grad_norm": 0.0}, "train.max_grad_norm"),
        ({"train.ema_decay": 1.0}, "train.ema_decay"),
        ({"train.decay_nodes": True, "train.sparse_nodes": True}, "train.sparse_nodes=false"),
        ({"train.lr_schedule": "square"}, "linear, cosine, constant"),
        ({"model.readout": "end"}, "cls, neighbor"),
        ({"links.cold_node_rate": 1.0}, "links.cold_node_rate"),
        ({"data.max_tokens": 2}, "data.max_tokens"),
        ({"data.source_neighbors": []}, "data.source_neighbors"),
        ({"data.source_neighbors": ["a"]}, r"data.source_neighbors\[0\]"),
        ({"task": "ranking"}, "edge-classification"),
    ],
)
def test_an_invalid_setting_is_rejected_by_name(settings, word):
    with pytest.raises(ConfigError, match=word):
        make_config(EDGES, settings=settings)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "task"),
        ({"task": "edges"}, "edge-classification"),
        ({"task": EDGES, "train": 3}, "train"),
        ({"task": EDGES, "model_name": {}}, "model_name"),
    ],
)
def test_an_invalid_config_is_rejected(values, word):
    with pytest.raises(ConfigError, match=word):
        RunConfig.from_dict(values)


def test_an_unknown_recipe_and_a_malformed_setting_are_rejected():
    with pytest.raises(ConfigError, match="'paper'"):
        make_config(EDGES, "papr")
    with pytest.raises(ConfigError, match="edges"):
        RunConfig(task="edges")
    with pytest.raises(ConfigError, match="'lr'"):
        parse_setting("lr")


def test_a_missing_malformed_or_unsuitable_file_is_named(tmp_path):
    file = tmp_path / "mine.toml"
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        read_toml(file)
    file.write_text("lr ===")
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        read_toml(file)
    file.write_text(f'task = "{LINKS}"')
    with pytest.raises(ConfigError, match=r"mine\.toml.* link-prediction"):
        make_config(EDGES, file=file)


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        TrainSettings().lr = 1.0


def test_a_removed_setting_in_a_saved_config_is_ignored(tmp_path):
    config = make_config(EDGES)
    saved = config.to_dict()
    saved["train"]["loss_lag"] = 3
    assert RunConfig.from_dict(saved) == config
    file = tmp_path / "config.toml"
    file.write_text(config.to_toml() + "loss_lag = 0\n", encoding="utf-8")  # in [train], the last
    assert make_config(EDGES, file=file) == config
    assert matches_file(file, config)
    assert not matches_file(file, make_config(EDGES, settings={"train.lr": 1.0}))
    with pytest.raises(ConfigError, match="loss_lag"):
        make_config(EDGES, settings={"train.loss_lag": 3})


def test_every_old_name_is_read_as_a_current_setting():
    config = make_config(LINKS)
    for old, new in SETTINGS.items():
        section, _, name = old.partition(".")
        value = config.to_dict()[section][new.partition(".")[2]]
        assert name not in config.to_dict()[section]
        assert RunConfig.from_dict({**config.to_dict(), section: {name: value}})
        assert config.with_settings({old: value}) == config


def test_an_invalid_or_missing_file_does_not_match_a_config(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('task = "edge-classification"\n[train]\nlearning = 1\n', encoding="utf-8")
    assert not matches_file(file, make_config(EDGES))
    assert not matches_file(tmp_path / "none.toml", make_config(EDGES))


def test_the_config_of_an_earlier_version_takes_no_newer_setting_from_its_recipe():
    run = Path(__file__).parent / "fixtures" / "v0_1" / "link-run"
    newer = dict.fromkeys(NEWER_SETTINGS, 9)  # as derived from a network
    config = make_config(LINKS, file=run / "config.toml", model_settings=newer)
    assert config == RunConfig.from_dict(read_toml(run / "config.toml"))
