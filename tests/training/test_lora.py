"""Low-rank changes of a frozen backbone: what is learned, how fast, and that they merge."""

import sys

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from edgeformers.config import TrainSettings
from edgeformers.errors import MissingExtraError
from edgeformers.estimators import EdgeClassifier, load
from edgeformers.nn.backbones import random_backbone
from edgeformers.training.initialization import LORA_TARGETS, apply_lora, merge_lora
from edgeformers.training.optimizers import Optimizers, freeze_layers
from tests.tiny_models import TINY_ENCODER

RANK = {"train.lora_rank": 2}
SETTINGS = {**RANK, "train.epochs": 2, "train.batch_size": 48, "train.checkpoint_every": 3}


def test_every_linear_map_of_a_layer_is_changed():
    for gated in (False, True):
        encoder = random_backbone(type(TINY_ENCODER)(**{**vars(TINY_ENCODER), "gated": gated}))
        for layer in encoder.layers:
            linear = [
                n.rpartition(".")[2] for n, m in layer.named_modules() if type(m) is nn.Linear
            ]
            assert sorted(linear) == sorted(LORA_TARGETS)
        apply_lora(encoder, 2)
        changed = {n.partition(".lora_")[0] for n, p in encoder.named_parameters() if ".lora_" in n}
        assert len(changed) == len(LORA_TARGETS) * len(encoder.layers)


@pytest.mark.parametrize("task", ["edges", "links"])
def test_the_changes_and_what_is_new_are_all_that_is_learned(task, make_edges, make_links):
    objective = (make_edges if task == "edges" else make_links)(**RANK)
    objective.backward([objective.make(objective.batches(0)[0], 0, None)])
    for name, parameter in objective.modules.named_parameters():
        expected = not name.startswith("model.encoder.") or ".lora_" in name
        assert (parameter.grad is not None) == expected, name
    learned = dict(objective.modules.named_parameters())
    assert learned["model.encoder.layers.0.attention.query.lora_B.default.weight"].grad.any()
    assert learned["model.nodes.table"].grad.to_dense().any()


def test_the_changes_learn_as_fast_as_heads_do(make_edges):
    objective = make_edges(**RANK)
    settings = TrainSettings(lr=1e-5, node_lr=1e-2, head_lr=1e-3)
    rates = {
        id(parameter): group["lr"]
        for part in Optimizers(objective.modules, settings).optimizers
        for group in part.param_groups
        for parameter in group["params"]
    }
    found = {n: rates[id(p)] for n, p in objective.modules.named_parameters() if id(p) in rates}
    assert {rate for name, rate in found.items() if ".lora_" in name} == {1e-3}
    assert found["model.nodes.table"] == 1e-2
    assert 1e-5 not in found.values()


def test_frozen_layers_are_not_changed_either():
    encoder = random_backbone(TINY_ENCODER)
    apply_lora(encoder, 2)
    freeze_layers(encoder, 1)
    learned = [name for name, p in encoder.named_parameters() if p.requires_grad]
    assert learned
    assert not [name for name in learned if name.startswith("layers.0.")]


def test_the_same_seed_starts_from_the_same_changes():
    one, two, three = (random_backbone(TINY_ENCODER) for _ in range(3))
    for encoder, seed in ((one, 4), (two, 4), (three, 5)):
        apply_lora(encoder, 2, seed=seed)
    name = "layers.0.ffn.up.lora_A.default.weight"
    first, second, third = (encoder.get_parameter(name) for encoder in (one, two, three))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


@pytest.mark.parametrize("task", ["edges", "links"])
def test_merged_changes_leave_a_plain_encoder_that_answers_the_same(
    task, make_edges, make_links, make_trainer
):
    make = make_edges if task == "edges" else make_links
    plain = make().model.encoder
    objective = make(**RANK)
    encoder = objective.model.encoder
    untouched = {name: p.detach().clone() for name, p in plain.named_parameters()}
    make_trainer(objective, epochs=1, head_lr=1e-2, lora_rank=2).fit()
    objective.modules.eval()
    batch = objective.make(objective.batches(0)[0], 0, None)[0]
    with torch.inference_mode():
        before = _vectors(objective, batch)
        merge_lora(encoder)
        after = _vectors(objective, batch)
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    assert vars(encoder).keys() == vars(plain).keys()
    assert {n: type(m) for n, m in encoder.named_modules()} == {
        n: type(m) for n, m in plain.named_modules()
    }
    for name, parameter in encoder.named_parameters():
        changed = name.rpartition(".")[0].rpartition(".")[2] in LORA_TARGETS
        changed &= name.endswith("weight")
        assert torch.equal(parameter, untouched[name]) != changed, name
        assert parameter.requires_grad


def _vectors(objective, batch):
    return objective.model(getattr(batch, "egos", batch))


def fit(graph, run=None):
    made = EdgeClassifier("scratch:2x32", settings=SETTINGS, show=False, device="cpu")
    return made.fit(graph, run=run)


def test_what_is_saved_is_a_plain_model_that_needs_no_package(simulated, tmp_path, monkeypatch):
    classifier = fit(simulated)
    edges = range(20)
    expected = classifier.predict_proba(edges)
    classifier.save(tmp_path / "model")
    assert not [name for name in load_file(tmp_path / "model/model.safetensors") if "lora" in name]
    monkeypatch.setitem(sys.modules, "peft", None)
    found = load(tmp_path / "model", network=simulated).predict_proba(edges)
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(expected))


def test_an_interrupted_run_goes_on_and_equals_one_that_was_not(simulated, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    fit(simulated, run=whole)
    step, calls = Optimizers.step, []

    def interrupted(self, factor):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        step(self, factor)

    with monkeypatch.context() as patch:
        patch.setattr(Optimizers, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(simulated, run=cut)
    assert not (cut / "model").exists()
    fit(simulated, run=cut)
    for file in ("model/model.safetensors", "model/head.safetensors"):
        left, right = load_file(whole / file), load_file(cut / file)
        assert left.keys() == right.keys()
        assert all(torch.equal(value, right[name]) for name, value in left.items())


def test_without_their_package_the_install_line_is_told(simulated, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    words = r"needs the package 'peft', which is not installed; run: pip install 'edgeformers\[lora"
    with pytest.raises(MissingExtraError, match=words):
        fit(simulated)
