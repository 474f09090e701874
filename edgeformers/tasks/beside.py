"""Fixed vectors beside a trained score, and how each of them is made for a source never met."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from edgeformers.errors import InputError

Side = Literal["query", "key"]


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


class Beside(nn.Module):
    """Fixed vectors whose products are added to the trained score, which counts `own` times.

    Such are the factors of collaborative models, laid side by side. `new` has one way of making
    the vector of a new source for each of them, in the same order; a saved one is told by its
    name: `new.0_summed`.

    Shapes: N nodes, R width of all together.
    """

    query: Tensor
    key: Tensor
    own: Tensor

    def __init__(
        self, query: Tensor, key: Tensor, new: Sequence[FoldIn], *, own: float = 1.0
    ) -> None:
        super().__init__()
        widths = [one.left.size(1) for one in new]
        if query.shape != key.shape or query.size(1) != sum(widths):
            raise InputError(
                "vectors beside a model are [N, R] of every node as query and key, and those of "
                f"new sources make up the same R (got {list(query.shape)}, {list(key.shape)} "
                f"and {widths})"
            )
        self.register_buffer("query", query.float())
        self.register_buffer("key", key.float())
        self.register_buffer("own", torch.tensor(float(own)))
        named = {f"{at}_{type(one).__name__.lower()}": one for at, one in enumerate(new)}
        self.new = nn.ModuleDict(named)

    @classmethod
    def like(cls, state: Mapping[str, Tensor], prefix: str = "beside.") -> "Beside | None":
        """Room for what a saved head has beside it; None where it has nothing."""
        if f"{prefix}query" not in state:
            return None
        found: dict[str, dict[str, Tensor]] = {}
        for name in sorted(state):
            if name.startswith(f"{prefix}new."):
                place, buffer = name.removeprefix(f"{prefix}new.").split(".")
                found.setdefault(place, {})[buffer] = state[name]
        new = [_KINDS[place.partition("_")[2]](**buffers) for place, buffers in found.items()]
        return cls(state[f"{prefix}query"], state[f"{prefix}key"], new)

    def forward(self, side: Side, nodes: Tensor) -> Tensor:
        """Nodes [n] -> [n, R]; zeros of a new node."""
        table = self.query if side == "query" else self.key
        return table[nodes.clamp(min=0)] * (nodes >= 0)[:, None]

    def new_query(self, linked: Tensor) -> Tensor:
        """What speaks for a new source that is linked to these nodes [m] -> [R]."""
        nodes, counts = linked[linked >= 0].unique(return_counts=True)
        return torch.cat([one(nodes, counts) for one in self.new.values()])
