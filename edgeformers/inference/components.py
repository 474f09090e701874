"""Fixed vectors beside a trained score: what they count, and how a source never met gets them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.errors import FormatError, InputError
from edgeformers.evaluation import DEGREES, BonusScorer, LinkTable, Scorer

Side = Literal["query", "key"]

BOUNDS = tuple(low for low, _ in DEGREES.values() if low > 1)  # (4, 11): as reports group links
GROUPS = len(BOUNDS) + 1
GROUP_NAMES = (
    *(f"{low} to {high - 1} edges" for low, high in pairwise((0, *BOUNDS))),
    f"{BOUNDS[-1]} edges or more",
)


def edge_groups(edges: Tensor) -> Tensor:
    """How many edges sources have [n] -> 0 where they are few, up to GROUPS - 1 where many."""
    return torch.bucketize(edges, torch.tensor(BOUNDS, device=edges.device), right=True)


class FoldIn(nn.Module, ABC):
    """The vector of a new source, of the `left` vectors of the nodes it is linked to.

    Shapes: N nodes, m linked nodes, R width.
    """

    left: Tensor  # [N, R]
    scale: Tensor

    def __init__(self, left: Tensor, scale: Tensor | float = 1.0) -> None:
        super().__init__()
        self.register_buffer("left", left.float())
        self._keep("scale", scale)

    def forward(self, nodes: Tensor, counts: Tensor) -> Tensor:
        """Linked nodes [m] and how often each is linked [m] -> [R]; zeros where there are none."""
        if not len(nodes):
            return self.left.new_zeros(self.left.size(1))
        return (self.scale * self.fold(self.left[nodes].double(), counts.double())).float()

    @abstractmethod
    def fold(self, left: Tensor, counts: Tensor) -> Tensor:
        """[m, R] and [m] -> [R]."""

    def _keep(self, name: str, value: Any) -> None:
        self.register_buffer(name, torch.as_tensor(value).double())


class Summed(FoldIn):
    """The sum of what it is linked to, as EASE has it."""

    def fold(self, left: Tensor, counts: Tensor) -> Tensor:
        return left.sum(0)


class Averaged(FoldIn):
    """The mean of what it is linked to, as LightGCN describes a node that was held out."""

    def fold(self, left: Tensor, counts: Tensor) -> Tensor:
        return left.mean(0)


class Solved(FoldIn):
    """Least-squares factors, as ALS solves for those it knows.

    (gram + alpha sum n_u y_u y_u^T)^-1 sum (1 + alpha n_u) y_u over what it is linked to, n_u
    times, with gram = Y^T Y + penalty I of all learned keys Y.
    """

    gram: Tensor  # [R, R]
    alpha: Tensor

    def __init__(
        self, left: Tensor, gram: Tensor, alpha: Tensor | float, scale: Tensor | float = 1.0
    ) -> None:
        super().__init__(left, scale)
        self._keep("gram", gram)
        self._keep("alpha", alpha)

    def fold(self, left: Tensor, counts: Tensor) -> Tensor:
        weight = self.alpha * counts
        table = self.gram + (left * weight[:, None]).T @ left
        solved: Tensor = torch.linalg.solve(table, ((1 + weight)[:, None] * left).sum(0))
        return solved


_KINDS = {kind.__name__.lower(): kind for kind in (Summed, Averaged, Solved)}


class Returned(nn.Module):
    """Who has an edge to a node is likelier to get one back: an amount on top of its score.

    Of a network with one kind of node and directed edges. No product of short vectors says who
    has written to whom, so these links stand as they are: node v has one from each of
    `nodes[offsets[v] : offsets[v + 1]]`, sorted. `amount` depends on how many edges v has.

    Shapes: N nodes, m links, G groups.
    """

    offsets: Tensor  # [N + 1]
    nodes: Tensor  # [m]
    amount: Tensor  # [G]

    def __init__(self, offsets: Tensor, nodes: Tensor, amount: Tensor) -> None:
        super().__init__()
        self.register_buffer("offsets", offsets.long())
        self.register_buffer("nodes", nodes.long())
        self.register_buffer("amount", amount.float())

    def among(self, queries: NDArray[np.int64], candidates: NDArray[np.int64]) -> LinkTable:
        """Which of the candidates [C] have an edge to each query [Q], both told by their place.

        A new node (-1) has none.
        """
        every = LinkTable.from_csr(self.offsets.cpu().numpy(), self.nodes.cpu().numpy())
        nobody = len(self.offsets) - 1
        known = np.where(candidates < 0, nobody, candidates)
        place, column = every.among(queries.clip(min=0), known)
        is_known = queries[place] >= 0
        return LinkTable.from_pairs(place[is_known], column[is_known], len(queries))


class LinkEnsemble(nn.Module):
    """Fixed vectors whose products are added to the trained score.

    Such are the factors of collaborative models, laid side by side. How much each of them counts,
    and the trained score, depends on how many edges a source has: `weights` has a row for every
    group of sources (`edge_groups`), the trained score first, and `group` tells that of each node.
    `new` has one way of making the vector of a new source for each model, in the same order; a
    saved one is told by its name: `new.0_summed`. What is no product of vectors, `returned`, is
    added where pairs are scored (`raise_returned`).

    Shapes: N nodes, R width of all P together, G groups, D width of the trained score's vectors.
    """

    query: Tensor  # [N, R]
    key: Tensor  # [N, R]
    weights: Tensor  # [G, 1 + P]
    group: Tensor  # [N]

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        new: Sequence[FoldIn],
        *,
        weights: Tensor,
        group: Tensor,
        returned: Returned | None = None,
    ) -> None:
        super().__init__()
        self.widths = [one.left.size(1) for one in new]
        if query.shape != key.shape or query.size(1) != sum(self.widths):
            raise InputError(
                "vectors beside a model are [N, R] of every node as query and key, and those of "
                f"new sources make up the same R (got {list(query.shape)}, {list(key.shape)} "
                f"and {self.widths})"
            )
        self.register_buffer("query", query.float())
        self.register_buffer("key", key.float())
        self.register_buffer("weights", weights.float())
        self.register_buffer("group", group.to(torch.uint8))
        named = {f"{at}_{type(one).__name__.lower()}": one for at, one in enumerate(new)}
        self.new = nn.ModuleDict(named)
        self.returned = returned

    @classmethod
    def like(cls, state: Mapping[str, Tensor], prefix: str = "ensemble.") -> "LinkEnsemble | None":
        """Room for what a saved head has beside it; None where it has nothing."""
        own = {
            name.removeprefix(prefix): value
            for name, value in state.items()
            if name.startswith(prefix)
        }
        if not own:
            return None
        if missing := {"query", "key", "weights", "group"} - own.keys():
            raise FormatError(
                "the saved model is of an earlier version: what stands beside its score lacks "
                f"{' and '.join(sorted(missing))}; train it again, in a new folder"
            )
        found: dict[str, dict[str, Tensor]] = {}
        for name in sorted(own):
            if name.startswith("new."):
                place, buffer = name.removeprefix("new.").split(".")
                found.setdefault(place, {})[buffer] = own[name]
        new = [_KINDS[place.partition("_")[2]](**buffers) for place, buffers in found.items()]
        back = {n.removeprefix("returned."): v for n, v in own.items() if n.startswith("returned.")}
        return cls(
            own["query"],
            own["key"],
            new,
            weights=own["weights"],
            group=own["group"],
            returned=Returned(**back) if back else None,
        )

    def forward(self, side: Side, nodes: Tensor, trained: Tensor) -> Tensor:
        """Nodes [n] and their vectors of the trained score [n, D] -> [n, D + R].

        A new node (-1) has zeros here, and counts as one without edges.
        """
        known = (nodes >= 0)[:, None]
        if side == "key":
            return torch.cat([trained, self.key[nodes.clamp(min=0)] * known], dim=-1)
        ensemble = self.query[nodes.clamp(min=0)] * known
        return self._weighed(trained, ensemble, self.group[nodes.clamp(min=0)] * (nodes >= 0))

    def new_query(self, trained: Tensor, linked: Tensor) -> Tensor:
        """The query of a new source with an edge to each of these nodes [m]: [D] -> [D + R].

        An edge to an unknown node (-1) is an edge.
        """
        nodes, counts = linked[linked >= 0].unique(return_counts=True)
        none = trained.new_empty(0)
        ensemble = torch.cat([none, *(one(nodes, counts) for one in self.new.values())])
        group = edge_groups(torch.tensor([len(linked)], device=linked.device))
        return self._weighed(trained[None], ensemble[None], group)[0]

    def raise_returned(
        self, scorer: Scorer, queries: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> Scorer:
        """Scores of known queries [Q] and candidates [C], with what links back to the queries."""
        if self.returned is None:
            return scorer
        amount = self.returned.amount[self.group[torch.from_numpy(queries)].long()]
        links = self.returned.among(queries, candidates)
        return BonusScorer(scorer, links, amount.cpu().numpy())

    def returned_amount(self, node: int) -> float:
        """By how much those are raised that have an edge to this node."""
        if self.returned is None:
            return 0.0
        return float(self.returned.amount[int(self.group[node])])

    def _weighed(self, trained: Tensor, ensemble: Tensor, group: Tensor) -> Tensor:
        """Vectors [n, D] and [n, R] of sources of these groups [n] -> [n, D + R]."""
        weights = self.weights[group.long()]  # [n, 1 + P]
        widths = torch.tensor([trained.size(1), *self.widths], device=weights.device)
        both = torch.cat([trained, ensemble], dim=-1)
        return both * weights.repeat_interleave(widths, dim=1)
