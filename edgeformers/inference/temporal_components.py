"""Components of a link score that know when edges came.

Their vectors change only with edges, never with the clock. An edge costs the same however large the
network is.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.times import DAY
from edgeformers.data.types import Floats, Ids, Side
from edgeformers.inference.components import EASEComponent, ScoreComponent, check_links
from edgeformers.inference.edge_history import Arrivals, Departures, NewEdges
from edgeformers.inference.growing import GrowingArray

MAX_EXPONENT = 80.0  # keys are exponentials in single precision; above this, in a new unit


class DecayingComponent(ScoreComponent):
    """A mix of exp(power (L_u - reference)) of each candidate u, over several memories.

    L_u is the logarithm of a decaying sum over edges: an edge at time t adds in units of
    exp(t / memory). Keys are exp(power (L_u - unit)); the query, the same for all sources, has the
    mix and the reference. `levels` [N, M] are L, -inf without edges.
    """

    power = 1.0
    per_memory: ClassVar[Sequence[str]] = ("levels", "memory", "mix")  # tensors that end in M

    def __init__(
        self,
        levels: Tensor,
        memory: Tensor | float | Sequence[float],
        latest: Tensor | int,
        mix: Tensor | None = None,
    ) -> None:
        self.levels = levels.double().reshape(len(levels), -1)  # one memory may have no dimension
        self.memory = torch.as_tensor(memory).double().reshape(-1)  # [M], days
        self.latest = torch.as_tensor(latest).long()  # time of the last edge, microseconds
        self.mix = torch.ones_like(self.memory) if mix is None else mix.double()  # [M]
        self._levels = GrowingArray(self.levels.clone().numpy())
        self._latest = int(self.latest)
        top = self._levels.rows.max(0, initial=-np.inf)
        self._top: Floats = np.where(np.isneginf(top), 0.0, top)
        self._unit = self._reference()

    @classmethod
    def fit(cls, targets: Ids, times: Ids, num_nodes: int, memory: float | Sequence[float]) -> Self:
        """From links in time order: their targets [m] and times [m]."""
        memories = np.atleast_1d(memory).astype(float)
        levels = np.full((num_nodes, len(memories)), -np.inf)
        cls._add(levels, targets, times[:, None] / (DAY * memories))
        latest = int(times.max()) if len(times) else 0
        return cls(torch.from_numpy(levels), torch.from_numpy(memories), latest)

    def each(self) -> list[Self]:
        """A component for each memory alone."""
        tensors, own = self.tensors(), set(self.per_memory)
        return [
            type(self)(**{n: t[..., at : at + 1] if n in own else t for n, t in tensors.items()})
            for at in range(len(self.memory))
        ]

    def mixed(self, mix: Tensor) -> Self:
        """The same with another mix [M]."""
        return type(self)(**self.tensors() | {"mix": mix})

    @staticmethod
    @abstractmethod
    def _add(levels: Floats, targets: Ids, amounts: Floats) -> None:
        """Add links in time order, with amounts [m, M], to the levels of their targets."""

    def check(self, num_nodes: int) -> None:
        shape = (num_nodes, len(self.memory))
        if self.levels.shape != shape or self.mix.shape != shape[1:] or self.latest.shape:
            raise ValueError(f"{self.name}.levels are {list(self.levels.shape)}, not {list(shape)}")
        if not (self.memory > 0).all() or not (self.levels < torch.inf).all():
            raise ValueError(f"{self.name} has a memory or levels that are out of range")

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        if side == "source":
            return self._query().expand(len(nodes), -1)
        rows = self._levels.rows
        is_known = (nodes < len(rows))[:, None]
        return self._keys(np.where(is_known, rows[np.minimum(nodes, len(rows) - 1)], -np.inf))

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        """The key of a target counts edges to known sources, now unless they have times."""
        if side == "source":
            return self._query()
        level = np.full((1, len(self.memory)), -np.inf)
        known = edges.neighbors(side) >= 0
        times = self._times(edges)[known]
        self._add(level, np.zeros(len(times), np.int64), self._amounts(times))
        return self._keys(level)[0]

    def update(self, arrivals: Arrivals) -> None:
        edges, rows = arrivals.edges, self._levels.rows
        targets, times = arrivals.link_targets, self._times(edges)[arrivals.link_edges]
        missing = int(targets.max(initial=-1)) + 1 - len(rows)
        self._levels.append(np.full((max(0, missing), len(self.memory)), -np.inf))
        self._add(self._levels.rows, targets, self._amounts(times))
        self._latest = max(self._latest, int(times.max(initial=self._latest)))
        self._top = np.maximum(self._top, self._levels.rows[targets].max(0, initial=-np.inf))
        if (self.power * (self._reference() - self._unit) > MAX_EXPONENT).any():
            self._unit = self._reference()
            self.generation += 1

    def remove(self, departures: Departures) -> None:
        """Lower the sums of targets, as if the edges they lose were of the same age as the rest."""
        for node, count in departures.lost.items():
            kept = int(departures.history.popularity[node])
            if node < len(self._levels.rows):
                self._levels.rows[node] += self._change(kept + count, kept)

    def key_without(self, key: Tensor, edges: int, kept: int) -> Tensor:
        return key * float(np.exp(self.power * self._change(edges, kept)))

    @abstractmethod
    def _change(self, edges: int, kept: int) -> float:
        """By how much L changes if a target keeps only some of its edges."""

    def _reference(self) -> Floats:
        """The level [M] that scores 1: the highest."""
        return self._top

    def _query(self) -> Tensor:
        decay = np.exp(-self.power * (self._reference() - self._unit))
        return (self.mix * torch.from_numpy(decay)).float()

    def _keys(self, levels: Floats) -> Tensor:
        return torch.from_numpy(np.exp(self.power * (levels - self._unit))).float()

    def _amounts(self, times: Ids) -> Floats:
        return np.asarray(times[:, None] / (DAY * self.memory.numpy()))

    def _times(self, edges: NewEdges) -> Ids:
        """The times of new edges; those without are as late as the last one."""
        if edges.times is None:
            return np.full(len(edges), self._latest)
        return edges.times


class RecentPopularityComponent(DecayingComponent):
    """The root of a candidate's recent links, sum_e exp(-age_e / memory), relative to the most."""

    name = "recent_popularity"
    power = 0.5

    @staticmethod
    def _add(levels: Floats, targets: Ids, amounts: Floats) -> None:
        np.logaddexp.at(levels, targets, amounts)

    def _change(self, edges: int, kept: int) -> float:
        return float(np.log(kept / edges)) if kept else -np.inf


