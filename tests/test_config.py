"""Settings: recipes, files, single changes, and the answers to what cannot be used."""

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
def test_the_recipe_paper_carries_every_number_of_the_paper(task):
    config = make_config(task, "paper")
    train = config.train
    assert (train.lr, train.node_lr, train.head_lr) == (1e-5, 1e-5, 1e-5)
    assert (train.weight_decay, train.decay_nodes, train.sparse_nodes) == (1e-3, True, False)
    assert (train.batch_size, train.eval_batch, train.patience, train.seed) == (30, 100, 3, 42)
    assert (train.warmup, train.decay, train.clip, train.precision) == (0, "constant", None, "fp32")
    assert (config.model.backbone, config.model.node_width) == ("bert-base-uncased", 64)
    assert (config.model.fidelity, config.model.node_dropout) == ("paper", 0.0)
    assert config.data.max_tokens == 64
    assert train.select == {EDGES: None, LINKS: "paper/hit@1"}[task]
    assert config.links.temperature is None
    assert not config.links.normalize


def test_settings_stand_over_a_file_and_a_file_over_its_recipe(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('recipe = "paper"\n[train]\nlr = 2e-5\nclip = 3\nepochs = 7\n')
    config = make_config(EDGES, file=file, settings={"train.epochs": 9})
    assert (config.recipe, config.train.batch_size) == ("paper", 30)
    assert (config.train.lr, config.train.clip, config.train.epochs) == (2e-5, 3.0, 9)
    assert make_config(EDGES, "fast", file=file).recipe == "fast"


def test_numbers_of_numpy_and_tuples_become_plain():
    settings = {"train.lr": np.float64(0.5), "train.epochs": np.int64(3)}
    config = make_config(LINKS, settings={**settings, "data.source_neighbors": (2, 3)})
    assert "lr = 0.5" in config.to_toml()
    assert config.data.source_neighbors == [2, 3]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("train.lr=3e-5", "train.lr", 3e-5),
        ("model.backbone=minilm", "model.backbone", "minilm"),
        ("train.clip = none", "train.clip", "none"),
        ("data.source_neighbors=[2, 3]", "data.source_neighbors", [2, 3]),
        ("model.direction=true", "model.direction", True),
    ],
)
def test_a_setting_is_parsed_from_one_word(text, name, value):
    assert parse_setting(text) == (name, value)
    assert make_config(LINKS, settings=dict([parse_setting(text)]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trian.lr": 1.0}, "there is no section 'trian'; did you mean 'train'?"),
        ({"train.lrr": 1.0}, "train has no setting 'lrr'; did you mean 'lr'?"),
        ({"recipes": "fast"}, "config has no setting 'recipes'; did you mean 'recipe'?"),
        ({"train": 3}, r"train is a section of settings, not one \(got 3\)"),
        ({"train.epochs": 0}, r"train.epochs must be at least 1 \(got 0\)"),
        ({"train.epochs": 2.5}, r"train.epochs must be of type int \(got 2.5\)"),
        ({"train.epochs": True}, r"train.epochs must be of type int \(got True\)"),
        ({"train.micro_batch": 0}, r"train.micro_batch must be at least 1 \(got 0\)"),
        ({"train.lr": -1}, r"train.lr must be 0 or more \(got -1.0\)"),
        ({"train.lr": float("nan")}, r"train.lr must be 0 or more \(got nan\)"),
        ({"train.lr": "fast"}, r"train.lr must be of type float \(got 'fast'\)"),
        ({"train.seed": -1}, r"train.seed must be 0 or more \(got -1\)"),
        ({"train.warmup": 1.0}, r"a share of all steps, below 1 \(got 1.0\)"),
        ({"train.clip": 0.0}, r"train.clip must be above 0, or none \(got 0.0\)"),
        (
            {"train.decay_nodes": True, "train.sparse_nodes": True},
            "set train.sparse_nodes=false with it",
        ),
        ({"train.decay": "square"}, r"must be one of linear, cosine, constant \(got 'square'\)"),
        ({"model.readout": "end"}, r"must be one of cls, neighbor, none \(got 'end'\)"),
        ({"data.max_tokens": 2}, r"data.max_tokens must be at least 3 \(got 2\)"),
        ({"data.source_neighbors": []}, r"edges are read per stratum, such as \[8\] \(got \[\]\)"),
        ({"data.source_neighbors": ["a"]}, r"data.source_neighbors\[0\] must be of type int"),
        ({"task": "ranking"}, r"task must be one of edge-classification, link-prediction"),
    ],
)
def test_what_cannot_be_set_is_answered(settings, words):
    with pytest.raises(ConfigError, match=words):
        make_config(EDGES, settings=settings)


def test_unknown_recipes_tasks_and_damaged_configs_are_answered(tmp_path):
    with pytest.raises(ConfigError, match="there is no recipe 'papr'; did you mean 'paper'"):
        make_config(EDGES, "papr")
    with pytest.raises(ConfigError, match="there is no task 'edges'; there is: edge-class"):
        RunConfig(task="edges")
    with pytest.raises(ConfigError, match="names no task; task may be edge-classification or"):
        RunConfig.from_dict({})
    with pytest.raises(ConfigError, match=r"train is a section of settings, not one \(got 3\)"):
        RunConfig.from_dict({"task": EDGES, "train": 3})
    with pytest.raises(ConfigError, match="the config has no setting 'model_name'; did you mean"):
        RunConfig.from_dict({"task": EDGES, "model_name": {}})
    with pytest.raises(ConfigError, match=r"write a setting as train.lr=3e-5 \(got 'lr'\)"):
        parse_setting("lr")
    with pytest.raises(ConfigError, match=r"gone\.toml: no such file"):
        read_toml(tmp_path / "gone.toml")
    file = tmp_path / "mine.toml"
    file.write_text("lr ===")
    with pytest.raises(ConfigError, match=r"mine\.toml is not TOML"):
        read_toml(file)
    file.write_text(f'task = "{LINKS}"')
    with pytest.raises(ConfigError, match=r"mine\.toml is for link-prediction, not for edge-class"):
        make_config(EDGES, file=file)


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        TrainSettings().lr = 1.0


def test_a_setting_there_is_no_longer_is_passed_over_where_it_was_saved(tmp_path):
    config = make_config(EDGES)
    saved = config.to_dict()
    saved["train"]["loss_lag"] = 3
    assert RunConfig.from_dict(saved) == config
    file = tmp_path / "config.toml"
    file.write_text(config.to_toml() + "loss_lag = 0\n", encoding="utf-8")  # of [train], the last
    assert make_config(EDGES, file=file) == config
    assert matches_file(file, config)
    assert not matches_file(file, make_config(EDGES, settings={"train.lr": 1.0}))
    with pytest.raises(ConfigError, match="train has no setting 'loss_lag'"):
        make_config(EDGES, settings={"train.loss_lag": 3})


def test_a_file_that_is_no_config_says_something_else(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('task = "edge-classification"\n[train]\nlearning = 1\n', encoding="utf-8")
    assert not matches_file(file, make_config(EDGES))
    assert not matches_file(tmp_path / "none.toml", make_config(EDGES))
