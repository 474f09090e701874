"""Estimators with tiny models."""

from edgeformers.estimators import EdgeClassifier

EDGES = {
    "train.epochs": 10,
    "train.batch_size": 16,
    "train.lr": 1e-3,
    "train.node_lr": 1e-2,
    "train.head_lr": 2e-3,
    "model.node_width": 16,
}
LINKS = {
    "train.epochs": 1,
    "train.node_lr": 1e-2,
    "model.node_width": 16,
    "data.source_neighbors": [2],
    "data.target_neighbors": [4],
    "links.uniform_negatives": 0,
    "links.logq": 0.0,
}


def tiny(kind, **settings):
    """An estimator with a tiny model, nothing shown."""
    base = EDGES if kind is EdgeClassifier else LINKS
    return kind("scratch:2x32", settings={**base, **settings}, show=False, device="cpu")
