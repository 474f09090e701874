"""Which parameter learns how fast, what decays, what stays as it is."""

import math

import pytest
import torch
from torch import nn

from edgeformers.config import TrainSettings, make_config
from edgeformers.training.optimizers import Optimizers, freeze_layers, lr_schedule


def rates(objective, settings):
    """name -> (learning rate, decay) of every parameter that is learned."""
    names = {id(p): name for name, p in objective.modules.named_parameters()}
    return {
        names[id(p)]: (group["lr"], group.get("weight_decay"))
        for part in Optimizers(objective.modules, settings).optimizers
        for group in part.param_groups
        for p in group["params"]
    }


SETTINGS = {"lr": 1e-5, "node_lr": 1e-2, "head_lr": 1e-3, "weight_decay": 0.1}


def test_backbone_node_table_and_heads_have_rates_of_their_own(make_edges):
    objective = make_edges()
    found = rates(objective, TrainSettings(**SETTINGS))
    assert found.keys() == {name for name, _ in objective.modules.named_parameters()}
    assert found["model.nodes.table"] == (1e-2, None)  # SparseAdam decays nothing
    assert found["model.encoder.layers.0.ffn.up.weight"] == (1e-5, 0.1)
    assert found["model.projections.0.maps.0.weight"] == (1e-3, 0.1)
    assert found["head.head.weight"] == (1e-3, 0.1)


def test_biases_norms_and_the_node_table_do_not_decay_but_in_the_paper(make_links):
    objective = make_links(**{"train.sparse_nodes": False})
    found = rates(objective, TrainSettings(**SETTINGS, sparse_nodes=False))
    kinds = {id(p): m for m in objective.modules.modules() for p in m.parameters(recurse=False)}
    for name, parameter in objective.modules.named_parameters():
        plain = name.endswith("bias") or isinstance(kinds[id(parameter)], nn.LayerNorm)
        plain |= parameter.dim() < 2 or name == "model.nodes.table"
        assert (found[name][1] == 0) == plain, name
    paper = make_config("link-prediction", "paper").train
    assert rates(objective, paper)["model.nodes.table"] == (1e-5, 1e-3)
    kinds = [type(part) for part in Optimizers(objective.modules, paper).optimizers]
    assert kinds == [torch.optim.AdamW]
    group = Optimizers(objective.modules, paper).optimizers[0].param_groups[0]
    assert (tuple(group["betas"]), group["eps"]) == ((0.9, 0.999), 1e-8)


def test_the_dense_path_has_the_gradients_of_the_sparse_one_and_trains(
    make_edges, without_dropout, make_trainer
):
    grads = []
    for sparse in (True, False):
        objective = without_dropout(make_edges(**{"train.sparse_nodes": sparse}))
        objective.backward([objective.make(objective.batches(0)[0], 0, None)])
        grad = objective.model.nodes.table.grad
        assert grad.is_sparse == sparse
        grads.append(grad.to_dense())
    torch.testing.assert_close(*grads)
    before = objective.model.nodes.table.detach().clone()
    make_trainer(objective, epochs=1, sparse_nodes=False).fit()
    assert not torch.equal(objective.model.nodes.table, before)


def test_frozen_layers_are_really_frozen(make_edges, make_trainer):
    objective = make_edges()
    freeze_layers(objective.model.encoder, 1)
    before = {n: p.detach().clone() for n, p in objective.modules.named_parameters()}
    make_trainer(objective, epochs=1, weight_decay=0.5).fit()
    for name, parameter in objective.modules.named_parameters():
        frozen = name.startswith(("model.encoder.embeddings", "model.encoder.layers.0."))
        assert torch.equal(parameter, before[name]) == frozen, name


def test_an_untrained_backbone_is_never_frozen(make_edges):
    objective = make_edges(**{"train.frozen_layers": 1})
    assert all(parameter.requires_grad for parameter in objective.model.encoder.parameters())


def test_gradients_are_clipped_to_the_maximum_norm(make_edges):
    objective = make_edges()
    made = Optimizers(objective.modules, TrainSettings(max_grad_norm=0.01))
    objective.backward([objective.make(objective.batches(0)[0], 0, None)])
    made.step(1.0)
    dense = [p.grad for p in objective.modules.parameters() if not p.grad.is_sparse]
    assert torch.stack([g.norm() for g in dense]).norm() == pytest.approx(0.01, rel=1e-3)


def test_a_step_scales_all_learning_rates(make_edges):
    made = Optimizers(make_edges().modules, TrainSettings(**SETTINGS))
    made.step(0.5)
    assert [g["lr"] for part in made.optimizers for g in part.param_groups] == [
        pytest.approx(r / 2) for rates in made._rates for r in rates
    ]


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ("linear", [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("cosine", [0.5, 1, *[0.5 * (1 + math.cos(math.pi * i / 4)) for i in range(4)]]),
    ],
)
def test_learning_rates_warm_up_and_decay(decay, expected):
    factor = lr_schedule(TrainSettings(warmup_ratio=1 / 3, lr_schedule=decay), 6)
    assert [factor(step) for step in range(6)] == pytest.approx(expected)


def test_without_warmup_the_first_step_has_the_full_rate():
    factor = lr_schedule(TrainSettings(warmup_ratio=0.0), 4)
    assert [factor(step) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]


def test_large_node_tables_are_updated_sparsely_and_small_ones_densely(make_edges, monkeypatch):
    assert not make_edges(**{"train.sparse_nodes": None}).model.nodes.sparse
    monkeypatch.setattr("edgeformers.estimators.build.LARGE_TABLE", 100)
    assert make_edges(**{"train.sparse_nodes": None}).model.nodes.sparse
    decayed = {"train.sparse_nodes": None, "train.decay_nodes": True}
    assert not make_edges(**decayed).model.nodes.sparse
