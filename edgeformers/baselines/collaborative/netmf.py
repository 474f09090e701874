"""NetMF (Qiu et al., 2018): node vectors by factorizing the matrix that DeepWalk factorizes."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from edgeformers.baselines.base import (
    TrainingLinks,
    default_device,
    fold_in_means,
    training_links,
)
from edgeformers.baselines.collaborative.factors import FactorBaseline, NodeFactors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import ConfigError
from edgeformers.evaluation.links import LinkTable

DENSE_NODES = 4_000  # up to which the matrix is computed exactly
SAMPLED_PAIRS = 1 << 24  # of nodes in random walks above that size; at least `window` per link
OVERSAMPLING, ITERATIONS = 16, 8  # of the truncated SVD


@dataclass(frozen=True, kw_only=True)
class NetMFConfig:
    """Settings of one factorization."""

    width: int = 64
    window: int = 10  # T
    negatives: int = 1  # b

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ConfigError(f"NetMF {name} must be at least 1 (got {value})")


class NetMF(FactorBaseline[NetMFConfig, NodeFactors]):
    """Scores x_q . x_c, where X = U sqrt(Sigma) is the truncated SVD of log max(1, M).

    M = vol(G) / (b T) (sum over r = 1 to T of (D^-1 A)^r) D^-1, for the undirected graph A of
    positive training links over all nodes. Up to 4,000 nodes M is exact. For larger graphs it is
    estimated from random walks and stays sparse, as in NetSMF (Qiu et al., 2019), since the
    dense matrix grows quadratically. A cold node is the mean of the vectors that its profile
    links to.
    """

    default_grid = (NetMFConfig(),)

    def _fit(self, setting: NetMFConfig) -> NodeFactors:
        graph = undirected_graph(self.links)
        vectors = factorize_graph(graph, setting, seed=self.seed, device=self.device).cpu().numpy()
        queries = vectors[: self.links.train.num_queries]
        candidates = vectors[self.links.first_candidate :]
        queries, candidates = fold_in_means(self.links, queries, candidates)
        return NodeFactors(queries=queries, candidates=candidates)

    def _describe(self, setting: NetMFConfig, fitted: NodeFactors) -> dict[str, Any]:
        return asdict(setting)


def netmf_vectors(graph: EdgeTextGraph, split: str, width: int, *, seed: int = 0) -> Tensor:
    """Vectors [N, K] of all nodes from the positive training links; zero for a node without any."""
    links = undirected_graph(training_links(graph, split))
    config = NetMFConfig(width=width)
    return factorize_graph(links, config, seed=seed, device=default_device()).cpu()


def undirected_graph(links: TrainingLinks) -> LinkTable:
    """The training links over all nodes, in both directions and without self-loops."""
    size = links.first_candidate + links.train.num_candidates
    source, target = links.train.queries, links.train.candidates + links.first_candidate
    is_link = source != target
    source, target = source[is_link], target[is_link]
    both = np.concatenate([source, target]), np.concatenate([target, source])
    return LinkTable.from_pairs(*both, size, size)


def factorize_graph(
    graph: LinkTable, config: NetMFConfig, *, seed: int = 0, device: torch.device | str = "cpu"
) -> Tensor:
    """U sqrt(Sigma) [N, K] of log max(1, M), on `device`; columns beyond N are zero."""
    if graph.num_queries <= DENSE_NODES:
        matrix = deepwalk_matrix(graph, config, device)
    else:
        matrix = sample_deepwalk_matrix(graph, config, seed=seed, device=device)
    values, vectors = _top_eigenpairs(matrix, config.width, seed=seed)
    vectors = vectors * values.abs().sqrt()  # singular values of a symmetric matrix
    return F.pad(vectors, (0, config.width - vectors.size(1)))


def deepwalk_matrix(
    graph: LinkTable, config: NetMFConfig, device: torch.device | str = "cpu"
) -> Tensor:
    """The matrix log max(1, M), dense [N, N]."""
    degree = torch.from_numpy(graph.degrees).float().clamp(min=1)
    values = (1 / degree)[torch.from_numpy(graph.queries)]
    walk = _sparse_rows(graph.indptr, graph.candidates, values).to(device)  # D^-1 A
    power = walk.to_dense()
    total = power.clone()
    for _ in range(config.window - 1):
        power = walk @ power
        total += power
    volume = graph.num_links  # each link counts once in each direction
    total *= volume / (config.negatives * config.window) / degree.to(device)
    return total.clamp_(min=1).log_()


def sample_deepwalk_matrix(
    graph: LinkTable,
    config: NetMFConfig,
    *,
    pairs: int = SAMPLED_PAIRS,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """The matrix log max(1, M) estimated from random walks, as sparse rows [N, N].

    A walk of T steps starts along every link in both directions, so that the first power of
    D^-1 A is exact. Walks start in proportion to degree: M_ij = vol^2 / (b d_i d_j) P(i, j), where
    P(i, j) is the probability that a walk starts in i and is in j after 1 to T steps. M is
    symmetric, and so is the estimate.
    """
    size, volume, window = graph.num_queries, graph.num_links, config.window
    indptr, neighbors, degree = (
        torch.from_numpy(array).to(device)
        for array in (graph.indptr, graph.candidates, graph.degrees)
    )
    repeats = max(1, pairs // max(1, volume * window))
    start = torch.repeat_interleave(degree).repeat(repeats)
    node = neighbors.repeat(repeats)
    generator = torch.Generator(device).manual_seed(seed)
    visited = []
    for step in range(window):
        if step:
            drawn = torch.rand(node.shape, generator=generator, device=device)
            drawn = (drawn * degree[node]).long().minimum(degree[node] - 1)
            node = neighbors[indptr[node] + drawn]
        visited.append(torch.minimum(start, node) * size + torch.maximum(start, node))
    keys, counts = torch.cat(visited).sort().values.unique_consecutive(return_counts=True)
    first, second = keys // size, keys % size
    counts = torch.where(first == second, counts, counts / 2)  # of the two directions
    scale = volume / (repeats * window * config.negatives)
    values = (scale * counts / (degree[first] * degree[second])).clamp(min=1).log()
    kept = values > 0
    first, second, values = first[kept], second[kept], values[kept]
    above = first != second
    rows = torch.cat([first, second[above]])
    columns = torch.cat([second, first[above]])
    order = rows.argsort(stable=True)
    offsets = torch.bincount(rows, minlength=size).cumsum(0)
    return _sparse_rows(
        F.pad(offsets, (1, 0)), columns[order], torch.cat([values, values[above]])[order]
    )


def _sparse_rows(offsets: Any, columns: Any, values: Tensor) -> Tensor:
    """A square matrix of compressed sparse rows."""
    offsets, columns = torch.as_tensor(offsets), torch.as_tensor(columns)
    size = len(offsets) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # CSR is in beta
        return torch.sparse_csr_tensor(
            offsets, columns, values.float(), (size, size), check_invariants=False
        )


def _top_eigenpairs(matrix: Tensor, rank: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """The eigenvalues [K] of largest magnitude of a symmetric matrix, and eigenvectors [N, K].

    Randomized subspace iteration (Halko et al., 2011): exact if the matrix is small.
    """
    columns = min(len(matrix), rank + OVERSAMPLING)
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(len(matrix), columns, generator=generator).to(matrix.device)
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(matrix @ basis).Q
    small = basis.T @ (matrix @ basis)
    values, rotation = torch.linalg.eigh((small + small.T) / 2)
    largest = values.abs().argsort(descending=True)[:rank]
    return values[largest], basis @ rotation[:, largest]
