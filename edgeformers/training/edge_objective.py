"""Training to classify edges: batches of labelled edges, a head's loss, its metrics."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.data.batch import EdgeBatch, EdgeContextBatch
from edgeformers.data.loader import EdgeLoader, epoch_batches
from edgeformers.data.types import Ids
from edgeformers.inference.encode import Autocast, Vectors, encode_edges
from edgeformers.models.edge_head import EdgeHead, Predictions
from edgeformers.models.linear_edge_model import LinearEdgeModel


class EdgeObjective:
    """Labelled edges of a network, an edge model and a head, as the trainer wants them."""

    def __init__(
        self,
        model: nn.Module,
        head: EdgeHead,
        loader: EdgeLoader,
        parts: dict[str, Ids],
        *,
        device: torch.device,
        batch_size: int,
        seed: int,
        autocast: Autocast = nullcontext,
        eval_batch: int = 256,
        select: str | None = None,
    ) -> None:
        self.model, self.head, self.loader, self.parts = model, head, loader, parts
        self.modules: nn.Module = nn.ModuleDict({"model": model, "head": head})
        self.read: Callable[[Any], Tensor] = model  # or a faster way to call it
        self.device, self.autocast = device, autocast
        self.batch_size, self.eval_batch, self.seed = batch_size, eval_batch, seed
        self.select = select or head.primary_metric
        self._class_weights = head.class_weights.cpu()

    def batches(self, epoch: int) -> list[Ids]:
        """The training edges of every batch of an epoch."""
        train = self.parts["train"]
        places = epoch_batches(len(train), self.batch_size, seed=self.seed, epoch=epoch)
        return [train[place] for place in places]

    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[EdgeBatch | EdgeContextBatch]:
        """The edges this process has, as one batch or as pieces of at most `micro`."""
        mine = distributed.shard(ids)
        size = micro or max(1, len(mine))
        return [
            self.loader.batch(mine[at : at + size], epoch=epoch) for at in range(0, len(mine), size)
        ]

    def backward(self, batches: list[list[EdgeBatch | EdgeContextBatch]]) -> Tensor:
        """Gradients of the mean loss over all edges of all batches, however they are cut."""
        pieces = [piece for batch in batches for piece in batch]
        weights = [self._weight(piece) for piece in pieces]
        everyone = max(distributed.all_sum(sum(weights)), 1e-12)
        whole = torch.zeros((), device=self.device)
        for piece, weight in zip(pieces, weights, strict=True):
            batch = piece.to(self.device)
            with self.autocast():
                edge_repr, again = self._encode(batch)
            assert batch.label is not None
            share = weight * distributed.world_size() / everyone
            loss = self.head.loss(edge_repr, batch.label, again) * share
            loss.backward()
            whole += loss.detach()
        return whole

    @torch.no_grad()
    def find_nonfinite(self, ids: Ids, epoch: int) -> Ids:
        """Those of the edges from which the head gets something that is no number."""
        with self.autocast():
            edge_repr = self.model(self.loader.batch(ids, epoch=epoch).to(self.device))
            logits = self.head.logits(edge_repr.float()).view(len(ids), -1)
        broken = ~logits.isfinite().all(1).cpu().numpy()
        return np.asarray(ids[broken])

    def evaluate(self, part: str) -> dict[str, float]:
        """The head's metrics on a part of the split."""
        predictions = self.predict(self.parts[part])
        labels = self.loader.graph.labels
        assert labels is not None
        truth = torch.from_numpy(np.asarray(labels[self.parts[part]]))
        truth = truth if truth.is_floating_point() else truth.long()
        return self.head.metrics(predictions, truth)

    def predict(self, edge_ids: Ids, *, show: bool = False) -> Predictions:
        """What the head says of chosen edges."""
        vectors, ensemble = self.encode(edge_ids, show=show), self.head.ensemble
        self.head.eval()
        with torch.inference_mode():
            linear = None if ensemble is None else self.linear_logits(ensemble, edge_ids)
            found = self.head.predict(torch.from_numpy(vectors).to(self.device), linear)
            return Predictions.cat([found])

    def encode(self, edge_ids: Ids, *, show: bool = False) -> Vectors:
        """The vectors of chosen edges [n, D]."""
        return encode_edges(
            self.model,
            self.loader,
            edge_ids,
            device=self.device,
            autocast=self.autocast,
            batch=self.eval_batch,
            show=show,
        )

    @torch.inference_mode()
    def linear_logits(self, ensemble: LinearEdgeModel, edge_ids: Ids) -> Tensor:
        """What a linear model says of chosen edges [n, C], by their whole texts."""
        parts = [ensemble.source.new_empty(0, ensemble.source.size(1))]
        for at in range(0, len(edge_ids), self.eval_batch):
            whole = self.loader.untruncated(edge_ids[at : at + self.eval_batch]).to(self.device)
            parts.append(ensemble(whole.text, whole.src, whole.dst))
        return torch.cat(parts)

    def _encode(self, batch: EdgeBatch | EdgeContextBatch) -> tuple[Tensor, Tensor | None]:
        """The edges, and a second time where the head wants to see other parts dropped."""
        if not self.head.rdrop:
            return self.read(batch), None
        if isinstance(batch, EdgeContextBatch):
            return self.read(batch), self.read(batch)
        once, again = self.read(EdgeBatch.cat([batch, batch])).split(len(batch))
        return once, again

    def _weight(self, piece: EdgeBatch | EdgeContextBatch) -> float:
        """What the head's mean loss over a piece is divided by, so that means can be joined."""
        labels = piece.label
        assert labels is not None
        if self.head.kind in ("number", "multi"):
            unknown = labels.isnan() if self.head.kind == "number" else ~(labels >= 0)
            return float((~unknown).sum())
        known = labels[labels >= 0]
        weighed = self.head.loss_name == "cross_entropy"
        return float(self._class_weights[known].sum()) if weighed else float(len(known))
