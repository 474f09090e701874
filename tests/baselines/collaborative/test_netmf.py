"""NetMF against the formula of its paper in dense numpy."""

import numpy as np
import pytest
import torch

from edgeformers.baselines.collaborative import netmf as module
from edgeformers.baselines.collaborative.netmf import NetMF, NetMFConfig, netmf_vectors
from edgeformers.errors import ConfigError
from edgeformers.evaluation.links import LinkTable


def random_graph(size=30, links=90, seed=0):
    """An undirected graph in which the last node has no link."""
    ends = np.random.default_rng(seed).integers(size - 1, size=(2, links))
    ends = ends[:, ends[0] != ends[1]]
    return LinkTable.from_pairs(*np.hstack([ends, ends[::-1]]), size, size)


def dense_formula(graph, window, negatives):
    """The matrix log max(1, vol / (b T) sum of (D^-1 A)^r D^-1)."""
    adjacency = np.zeros((graph.num_queries,) * 2)
    adjacency[graph.queries, graph.candidates] = 1
    degree = adjacency.sum(1)
    inverse = np.diag(np.divide(1, degree, where=degree > 0, out=np.zeros_like(degree)))
    powers = [np.linalg.matrix_power(inverse @ adjacency, r) for r in range(1, window + 1)]
    matrix = adjacency.sum() / (negatives * window) * sum(powers) @ inverse
    return np.log(np.maximum(1, matrix))


@pytest.mark.parametrize(("window", "negatives"), [(1, 1), (10, 1), (3, 5)])
def test_vectors_are_the_truncated_svd_of_the_deepwalk_matrix(window, negatives):
    graph, config = random_graph(), NetMFConfig(width=8, window=window, negatives=negatives)
    expected = dense_formula(graph, window, negatives)
    np.testing.assert_allclose(module.deepwalk_matrix(graph, config), expected, atol=1e-5)
    vectors = module.factorize_graph(graph, config).double().numpy()
    u, s, _ = np.linalg.svd(expected)
    reference = u[:, :8] * np.sqrt(s[:8])
    np.testing.assert_allclose(vectors @ vectors.T, reference @ reference.T, atol=1e-3)
    assert not vectors[-1].round(6).any()  # a node without links


def test_random_walks_estimate_the_same_matrix():
    graph, config = random_graph(), NetMFConfig(window=4)
    sampled = module.sample_deepwalk_matrix(graph, config, pairs=4_000_000).to_dense().numpy()
    np.testing.assert_array_equal(sampled, sampled.T)
    np.testing.assert_allclose(sampled, dense_formula(graph, 4, 1), atol=0.05)
    once = module.sample_deepwalk_matrix(graph, NetMFConfig(window=1), pairs=1).to_dense().numpy()
    np.testing.assert_allclose(once, dense_formula(graph, 1, 1), atol=1e-5)  # exact


def test_a_large_graph_is_factorized_without_a_dense_matrix(monkeypatch):
    graph, config = random_graph(), NetMFConfig(width=4)
    exact = module.factorize_graph(graph, config)
    monkeypatch.setattr(module, "DENSE_NODES", 0)
    monkeypatch.delattr(module, "deepwalk_matrix")
    sampled = module.factorize_graph(graph, config)
    scores = [(vectors @ vectors.T).flatten() for vectors in (exact, sampled)]
    assert torch.corrcoef(torch.stack(scores))[0, 1] > 0.99


def test_a_node_has_one_vector_whatever_its_side(checkerboard):
    model = NetMF([NetMFConfig(width=4)]).fit(checkerboard, "given")
    queries, candidates = model.factors()
    expected = netmf_vectors(checkerboard, "given", 4).numpy()
    np.testing.assert_allclose(np.vstack([queries, candidates]), expected, atol=1e-5)
    scores = model.scores(np.arange(12), np.arange(12, 24))
    np.testing.assert_allclose(scores, expected[:12] @ expected[12:].T, atol=1e-5)
    number = np.array([int(name[1:]) for name in checkerboard.node_names(np.arange(24))])
    alike = (number[:12, None] - number[12:]) % 2 == 0
    assert scores[alike].min() > scores[~alike].max()


def test_more_dimensions_than_nodes_are_zero():
    vectors = module.factorize_graph(random_graph(6, 9), NetMFConfig(width=9))
    assert vectors.shape == (6, 9)
    assert not vectors[:, 6:].any()


def test_settings_must_be_positive():
    with pytest.raises(ConfigError, match="window"):
        NetMFConfig(window=0)
