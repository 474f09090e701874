"""A component of a link score that knows a target by the sources it has so far."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgeformers.data.types import Ids, Mask, Side
from edgeformers.inference.components import ScoreComponent, current_rows
from edgeformers.inference.edge_history import Arrivals, Departures, NewEdges

SMALL = 1e-4  # a sum of vectors of about unit length that is shorter has no direction


class AudienceComponent(ScoreComponent):
    """The cosine of a source with the sources that a target has so far.

    A source is the sum of the vectors of its targets, `query` [N, R]. A target is the sum of its
    sources, each of unit length when its edge came, `key` [N, R]. Both change with every edge: a
    target that training never saw is known by its first sources, and they by such targets, each of
    which counts as the mean of its sources. `item` [N, R] are the fixed vectors of trained targets:
    those of LightGCN, or singular vectors of the links.
    """

    name = "audience"

    def __init__(self, query: Tensor, key: Tensor, item: Tensor) -> None:
        self.query, self.key, self.item = query.float(), key.float(), item.float()
        self._is_trained = self.key.any(1)  # [N], targets with links in training
        #: The sums of nodes whose edges have changed.
        self._changed: Mapping[Side, dict[int, Tensor]] = {"source": {}, "target": {}}
        #: What the later edges of source -> target have added to both, and how many they are.
        self._arrived: dict[int, dict[int, tuple[Tensor, Tensor, int]]] = defaultdict(dict)
        self._sources: dict[int, set[int]] = defaultdict(set)  # target -> sources of later edges
        self._edges: Counter[int] = Counter()  # target -> later edges

    @staticmethod
    def fit(sources: Ids, targets: Ids, item: Tensor) -> "AudienceComponent":
        """From links [m] and vectors of all targets [N, R]."""
        ends = torch.from_numpy(sources), torch.from_numpy(targets)
        item = item / item.norm(dim=1)[ends[1].unique()].median().clamp(min=SMALL)
        query = torch.zeros_like(item).index_add_(0, ends[0], item[ends[1]])
        key = torch.zeros_like(item).index_add_(0, ends[1], unit(query)[ends[0]])
        return AudienceComponent(query, key, item)

    def check(self, num_nodes: int) -> None:
        for name, tensor in self.tensors().items():
            if tensor.shape != (num_nodes, self.item.size(-1)):
                raise ValueError(f"{self.name}.{name} is {list(tensor.shape)}")

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        return unit(self._sums(nodes, side))

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        neighbors = edges.neighbors(side)
        return unit(self._added(neighbors[neighbors >= 0], side).sum(0))

    def history_parts(self, nodes: Ids, counts: Ids, source: int = -1) -> Tensor:
        parts = self._added(nodes, "source") * torch.from_numpy(counts)[:, None]
        total = parts.sum(0) if source < 0 else self._sums(np.array([source]), "source")[0]
        scaled: Tensor = parts / total.norm().clamp(min=SMALL)
        return scaled

    def query_without(
        self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids, source: int = -1
    ) -> Tensor:
        if (kept == counts).all():
            return query
        parts = self._added(nodes, "source")
        if source < 0:
            return unit(torch.from_numpy(kept).float() @ parts)
        gone = torch.from_numpy(counts - kept).float() @ parts
        return unit(self._sums(np.array([source]), "source")[0] - gone)

    def key_without(self, key: Tensor, edges: int, kept: int) -> Tensor:
        """As if the sources that stay were like those that go."""
        return key if kept else torch.zeros_like(key)

    def update(self, arrivals: Arrivals) -> None:
        ends = arrivals.link_sources.tolist(), arrivals.link_targets.tolist()
        for source, target in zip(*ends, strict=True):
            self._add_link(source, target)

    def remove(self, departures: Departures) -> None:
        node, size = departures.node, len(self.item)
        for source, (targets, counts, kept) in departures.sources.items():
            gone, own = torch.from_numpy(counts - kept).float(), torch.from_numpy(targets)
            self._add(source, "source", -(gone * self._is_trained[own]) @ self.item[own])
        for source in self._sources.pop(node, ()):
            items, _, _ = self._arrived[source].pop(node)
            if source >= size or not self._has_item(np.array([node])):  # not one of those above
                self._add(source, "source", -items)
        arrived = self._arrived.pop(node, {})
        trained = unit(self.query[node]) if node < size else self.item.new_zeros(1)
        for target, count in departures.lost.items():
            _, units, later = arrived.get(target, (0.0, 0.0, 0))
            self._sources[target].discard(node)
            self._edges[target] -= later
            self._add(target, "target", -(units + (count - later) * trained))
            if not departures.history.popularity[target]:  # only rounding error is left
                self._changed["target"][target] = torch.zeros(self.item.size(1))
        self._edges.pop(node, None)
        for changed in self._changed.values():
            changed[node] = torch.zeros(self.item.size(1))

    def _add_link(self, source: int, target: int) -> None:
        """Take in a later edge."""
        item = self._added(np.array([target]), "source")[0]
        self._add(source, "source", item)
        own = self.vectors(np.array([source]), "source")[0]
        self._add(target, "target", own)
        items, sources, count = self._arrived[source].get(target, (0.0, 0.0, 0))
        self._arrived[source][target] = items + item, sources + own, count + 1
        self._sources[target].add(source)
        self._edges[target] += 1

    def _sums(self, nodes: Ids, side: Side) -> Tensor:
        """The vectors [n, R] before they are scaled to unit length."""
        table = self.query if side == "source" else self.key
        return current_rows(table, self._changed[side], nodes)

    def _added(self, neighbors: Ids, side: Side) -> Tensor:
        """What each edge to a neighbor adds to a node on `side`: [n, R]."""
        if side == "target":
            return self.vectors(neighbors, "source")
        rows = self.item[torch.from_numpy(np.minimum(neighbors, len(self.item) - 1))]
        for at in np.flatnonzero(~self._has_item(neighbors)).tolist():
            rows[at] = self._new_item(int(neighbors[at]))
        return rows

    def _has_item(self, targets: Ids) -> Mask:
        """Which targets `item` has a vector of: those that training knew links to."""
        place = np.minimum(targets, len(self.item) - 1)
        has_item: Mask = (targets == place) & self._is_trained.numpy()[place]
        return has_item

    def _new_item(self, target: int) -> Tensor:
        """What stands for `item` [R] of a target that training never saw."""
        return self._sums(np.array([target]), "target")[0] / max(self._edges[target], 1)

    def _add(self, node: int, side: Side, amount: Tensor) -> None:
        self._changed[side][node] = self._sums(np.array([node]), side)[0] + amount


def singular_vectors(sources: Ids, targets: Ids, num_nodes: int, rank: int) -> Tensor:
    """Vectors of targets [N, R] from links [m]: right singular vectors, normalized by degrees."""
    from scipy import sparse  # slow to import
    from scipy.sparse.linalg import svds

    shape = (num_nodes, num_nodes)
    links = sparse.csr_array((np.ones(len(sources)), (sources, targets)), shape)
    links.data[:] = 1.0
    degrees = [np.sqrt(np.maximum(links.sum(axis), 1.0)) for axis in (1, 0)]
    normalized = sparse.diags_array(1 / degrees[0]) @ links @ sparse.diags_array(1 / degrees[1])
    most = min(len(np.unique(sources)), len(np.unique(targets))) - 1
    start = np.random.default_rng(0).standard_normal(num_nodes)
    _, values, vectors = svds(normalized, k=max(1, min(rank, most)), v0=start)
    vectors = vectors[values > SMALL]  # others have no fixed direction
    item = torch.zeros(num_nodes, len(vectors))
    linked = np.unique(targets)
    item[linked] = torch.from_numpy(vectors.T[linked] / degrees[1][linked, None]).float()
    return item


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1; those that are too short to have a direction stay short."""
    return F.normalize(vectors, dim=-1, eps=SMALL)
