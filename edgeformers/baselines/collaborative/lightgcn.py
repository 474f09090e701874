"""LightGCN (He et al., 2020): node vectors smoothed over the training links.

Our own, since it is part of the shipped ensemble and runs on CPU or GPU without an extra
dependency. Tests compare it with PyTorch Geometric.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgeformers.baselines.collaborative.pairwise import (
    PairwiseBaseline,
    PairwiseConfig,
    Transform,
)
from edgeformers.errors import ConfigError
from edgeformers.evaluation import LinkTable


class LightGCN(PairwiseBaseline):
    """Scores e_q . e_c, where e is the mean of a node's vector over 0 to 3 propagation layers.

    A layer sums the vectors of a node's neighbors, each divided by the root of both degrees. The
    graph connects queries and candidates, so in a network with one node type a node has one
    vector as a query and another as a candidate. Every step propagates through the whole graph:
    a minute or two for 20,000 links on one core.
    """

    default_grid = tuple(PairwiseConfig(l2=l2) for l2 in (1e-2, 3e-3))

    def __init__(
        self,
        grid: Sequence[PairwiseConfig] | None = None,
        *,
        layers: int = 3,
        seed: int = 0,
        show: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(grid, seed=seed, show=show, device=device)
        if layers < 1:
            raise ConfigError(f"LightGCN needs at least one layer (got {layers})")
        self.layers = layers

    def _transform(self) -> Transform:
        adjacency = normalized_adjacency(self.links.train).to(self.device)

        def transform(queries: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
            vectors = propagate(torch.cat([queries, candidates]), adjacency, self.layers)
            return vectors[: len(queries)], vectors[len(queries) :]

        return transform


def normalized_adjacency(links: LinkTable) -> Tensor:
    """D^-1/2 A D^-1/2 over queries and then candidates, as sparse rows [Q + C, Q + C]."""
    query = torch.from_numpy(links.queries)
    candidate = torch.from_numpy(links.candidates) + links.num_queries
    ends = torch.stack([torch.cat([query, candidate]), torch.cat([candidate, query])])
    size = links.num_queries + links.num_candidates
    degree = torch.bincount(ends[0], minlength=size).float()
    values = degree[ends].prod(0).rsqrt()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # CSR is in beta, but twice as fast
        adjacency = torch.sparse_coo_tensor(ends, values, (size, size), check_invariants=False)
        return adjacency.to_sparse_csr()


def propagate(vectors: Tensor, adjacency: Tensor, layers: int) -> Tensor:
    """The mean of the vectors [V, K] and of those after each layer, with a symmetric adjacency."""
    propagated: Tensor = _Propagation.apply(vectors, adjacency, layers)
    return propagated


class _Propagation(torch.autograd.Function):
    """Gradients are propagated like vectors, since the adjacency is symmetric.

    torch would transpose it in every step, which takes most of the time.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, adjacency: Tensor, layers: int) -> Tensor:
        ctx.adjacency, ctx.layers = adjacency, layers
        total = layer = vectors
        for _ in range(layers):
            layer = torch.sparse.mm(adjacency, layer)
            total = total + layer
        return total / (layers + 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return propagate(gradient.contiguous(), ctx.adjacency, ctx.layers), None, None
