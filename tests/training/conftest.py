"""Objectives over the built-in network with tiny models, as training meets them."""

import numpy as np
import pytest
import torch

from edgeformers.config import TrainSettings
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.training.trainer import Trainer

CPU = torch.device("cpu")
SMALL = {
    "train.epochs": 2,
    "train.batch_size": 48,
    "train.sparse_nodes": True,
    "model.node_width": 16,
}
FEW = {
    "data.source_neighbors": [2],
    "data.target_neighbors": [3],
    "links.uniform_negatives": 0,
    "links.logq": 0.0,
}


def _untrained(kind, graph, settings):
    """An estimator that has everything but training."""
    made = kind("scratch:2x32", settings=settings, show=False, device="cpu")
    tokens = made._build(graph)
    if isinstance(made, EdgeClassifier):
        made.label_names = list(graph.label_names)
        train = np.flatnonzero(graph.split("edge") == 0)
        made.head = made._make_head(graph.labels[train], made._label_kind(graph))
    else:
        made.head = made._make_head(graph.num_nodes)
    made._attach(graph, tokens)
    made.objective.modules.train()
    return made


@pytest.fixture
def make_edges(simulated):
    """An untrained edge objective."""
    return lambda graph=None, **settings: (
        _untrained(EdgeClassifier, graph or simulated, {**SMALL, **settings}).objective
    )


@pytest.fixture
def make_links(simulated):
    """An untrained link objective."""
    return lambda graph=None, **settings: (
        _untrained(LinkPredictor, graph or simulated, {**SMALL, **FEW, **settings}).objective
    )


@pytest.fixture
def make_trainer():
    """A trainer on the CPU."""

    def make(objective, folder=None, **settings):
        train = TrainSettings(**{"epochs": 2, "checkpoint_every": 3, **settings})
        return Trainer(objective, train, device=CPU, folder=folder, show=False)

    return make


@pytest.fixture
def without_dropout():
    """Every dropout of an objective's modules switched off, training mode kept."""

    def switch_off(objective):
        for module in objective.modules.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            elif isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
        objective.model.nodes.node_dropout = 0.0
        return objective

    return switch_off
