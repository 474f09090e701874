"""Components of a link score: each knows its share, folds in new nodes and takes in new edges.

A link score is a weighted sum over components c:

    score(q, k) = sum_c w_c(q) (query_c(q) . key_c(k) + bonus_c(q, k))

`LinkScorer` holds the components and the weights. To add a component, subclass `ScoreComponent`,
list it in COMPONENTS (`saved_components.py`) and let `ensemble.py` fit it.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.types import Ids, Side
from edgeformers.evaluation import LinkTable
from edgeformers.inference.edge_history import Arrivals, Departures, NewEdges


class ScoreComponent(ABC):
    """One additive part of a link score.

    Shapes: n nodes, R the component's width.
    """

    name: ClassVar[str]  # shown to users and part of the names of saved tensors
    generation = 0  # rises when `update` has changed the keys of all nodes
    least_spread: ClassVar[float] = 1e-6  # of scores that get a time-aware weight

    @abstractmethod
    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        """The queries [n, R] of known sources, or the keys [n, R] of known targets."""

    @abstractmethod
    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        """The query [R] of a new source, or the key [R] of a new target, from its edges."""

    def fold_in_each(self, nodes: Sequence[NewEdges], side: Side) -> Tensor:
        """`fold_in` of several nodes: [n, R]."""
        return torch.stack([self.fold_in(edges, side) for edges in nodes])

    def history_parts(self, nodes: Ids, counts: Ids, source: int = -1) -> Tensor | None:
        """What each node adds to the query of a source that has `counts` links to each: [h, R].

        None if a query is not made from links. A trained query may differ from the sum. The source
        is -1 if it is new.
        """
        return None

    def query_without(
        self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids, source: int = -1
    ) -> Tensor:
        """The query [R] of a source that keeps only `kept` [h] of its `counts` edges to each node.

        It undoes `update`; what was learned from the edges stays.
        """
        return query

    def key_without(self, key: Tensor, edges: int, kept: int) -> Tensor:
        """The key [R] of a target that keeps only `kept` of the `edges` to it, as above."""
        return key

    def bonus(self, nodes: Ids, candidates: Ids) -> LinkTable | None:
        """Pairs, as positions in `nodes` and `candidates`, that score 1 on top of the product."""
        return None

    def update(self, arrivals: Arrivals) -> None:  # noqa: B027 (most trained parts stay as they are)
        """Take in edges that arrived after fitting, in time order; fitted keys stay as they are."""

    def remove(self, departures: Departures) -> None:  # noqa: B027 (as above)
        """Forget the edges of a node; what was learned from them stays."""

    def renew(self, nodes: Ids) -> None:  # noqa: B027 (most parts store nothing)
        """Compute what is stored of nodes again, after their edges have changed."""

    def check(self, num_nodes: int) -> None:  # noqa: B027 (few parts are restored)
        """Raise a ValueError if restored tensors do not fit so many nodes."""

    def tensors(self) -> dict[str, Tensor]:
        """Everything that must be saved, by the names of the arguments that restore it."""
        return {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and not name.startswith("_")
        }

    def __copy__(self) -> "ScoreComponent":
        """A component with the same tensors that takes in edges on its own."""
        return type(self)(**self.tensors())


class FactorComponent(ScoreComponent):
    """A component with fixed vectors of all nodes: queries [N, R] and keys [N, R].

    Edges that arrive change the queries of their sources. A new node has vectors that are folded
    in again with each of its edges.
    """

    def __init__(self, query: Tensor, key: Tensor) -> None:
        self.query, self.key = query.float(), key.float()
        self._changed: Mapping[Side, dict[int, Tensor]] = {"source": {}, "target": {}}

    def check(self, num_nodes: int) -> None:
        """Queries and keys [N, R]; other matrices have as many columns, and [N] or [R] rows."""
        width = self.query.size(-1)
        for name, tensor in self.tensors().items():
            rows = (width,) if name == "gram" else (num_nodes,)
            expected = () if name in ("alpha", "penalty") else (*rows, width)
            if tensor.shape != expected:
                raise ValueError(f"{self.name}.{name} is {list(tensor.shape)}, not {expected}")

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        table = self.query if side == "source" else self.key
        return current_rows(table, self._changed[side], nodes)

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        linked = edges.neighbors(side)
        has_vector = (linked >= 0) & (linked < len(self.query))
        return self._folded(*np.unique(linked[has_vector], return_counts=True), side)

    def history_parts(self, nodes: Ids, counts: Ids, source: int = -1) -> Tensor | None:
        return self._fold_in(nodes, counts, "source").float()

    def query_without(
        self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids, source: int = -1
    ) -> Tensor:
        if (kept == counts).all():
            return query
        if not kept.any():
            return torch.zeros_like(query)
        return self._without(query.double(), nodes, counts, kept).float()

    @abstractmethod
    def _without(self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids) -> Tensor:
        """As `query_without`, with a link left."""

    def update(self, arrivals: Arrivals) -> None:
        sources, queries = self._updated(arrivals)
        self._changed["source"].update(zip(sources.tolist(), queries.float(), strict=True))
        self._fold_in_again(arrivals)

    def remove(self, departures: Departures) -> None:
        changed = self._changed["source"]
        for source, links in departures.sources.items():
            if departures.history.is_as_trained(source):
                changed.pop(source, None)
            else:
                query = self.vectors(np.array([source]), "source")[0]
                changed[source] = self.query_without(query, *links, source)
        self._fold_in_again(departures)
        if departures.node >= len(self.query):
            for vectors in self._changed.values():
                vectors.pop(departures.node, None)

    def _fold_in_again(self, change: Arrivals | Departures) -> None:
        """Fold in the new nodes whose edges have changed."""
        for side, nodes in change.new_nodes.items():
            for node in nodes.tolist():
                links = change.history.links_of(node, side)
                self._changed[side][node] = self._folded(*links, side)

    def _folded(self, nodes: Ids, counts: Ids, side: Side) -> Tensor:
        """The vector [R] of a new node with `counts` edges to each node."""
        if not len(nodes):
            return self.query.new_zeros(self.query.size(1))
        return self._fold_in(nodes, counts, side).sum(0).float()

    @abstractmethod
    def _updated(self, arrivals: Arrivals) -> tuple[Ids, Tensor]:
        """The sources [n] whose queries change with new links, and their new queries [n, R]."""

    @abstractmethod
    def _fold_in(self, nodes: Ids, counts: Ids, side: Side) -> Tensor:
        """What each node adds to the vector of a new one with `counts` edges to each: [h, R]."""


class MeanComponent(FactorComponent):
    """A node is represented by the mean of the nodes that it is linked to."""

    def _fold_in(self, nodes: Ids, counts: Ids, side: Side) -> Tensor:
        linked = (self.key if side == "source" else self.query)[torch.from_numpy(nodes)]
        return linked.double() / len(nodes)

    def _without(self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids) -> Tensor:
        gone = self.key[torch.from_numpy(nodes[kept == 0])].double().sum(0)
        return (query * len(nodes) - gone) / int(np.count_nonzero(kept))

    def _updated(self, arrivals: Arrivals) -> tuple[Ids, Tensor]:
        """Every new link enters the mean with the weight of one."""
        source, target = arrivals.source[arrivals.is_new], arrivals.target[arrivals.is_new]
        nodes, position, counts = np.unique(source, return_inverse=True, return_counts=True)
        links = torch.from_numpy(arrivals.history.num_links[nodes])[:, None]
        total = self.vectors(nodes, "source") * (links - torch.from_numpy(counts)[:, None])
        total.index_add_(0, torch.from_numpy(position), self.key[target])
        return nodes, total / links


class LightGCNComponent(MeanComponent):
    """Node vectors smoothed over the training links."""

    name = "lightgcn"


class ActivityComponent(MeanComponent):
    """Vectors over time: nodes that are active at the same times score high."""

    name = "activity_profiles"

    def history_parts(self, nodes: Ids, counts: Ids, source: int = -1) -> None:
        """None: the query of a known source is made from the times of its edges."""


class ALSComponent(FactorComponent):
    """Least-squares factors of the links; a new node's factors are solved for.

    x = (gram + alpha sum n_u y_u y_u^T)^-1 sum (1 + alpha n_u) y_u over the linked nodes u, with
    n_u edges to each, and gram = Y^T Y + penalty I over all vectors Y of the other side.
    """

    name = "als"

    def __init__(self, query: Tensor, key: Tensor, gram: Tensor, alpha: Tensor | float) -> None:
        super().__init__(query, key)
        self.gram, self.alpha = gram.double(), torch.as_tensor(alpha).double()

    def _fold_in(self, nodes: Ids, counts: Ids, side: Side) -> Tensor:
        linked = (self.key if side == "source" else self.query)[torch.from_numpy(nodes)].double()
        gram = self.gram if side == "source" else self._target_gram
        weight = (self.alpha * torch.from_numpy(counts))[:, None]
        left = gram + (linked * weight).T @ linked
        solution: Tensor = torch.linalg.solve(left, ((1 + weight) * linked).T)
        return solution.T

    def _without(self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids) -> Tensor:
        solved = self._fold_in(nodes, counts, "source").sum(0)  # a trained query differs a little
        left = kept > 0
        return query - solved + self._fold_in(nodes[left], kept[left], "source").sum(0)

    def _updated(self, arrivals: Arrivals) -> tuple[Ids, Tensor]:
        """Factors are solved for again."""
        sources = np.unique(arrivals.source)
        linked = (np.unique(arrivals.history.targets_of(n), return_counts=True) for n in sources)
        rows = [self._fold_in(*links, "source").sum(0) for links in linked]
        return sources, torch.stack(rows) if rows else self.query[:0]

    @cached_property
    def _target_gram(self) -> Tensor:
        """What `gram` is for new targets, from the queries instead of the keys."""
        penalty = (self.gram - _gram(self.key)).diagonal().mean().clamp(min=1e-6)
        return _gram(self.query) + penalty * torch.eye(len(self.gram), dtype=torch.float64)


class EASEComponent(FactorComponent):
    """Item-to-item weights B of low rank, left @ key^T: a query is the sum of its items' `left`.

    The key of a new target is the ridge regression of its links on the queries, with the penalty
    that B has: (Q^T Q + penalty left^T left)^-1 sum q_u.
    """

    name = "ease"

    def __init__(
        self, query: Tensor, key: Tensor, left: Tensor, penalty: Tensor | float = 200.0
    ) -> None:
        super().__init__(query, key)
        self.left, self.penalty = left.float(), torch.as_tensor(penalty).double()

    def _fold_in(self, nodes: Ids, counts: Ids, side: Side) -> Tensor:
        linked = torch.from_numpy(nodes)
        if side == "source":
            return self.left[linked].double()
        return self.query[linked].double() @ self._target_inverse

    def _without(self, query: Tensor, nodes: Ids, counts: Ids, kept: Ids) -> Tensor:
        return query - self.left[torch.from_numpy(nodes[kept == 0])].double().sum(0)

    def _updated(self, arrivals: Arrivals) -> tuple[Ids, Tensor]:
        """The targets of new links are added."""
        source, target = arrivals.source[arrivals.is_new], arrivals.target[arrivals.is_new]
        nodes, position = np.unique(source, return_inverse=True)
        queries = self.vectors(nodes, "source")
        return nodes, queries.index_add(0, torch.from_numpy(position), self.left[target])

    @cached_property
    def _target_inverse(self) -> Tensor:
        """The pseudoinverse of Q^T Q + penalty left^T left."""
        gram = _gram(self.query) + self.penalty * _gram(self.left)
        inverse: Tensor = torch.linalg.pinv(gram, hermitian=True)
        return inverse


class ReciprocityComponent(ScoreComponent):
    """A bonus for candidates with an edge to the source: they are likely to get one back.

    For networks with one node type and directed edges. Node v has edges from
    `nodes[offsets[v] : offsets[v + 1]]`. No inner product of short vectors expresses this.
    """

    name = "reciprocity"

    def __init__(self, offsets: Tensor, nodes: Tensor) -> None:
        self.offsets, self.nodes = offsets.long(), nodes.long()
        self._arrived: dict[int, set[int]] = defaultdict(set)  # node -> nodes with an edge to it
        self._removed: set[int] = set()  # nodes that have no trained links any more

    def check(self, num_nodes: int) -> None:
        check_links(self.name, self.offsets, self.nodes, num_nodes)

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        return torch.empty(len(nodes), 0)

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return torch.empty(0)

    def bonus(self, nodes: Ids, candidates: Ids) -> LinkTable:
        rows = np.flatnonzero((nodes >= 0) & (nodes < len(self.offsets) - 1))
        position, linked = self._links.of(nodes[rows])
        if self._removed:
            removed = list(self._removed)
            kept = ~np.isin(linked, removed) & ~np.isin(nodes[rows][position], removed)
            position, linked = position[kept], linked[kept]
        arrived = [
            (at, node)
            for at, center in enumerate(nodes.tolist())
            for node in self._arrived.get(center, ())
        ]
        later, later_linked = np.array(arrived, np.int64).reshape(-1, 2).T
        linked = np.concatenate([linked, later_linked])
        column = np.full(1 + max(linked.max(initial=-1), candidates.max(initial=-1)), -1)
        known = np.flatnonzero(candidates >= 0)
        column[candidates[known]] = known
        columns, rows = column[linked], np.concatenate([rows[position], later])
        return LinkTable.from_pairs(rows[columns >= 0], columns[columns >= 0], len(nodes))

    def update(self, arrivals: Arrivals) -> None:
        """Add the new links."""
        edges = arrivals.edges
        for source, target in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
            if source >= 0 and target >= 0:
                self._arrived[target].add(source)

    def remove(self, departures: Departures) -> None:
        node = departures.node
        self._removed.add(node)
        self._arrived.pop(node, None)
        for other in departures.neighbors.tolist():
            if other in self._arrived:
                self._arrived[other].discard(node)

    @cached_property
    def _links(self) -> LinkTable:
        return LinkTable.from_csr(self.offsets.numpy(), self.nodes.numpy())


def check_links(name: str, offsets: Tensor, nodes: Tensor, num_nodes: int) -> None:
    """Raise a ValueError unless each node v has links to `nodes[offsets[v] : offsets[v + 1]]`."""
    bounds = offsets.flatten()
    rises = len(bounds) == num_nodes + 1 and bool((bounds.diff() >= 0).all())
    if not rises or bounds[0] != 0 or nodes.shape != (int(bounds[-1]),):
        raise ValueError(f"{name}.offsets do not rise to the number of links")
    if len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        raise ValueError(f"{name} has links to nodes that are not in the network")


def current_rows(table: Tensor, changed: Mapping[int, Tensor], nodes: Ids) -> Tensor:
    """The rows [n, R] of nodes in a table [N, R], or what they have changed to.

    A node that came later and has no other row has zeros.
    """
    rows = table[torch.from_numpy(np.minimum(nodes, len(table) - 1))]
    rows[torch.from_numpy(nodes >= len(table))] = 0.0
    for at, node in enumerate(nodes.tolist() if changed else ()):
        if node in changed:
            rows[at] = changed[node]
    return rows


def _gram(vectors: Tensor) -> Tensor:
    return vectors.double().T @ vectors.double()
