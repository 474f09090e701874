"""The objective of edge classification: labeled batches, their loss, validation metrics."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from edgeformers import distributed
from edgeformers.data.batch import EdgeBatch, EdgeContextBatch
from edgeformers.data.loader import EdgeLoader
from edgeformers.data.types import Ids
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.models.edge_head import EdgeHead, is_known
from edgeformers.nn.node_prior import NodePrior
from edgeformers.training.node_summaries import NodeSummaries, summarize_nodes
from edgeformers.training.objective import Objective


class EdgeObjective(Objective):
    """Trains an edge model and its head on the labeled edges of their network."""

    fitted: FittedEdgeClassifier
    loader: EdgeLoader
    head: EdgeHead

    def __init__(self, fitted: FittedEdgeClassifier) -> None:
        super().__init__(fitted)
        self._class_weights = self.head.class_weights.cpu()
        prior = getattr(self.model, "prior", None)
        self.summaries = self._summarize(prior) if isinstance(prior, NodePrior) else None

    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[EdgeBatch | EdgeContextBatch]:
        own = distributed.shard(ids)
        size = micro or max(1, len(own))
        starts = range(0, len(own), size)
        return [self._batch(own[at : at + size], epoch) for at in starts]

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
        with self.autocast():
            edge_repr = self.model(self._batch(ids, epoch).to(self.device))
            logits = self.head.logits(edge_repr.float()).view(len(ids), -1)
        return np.asarray(ids[~logits.isfinite().all(1).cpu().numpy()])

    def evaluate(self, part: str) -> dict[str, float]:
        edges = self.parts[part]
        return self.head.metrics(self.fitted.predict_known(edges), self.fitted.labels_of(edges))

    def _summarize(self, prior: NodePrior) -> NodeSummaries:
        """Give the labeled training edges to a NodePrior."""
        summaries = summarize_nodes(
            self.loader.graph,
            self.loader.tokens,
            self.parts["train"],
            self.head.num_classes,
            max_tokens=self.loader.max_tokens,
            seed=self.seed,
        )
        prior.set_summaries(summaries.source, summaries.target)
        return summaries

    def _batch(self, ids: Ids, epoch: int) -> EdgeBatch | EdgeContextBatch:
        """Training edges; what their nodes are known by does not include the edge itself."""
        batch = self.loader.batch(ids, epoch=epoch)
        if self.summaries is None or not isinstance(batch, EdgeBatch):
            return batch
        return replace(batch, summaries=self.summaries.without(batch))

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
        assert piece.label is not None
        if self.head.kind in ("number", "multi"):
            return float(is_known(piece.label, self.head.kind).sum())
        known = piece.label[piece.label >= 0]
        is_weighted = self.head.loss_name == "cross_entropy"
        return float(self._class_weights[known].sum()) if is_weighted else float(len(known))
