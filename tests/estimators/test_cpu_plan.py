from types import SimpleNamespace

import pytest
import torch

from edgeformers.estimators import EdgeClassifier, build, cpu_plan, run_config
from edgeformers.estimators.cpu_plan import Workload, frozen_layers, planned_settings
from edgeformers.training.runlog import LOG, read_log

CPU, TASKS = torch.device("cpu"), ("edge-classification", "link-prediction")


def make_load(texts, layers=6):
    return Workload(layers=layers, read_texts=texts, stored_texts=1000, tokens=30.0)


@pytest.fixture
def planning(monkeypatch):
    """Every training is too long, and the backbone has six layers."""
    monkeypatch.setattr(cpu_plan, "BUDGET", 0.0)
    monkeypatch.setattr(build, "backbone_config", lambda name: SimpleNamespace(layers=6))


def layers_of(config):
    return config.model.text_layers, config.train.frozen_layers


def test_a_short_training_is_not_changed():
    assert planned_settings(make_load(100)) == {}


def test_more_texts_freeze_more_layers_but_not_the_last_one():
    counts = [frozen_layers(make_load(texts)) for texts in (1e3, 1e4, 2e4, 3e4, 1e5, 1e9)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert 0 < counts[2] < 5
    assert counts[-1] == 5


def test_as_few_layers_are_frozen_as_the_budget_allows():
    load = make_load(2e4)
    count = frozen_layers(load)
    assert load.training(count) <= cpu_plan.BUDGET < load.training(count - 1)


def test_a_run_with_frozen_layers_is_estimated_to_be_shorter():
    load = make_load(1e5)
    seconds = [load.seconds(frozen, 1e4) for frozen in range(6)]
    assert seconds == sorted(seconds, reverse=True)
    assert load.seconds(0, 2e4) == pytest.approx(seconds[0] / 2)


@pytest.mark.parametrize("task", TASKS)
def test_default_is_planned_on_a_cpu_only(task, simulated, planning):
    assert layers_of(run_config(task, graph=simulated, device=CPU)) == (5, 5)
    assert run_config(task, graph=simulated, device=torch.device("cuda")) == run_config(task)
    assert run_config(task, graph=simulated) == run_config(task)


@pytest.mark.parametrize("recipe", ["paper", "paper-tuned", "fast"])
def test_other_recipes_are_not_planned(recipe, simulated, planning):
    planned = run_config(TASKS[0], recipe, graph=simulated, device=CPU)
    assert planned == run_config(TASKS[0], recipe, graph=simulated)


@pytest.mark.parametrize(
    "settings",
    [
        {"train.frozen_layers": 0},
        {"model.text_layers": 1},
        {"model.backbone": "scratch:2x32"},
        {"model.name": "bert"},
        {"train.lora_rank": 4},
    ],
)
def test_no_plan_overrides_what_the_user_chose(settings, simulated, planning):
    planned = run_config(TASKS[0], settings=settings, graph=simulated, device=CPU)
    assert planned == run_config(TASKS[0], settings=settings, graph=simulated)


def test_the_config_of_a_run_is_repeated_as_it_is(simulated, planning, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(run_config(TASKS[0], graph=simulated).to_toml())
    config = run_config(TASKS[0], file=file, graph=simulated, device=CPU)
    assert layers_of(config) == (1, 0)


def test_a_planned_run_says_and_logs_how_long_it_will_take(
    simulated, planning, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(cpu_plan, "is_scratch", lambda backbone: False)
    monkeypatch.setattr(build, "SCRATCH", "pretrained:")  # freeze it
    monkeypatch.setattr(build, "backbone_config", lambda name: SimpleNamespace(layers=3))
    settings = {"train.epochs": 1, "model.node_width": 8}
    made = EdgeClassifier("scratch:3x32", settings=settings, device="cpu")
    made.fit(simulated, run=tmp_path)
    assert layers_of(made.config) == (2, 2)
    assert "2 of 3 layers are frozen" in capsys.readouterr().err
    (estimate,) = [event for event in read_log(tmp_path / LOG) if event["kind"] == "estimate"]
    assert estimate["seconds"] > 0
