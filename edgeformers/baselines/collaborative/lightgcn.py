"""LightGCN (He et al., 2020): node vectors smoothed over the training links, and nothing else."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgeformers.baselines.collaborative.pairwise import PairwiseConfig, PairwiseLinks, Represent
from edgeformers.errors import ConfigError
from edgeformers.evaluation import LinkTable

LAYERS = 3
GRID = tuple(PairwiseConfig(l2=l2) for l2 in (1e-2, 3e-3))


class LightGCN(PairwiseLinks):
    """Scores e_q . e_c, with e the mean of a node's vector and of what 3 layers bring to it.

    A layer gives each node the sum of its neighbors' vectors, over the root of both degrees. The
    graph is that of links: rows on one side, columns on the other, so that a node of a network
    of one kind has a vector as a query and another as a candidate. Trained as BPR, every step
    through the whole graph. A query without a training link gets the candidates in the order of
    popularity. A minute or two for 20,000 links on one core.
    """

    def __init__(
        self,
        grid: Sequence[PairwiseConfig] = GRID,
        *,
        layers: int = LAYERS,
        seed: int = 0,
        show: bool = False,
    ) -> None:
        super().__init__(grid, seed=seed, show=show)
        if layers < 1:
            raise ConfigError(f"LightGCN needs a layer at least (got {layers})")
        self.layers = layers

    def _representation(self, device: torch.device) -> Represent:
        adjacency = normalized_adjacency(self.links.train).to(device)

        def represent(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
            whole = _Propagation.apply(torch.cat([rows, columns]), adjacency, self.layers)
            return whole[: len(rows)], whole[len(rows) :]

        return represent


def normalized_adjacency(links: LinkTable) -> Tensor:
    """D^-1/2 A D^-1/2 of rows and then columns, every link both ways: sparse [R + C, R + C]."""
    row = torch.from_numpy(links.queries)
    column = torch.from_numpy(links.candidates) + links.num_queries
    ends = torch.stack([torch.cat([row, column]), torch.cat([column, row])])
    size = links.num_queries + links.num_candidates
    degree = torch.bincount(ends[0], minlength=size).float()
    values = degree[ends].prod(0).rsqrt()
    return torch.sparse_coo_tensor(ends, values, (size, size), check_invariants=False).coalesce()


def propagate(vectors: Tensor, adjacency: Tensor, layers: int) -> Tensor:
    """The mean of the vectors and of every layer's: [V, K] -> [V, K]."""
    total = layer = vectors
    for _ in range(layers):
        layer = torch.sparse.mm(adjacency, layer)
        total = total + layer
    return total / (layers + 1)


class _Propagation(torch.autograd.Function):
    """`propagate`, which is linear and symmetric: a gradient goes back the same way."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, adjacency: Tensor, layers: int) -> Tensor:
        ctx.adjacency, ctx.layers = adjacency, layers
        return propagate(vectors, adjacency, layers)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return propagate(gradient, ctx.adjacency, ctx.layers), None, None
