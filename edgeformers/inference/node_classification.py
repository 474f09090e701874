"""Node classification: logistic regression on frozen embeddings, as in the paper (Table 4)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from edgeformers.data.random import hash_keys
from edgeformers.errors import ConfigError, InputError
from edgeformers.evaluation import SeedSummary, metrics, summarize_seeds
from edgeformers.models.edge_head import EdgeHead

PRIMARY_METRIC = "macro_f1"
TRAIN, VAL, TEST = 0, 1, 2

_SPLIT_STREAM = 0x70DE  # keeps these random draws independent of others with the same seed


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """Settings of the regression; Adam, 1e-3 and patience 10 follow the paper."""

    learning_rate: float = 1e-3
    patience: int = 10  # epochs without a lower validation loss before stopping
    max_epochs: int = 500
    batch_size: int = 256
    standardize: bool = False  # scale inputs to mean 0 and deviation 1 over training nodes
    fractions: tuple[float, float, float] = (0.7, 0.1, 0.2)  # train, validation, test

    def __post_init__(self) -> None:
        for name in ("patience", "max_epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"probe {name} must be at least 1 (got {getattr(self, name)})")
        if min(self.fractions) <= 0 or abs(sum(self.fractions) - 1) > 1e-6:
            raise ConfigError(
                f"probe fractions must be positive and sum to 1 (got {self.fractions})"
            )


class Probe(nn.Module):
    """A linear classifier of frozen vectors, initialized at zero: the problem is convex.

    Shapes: B nodes, D width, C classes.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, vectors: Tensor, labels: NDArray[Any], standardize: bool) -> None:
        super().__init__()
        is_multi = labels.ndim == 2
        num_classes = labels.shape[1] if is_multi else int(labels.max()) + 1
        self.head = EdgeHead(vectors.size(1), num_classes, kind="multi" if is_multi else "class")
        for parameter in self.head.parameters():
            nn.init.zeros_(parameter)
        spread = vectors.std(0, correction=0)
        spread = torch.where(spread > 0, spread, 1.0)
        self.register_buffer("shift", vectors.mean(0) if standardize else torch.zeros(()))
        self.register_buffer("scale", spread if standardize else torch.ones(()))

    def loss(self, vectors: Tensor, target: Tensor) -> Tensor:
        """[B, D] and labels -> cross-entropy; binary for each label if nodes have several."""
        return self.head.loss((vectors - self.shift) / self.scale, target)

    @torch.no_grad()
    def predict(self, vectors: Tensor) -> NDArray[Any]:
        """[B, D] -> classes [B] or a mask of labels [B, C]."""
        value = self.head.predict((vectors - self.shift) / self.scale).value
        return np.asarray(value.numpy())


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """The test metrics of every seed, and their mean and deviation."""

    runs: list[dict[str, float]]
    summary: dict[str, SeedSummary]


def classify_nodes(
    embeddings: ArrayLike | Tensor,
    labels: ArrayLike,
    *,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    config: ProbeConfig | None = None,
    parts: ArrayLike | None = None,
) -> NodeReport:
    """Fit and test a regression per seed: Macro-F1, Micro-F1 and PREC of the test nodes.

    `labels` are classes [N] (-1: unknown) or a mask of labels [N, C] (no label: unknown). A seed
    determines the split and the order of batches; `parts` [N] (0 train, 1 validation, 2 test)
    fixes the split for all seeds.
    """
    config = config or ProbeConfig()
    vectors = torch.as_tensor(embeddings).detach().cpu().float()
    truth = np.asarray(labels)
    if len(truth) != len(vectors):
        raise InputError(f"got {len(vectors)} embeddings but labels of {len(truth)} nodes")
    known = np.asarray(truth.any(1) if truth.ndim == 2 else truth >= 0)
    runs = []
    for seed in seeds:
        split = _draw_parts(known, config.fractions, seed) if parts is None else np.asarray(parts)
        split = np.where(known, split, -1)
        probe = fit_probe(vectors, truth, split, config=config, seed=seed)
        test = np.flatnonzero(split == TEST)
        runs.append(node_metrics(truth[test], probe.predict(vectors[test])))
    return NodeReport(runs=runs, summary=summarize_seeds(runs))


def node_metrics(labels: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """The metrics of the paper's Table 4; `precision` is its PREC (see `metrics.precision`)."""
    return {
        "macro_f1": metrics.macro_f1(labels, predicted),
        "micro_f1": metrics.micro_f1(labels, predicted),
        "precision": metrics.precision(labels, predicted),
    }


def fit_probe(
    vectors: Tensor, labels: NDArray[Any], parts: ArrayLike, *, config: ProbeConfig, seed: int
) -> Probe:
    """Train on part 0 with early stopping on part 1; returns the best regression."""
    split = np.asarray(parts)
    for part, name in enumerate(("training", "validation", "test")):
        if not (split == part).any():
            raise InputError(
                f"there are no labeled {name} nodes; label more nodes or change the fractions"
            )
    target = torch.from_numpy(labels.astype(np.float32 if labels.ndim == 2 else np.int64))
    train, val = (torch.from_numpy(np.flatnonzero(split == part)) for part in (TRAIN, VAL))
    probe = Probe(vectors[train], labels, config.standardize)
    optimizer = torch.optim.Adam(probe.parameters(), lr=config.learning_rate)
    shuffle = torch.Generator().manual_seed(seed)
    best, best_loss, stale = probe, float("inf"), 0
    for _ in range(config.max_epochs):
        for rows in train[torch.randperm(len(train), generator=shuffle)].split(config.batch_size):
            optimizer.zero_grad()
            probe.loss(vectors[rows], target[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(probe.loss(vectors[val], target[val]))
        stale += 1
        if loss < best_loss:
            best, best_loss, stale = deepcopy(probe), loss, 0
        if stale >= config.patience:
            break
    return best


def _draw_parts(
    known: NDArray[np.bool_], fractions: tuple[float, float, float], seed: int
) -> NDArray[np.int64]:
    """A random part (0, 1 or 2) for each known node; -1 for the others."""
    nodes = np.flatnonzero(known)
    nodes = nodes[np.argsort(hash_keys(seed, _SPLIT_STREAM, nodes))]
    first, second = (int(len(nodes) * fraction + 1e-9) for fraction in np.cumsum(fractions)[:2])
    parts = np.full(len(known), -1)
    parts[nodes[:first]], parts[nodes[first:second]], parts[nodes[second:]] = TRAIN, VAL, TEST
    return parts
