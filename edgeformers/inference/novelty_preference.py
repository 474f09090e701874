"""A component of a link score that knows how new the targets of a source usually are."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.types import Floats, Ids, Mask, Side
from edgeformers.inference.edge_history import Arrivals, Departures, NewEdges
from edgeformers.inference.temporal_components import NoveltyComponent

PRIOR_LINKS = 5.0  # a source has so many links of mean novelty in addition to its own


class NoveltyPreferenceComponent(NoveltyComponent):
    """Novelty of a candidate, times how much more than others a source links to new targets.

    The preference of a source is the mean novelty of its targets at the times of its links, less
    the mean over all training links, shrunk toward 0. Links at the time of a target's first edge do
    not count. `sums` [N, M] are of a source's links, `counts` [N] how many, `mean` [M] is overall.
    """

    name = "novelty_preference"
    per_memory: ClassVar = (*NoveltyComponent.per_memory, "sums", "mean")

    def __init__(
        self,
        levels: Tensor,
        memory: Tensor,
        latest: Tensor | int,
        mix: Tensor | None = None,
        sums: Tensor | None = None,
        counts: Tensor | None = None,
        mean: Tensor | None = None,
    ) -> None:
        super().__init__(levels, memory, latest, mix)
        self.sums = torch.zeros_like(self.levels) if sums is None else sums.double()
        self.counts = self.sums.new_zeros(len(self.sums)) if counts is None else counts.double()
        self.mean = torch.zeros_like(self.memory) if mean is None else mean.double()
        self._changed: dict[int, tuple[Floats, float]] = {}  # source -> its sums and its count

    @classmethod
    def of(
        cls, novelty: NoveltyComponent, sources: Ids, targets: Ids, times: Ids
    ) -> "NoveltyPreferenceComponent":
        """From the links [m] that novelty was fitted on."""
        empty = cls(**novelty.tensors())
        values, counted = empty._novelty(targets, times)
        rows, sums = torch.from_numpy(sources[counted]), torch.zeros_like(empty.levels)
        sums.index_add_(0, rows, torch.from_numpy(values[counted]))
        counts = torch.bincount(rows, minlength=len(sums)).double()
        mean = sums.sum(0) / counts.sum().clamp(min=1.0)
        return cls(**empty.tensors() | {"sums": sums, "counts": counts, "mean": mean})

    def check(self, num_nodes: int) -> None:
        super().check(num_nodes)
        shapes = {
            "sums": self.levels.shape,
            "counts": self.levels.shape[:1],
            "mean": self.memory.shape,
        }
        for name, shape in shapes.items():
            tensor: Tensor = getattr(self, name)
            if tensor.shape != shape:
                raise ValueError(f"{self.name}.{name} is {list(tensor.shape)}, not {list(shape)}")
            if not tensor.isfinite().all() or (tensor < 0).any():
                raise ValueError(f"{self.name}.{name} has a value that is out of range")

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        if side == "target":
            return super().vectors(nodes, side)
        rows = [self._preference(*self._totals(node)) for node in nodes.tolist()]
        preferences = np.stack(rows) if rows else np.empty((0, len(self.memory)))
        return self._query() * torch.from_numpy(preferences).float()

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        """A source whose edges have no times has linked to its targets as of the last edge."""
        if side == "target":
            return super().fold_in(edges, side)
        known = edges.target >= 0
        values, counted = self._novelty(edges.target[known], self._times(edges)[known])
        preference = self._preference(values[counted].sum(0), float(counted.sum()))
        return self._query() * torch.from_numpy(preference).float()

    def query_without(
        self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids, source: int = -1
    ) -> Tensor:
        """As if the targets that stay were as new as those that go."""
        share = kept.sum() / max(counts.sum(), 1)
        links = float(counts.sum()) if source < 0 else self._totals(source)[1]
        return query * float(share * (links + PRIOR_LINKS) / (share * links + PRIOR_LINKS))

    def update(self, arrivals: Arrivals) -> None:
        times = self._times(arrivals.edges)[arrivals.link_edges]
        super().update(arrivals)
        values, counted = self._novelty(arrivals.link_targets, times)
        for source, value in zip(
            arrivals.link_sources[counted].tolist(), values[counted], strict=True
        ):
            total, count = self._totals(source)
            self._changed[source] = total + value, count + 1.0

    def remove(self, departures: Departures) -> None:
        """As if the targets that stay were as new as those that go.

        A source that training did not have keeps its preference when it loses a target.
        """
        super().remove(departures)
        for source, (_, counts, kept) in departures.sources.items():
            share = float(kept.sum() / max(counts.sum(), 1))
            total, count = self._totals(source)
            self._changed[source] = share * total, share * count
        self._changed[departures.node] = np.zeros(len(self.memory)), 0.0

    def _novelty(self, targets: Ids, times: Ids) -> tuple[Floats, Mask]:
        """The novelty [n, M] of targets when links came, and which links [n] count."""
        rows = self._levels.rows
        first = np.where(
            (targets < len(rows))[:, None], rows[np.minimum(targets, len(rows) - 1)], np.inf
        )
        elapsed = self._amounts(times) - first
        counted = np.isfinite(elapsed[:, 0]) & (elapsed[:, 0] > 0)
        return np.exp(-np.maximum(elapsed, 0.0)), counted

    def _totals(self, source: int) -> tuple[Floats, float]:
        """The sums [M] and the count of a source's links."""
        if source in self._changed:
            return self._changed[source]
        if source >= len(self.sums):
            return np.zeros(len(self.memory)), 0.0
        return self.sums[source].numpy(), float(self.counts[source])

    def _preference(self, sums: Floats, count: float) -> Floats:
        return np.asarray((sums - count * self.mean.numpy()) / (count + PRIOR_LINKS))