class FlatPopularityComponent(RecentPopularityComponent):
    """The same with a power close to 0, which is close to a logarithm.

    It tells a candidate with one recent link from one with none; the root tells large numbers
    apart.
    """

    name = "flat_popularity"
    power = 0.15


class NoveltyComponent(DecayingComponent):
    """exp(-age / memory) of a candidate's first edge, as of the last edge of all.

    Where all targets are years old, novelty over a few days is almost 0 and gets no weight: on that
    scale, the first new target would decide everything.
    """

    name = "novelty"
    least_spread: ClassVar = 1e-3  # one new target in a million has this much

    @staticmethod
    def _add(levels: Floats, targets: Ids, amounts: Floats) -> None:
        nodes, at = np.unique(targets, return_inverse=True)
        first = np.full((len(nodes), amounts.shape[1]), np.inf)
        np.minimum.at(first, at, amounts)
        levels[nodes] = np.where(np.isneginf(levels[nodes]), first, levels[nodes])

    def _change(self, edges: int, kept: int) -> float:
        return 0.0 if kept else -np.inf

    def _reference(self) -> Floats:
        return np.asarray(self._latest / (DAY * self.memory.numpy()))


class RecentHistoryComponent(EASEComponent):
    """EASE with the links of a source weighted by exp(-age / memory), from its last link on.

    The weights are divided by a power of their sum: 0 adds up all links, 1 takes their mean. Source
    v has links to `targets[offsets[v] : offsets[v + 1]]`, each once, last at `times`.
    """

    name = "recent_history"

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        left: Tensor,
        penalty: Tensor | float,
        offsets: Tensor,
        targets: Tensor,
        times: Tensor,
        memory: Tensor | float,
        power: Tensor | float = 0.0,  # of models saved before there was another
    ) -> None:
        super().__init__(query, key, left, penalty)
        self.offsets, self.targets, self.times = offsets.long(), targets.long(), times.long()
        self.memory = torch.as_tensor(memory).double()  # days
        self.power = torch.as_tensor(power).double()
        self._arrived: dict[int, dict[int, int]] = defaultdict(dict)  # source -> target -> time
        self._gone: dict[int, set[int]] = defaultdict(set)  # source -> targets
        self._latest = int(self.times.max()) if len(self.times) else 0

    @classmethod
    def fit(
        cls,
        ease: EASEComponent,
        sources: Ids,
        targets: Ids,
        times: Ids,
        memory: float,
        power: float,
    ) -> "RecentHistoryComponent":
        """From links in time order, with the weights of a fitted EASE."""
        num_nodes = len(ease.query)
        pairs, last = np.unique((sources * num_nodes + targets)[::-1], return_index=True)
        counts = np.bincount(pairs // num_nodes, minlength=num_nodes)
        return cls(
            query=ease.query,
            key=ease.key,
            left=ease.left,
            penalty=ease.penalty,
            offsets=torch.from_numpy(np.append(0, np.cumsum(counts))),
            targets=torch.from_numpy(pairs % num_nodes),
            times=torch.from_numpy(np.ascontiguousarray(times[::-1][last])),
            memory=memory,
            power=power,
        )

    def check(self, num_nodes: int) -> None:
        for tensor in (self.query, self.key, self.left):
            if tensor.shape != self.query.shape or len(tensor) != num_nodes or tensor.dim() != 2:
                raise ValueError(f"{self.name} has vectors of {list(tensor.shape)}")
        check_links(self.name, self.offsets, self.targets, num_nodes)
        if self.times.shape != self.targets.shape:
            raise ValueError(f"{self.name}.times do not have one time per link")
        if self.memory.shape or not self.memory > 0:
            raise ValueError(f"{self.name}.memory must be above 0 days")
        if self.power.shape or not 0 <= self.power <= 1:
            raise ValueError(f"{self.name}.power must be between 0 and 1")

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        if side == "target":
            return super().vectors(nodes, side)
        rows = [self._sum(*self._links_of(node)) for node in nodes.tolist()]
        return torch.stack(rows) if rows else self.left[:0]

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        """A new source whose edges have no times has all of them at once, as with EASE."""
        if side == "target":
            return super().fold_in(edges, side)
        usable = (edges.target >= 0) & (edges.target < len(self.left))
        times = np.zeros(len(edges), np.int64) if edges.times is None else edges.times
        last = dict(zip(edges.target[usable].tolist(), times[usable].tolist(), strict=True))
        return self._sum(*_arrays(last))

    def history_parts(self, nodes: Ids, counts: Ids, source: int = -1) -> Tensor:
        return self.left[torch.from_numpy(nodes)] * self._weights_of(source, nodes)[:, None]

    def query_without(
        self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids, source: int = -1
    ) -> Tensor:
        """Without its last link, the others of a source are as old as before.

        The links of a source that is not known (-1) count as equally old.
        """
        if (kept == counts).all():
            return query
        weights, left = self._weights_of(source, nodes), torch.from_numpy(kept > 0)
        remaining = float(weights[left].sum() / weights.sum().clamp(min=1e-12))
        if not remaining:
            return torch.zeros_like(query)
        gone = weights[~left] @ self.left[torch.from_numpy(nodes[kept == 0])]
        rest: Tensor = (query - gone) / remaining ** float(self.power)
        return rest

    def update(self, arrivals: Arrivals) -> None:
        edges = arrivals.edges
        times = np.full(len(edges), self._latest) if edges.times is None else edges.times
        self._latest = max(self._latest, int(times.max(initial=self._latest)))
        ends = zip(
            arrivals.link_sources.tolist(),
            arrivals.link_targets.tolist(),
            times[arrivals.link_edges].tolist(),
            strict=True,
        )
        for source, target, time in ends:
            if target < len(self.left):
                own = self._arrived[source]
                own[target] = max(time, own.get(target, time))
                self._gone[source].discard(target)
        self._fold_in_again(arrivals)

    def remove(self, departures: Departures) -> None:
        for source, (targets, _, kept) in departures.sources.items():
            gone = targets[kept == 0].tolist()
            self._gone[source].update(gone)
            for target in gone:
                self._arrived[source].pop(target, None)
        self._arrived.pop(departures.node, None)
        for neighbor in departures.neighbors.tolist():
            self._arrived.get(neighbor, {}).pop(departures.node, None)
        self._fold_in_again(departures)
        self._changed["target"].pop(departures.node, None)

    def _links_of(self, source: int) -> tuple[Ids, Ids]:
        """The targets of a source that have vectors, and the time of its last link to each."""
        last: dict[int, int] = {}
        if 0 <= source < len(self.left):
            own = slice(*self.offsets[source : source + 2].tolist())
            last = dict(zip(self.targets[own].tolist(), self.times[own].tolist(), strict=True))
        for target, time in self._arrived.get(source, {}).items():
            last[target] = max(time, last.get(target, time))
        for target in self._gone.get(source, ()):
            last.pop(target, None)
        return _arrays(last)

    def _sum(self, targets: Ids, times: Ids) -> Tensor:
        weights = torch.from_numpy(self._decay(times))
        return weights @ self.left[torch.from_numpy(targets)]

    def _weights_of(self, source: int, nodes: Ids) -> Tensor:
        """The weight of each node in the history of a source, which is -1 if it is new."""
        if source < 0:
            return torch.from_numpy(self._decay(np.zeros(len(nodes), np.int64)))
        targets, times = self._links_of(source)
        weights = dict(zip(targets.tolist(), self._decay(times).tolist(), strict=True))
        return torch.tensor([weights.get(node, 0.0) for node in nodes.tolist()])

    def _decay(self, times: Ids) -> Floats:
        latest = times.max() if len(times) else 0
        weights = np.exp((times - latest) / (DAY * float(self.memory)))
        return np.asarray(weights / max(weights.sum(), 1.0) ** float(self.power), np.float32)


def _arrays(last: Mapping[int, int]) -> tuple[Ids, Ids]:
    return np.array([*last], np.int64), np.array([*last.values()], np.int64)
