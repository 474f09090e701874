"""The objective of edge classification: labeled batches, their loss, validation metrics."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.data.batch import EdgeBatch, EdgeContextBatch
from edgeformers.data.loader import default_batch_size, epoch_batches
from edgeformers.data.types import Ids
from edgeformers.inference.fitted_edges import FittedEdgeClassifier


class EdgeObjective:
    """Trains an edge model and its head on the labeled edges of their network."""

    def __init__(self, fitted: FittedEdgeClassifier) -> None:
        train = fitted.config.train
        self.fitted = fitted
        self.model, self.head = fitted.model, fitted.head
        self.loader, self.parts = fitted.network.loader, fitted.network.parts
        self.modules: nn.Module = nn.ModuleDict({"model": self.model, "head": self.head})
        self.read: Callable[[Any], Tensor] = self.model  # or a faster way to call it
        self.device, self.autocast = fitted.device, fitted.options.autocast
        self.batch_size = train.batch_size or default_batch_size(len(self.parts["train"]))
        self.seed, self.select = train.seed, fitted.select_metric
        self._class_weights = self.head.class_weights.cpu()

    def batches(self, epoch: int) -> list[Ids]:
        """The training edges of every batch of an epoch."""
        train = self.parts["train"]
        batches = epoch_batches(len(train), self.batch_size, seed=self.seed, epoch=epoch)
        return [train[batch] for batch in batches]

    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[EdgeBatch | EdgeContextBatch]:
        """The edges of a batch for this process, in pieces of at most `micro`."""
        own = distributed.shard(ids)
        size = micro or max(1, len(own))
        starts = range(0, len(own), size)
        return [self.loader.batch(own[at : at + size], epoch=epoch) for at in starts]

    def backward(self, batches: list[list[EdgeBatch | EdgeContextBatch]]) -> Tensor:
        """Add the gradients of the mean loss over all edges, however they are cut; the loss."""
        pieces = [piece for batch in batches for piece in batch]
        weights = [self._weight(piece) for piece in pieces]
        total_weight = max(distributed.all_sum(sum(weights)), 1e-12)
        total = torch.zeros((), device=self.device)
        for piece, weight in zip(pieces, weights, strict=True):
            batch = piece.to(self.device)
            with self.autocast():
                edge_repr, second = self._encode(batch)
            assert batch.label is not None
            share = weight * distributed.world_size() / total_weight
            loss = self.head.loss(edge_repr, batch.label, second) * share
            loss.backward()
            total += loss.detach()
        return total

    @torch.no_grad()
    def find_nonfinite(self, ids: Ids, epoch: int) -> Ids:
        """The edges with logits that are not finite."""
        with self.autocast():
            edge_repr = self.model(self.loader.batch(ids, epoch=epoch).to(self.device))
            logits = self.head.logits(edge_repr.float()).view(len(ids), -1)
        return np.asarray(ids[~logits.isfinite().all(1).cpu().numpy()])

    def evaluate(self, part: str) -> dict[str, float]:
        """The head's metrics on a part of the split."""
        edges = self.parts[part]
        return self.head.metrics(self.fitted.predict_known(edges), self.fitted.labels_of(edges))

    def _encode(self, batch: EdgeBatch | EdgeContextBatch) -> tuple[Tensor, Tensor | None]:
        """The edges, and with R-Drop a second time with another dropout mask."""
        if not self.head.rdrop:
            return self.read(batch), None
        if isinstance(batch, EdgeContextBatch):
            return self.read(batch), self.read(batch)
        first, second = self.read(EdgeBatch.cat([batch, batch])).split(len(batch))
        return first, second

    def _weight(self, piece: EdgeBatch | EdgeContextBatch) -> float:
        """What the mean loss of a piece was divided by, to combine the means of pieces."""
        labels = piece.label
        assert labels is not None
        if self.head.kind in ("number", "multi"):
            unknown = labels.isnan() if self.head.kind == "number" else ~(labels >= 0)
            return float((~unknown).sum())
        known = labels[labels >= 0]
        is_weighted = self.head.loss_name == "cross_entropy"
        return float(self._class_weights[known].sum()) if is_weighted else float(len(known))
