"""Vectors of many edges and nodes do not depend on how they are cut into batches."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.train.encode import CACHED_TOKENS, _cut, encode_edges, encode_nodes

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@given(st.lists(st.integers(1, 64), max_size=200), st.integers(1, 300), st.integers(1, 20))
def test_chunks_keep_the_order_and_their_budget(tokens, budget, batch):
    work = np.array(tokens, np.int64)
    order = np.argsort(work, kind="stable")[::-1]
    chunks = _cut(order, work, budget, batch, GPU)
    assert np.concatenate([order[:0], *chunks]).tolist() == order.tolist()
    for chunk in chunks:
        assert len(chunk) == 1 or work[chunk].sum() <= budget
        assert 1 <= len(chunk) <= 4 * batch


def test_a_cpu_reads_no_more_at_once_than_its_cache_likes():
    work = np.full(100, 64, np.int64)
    sizes = [len(chunk) for chunk in _cut(np.arange(100), work, 10**6, 256, CPU)]
    assert sizes[0] == CACHED_TOKENS // 64
    assert sum(sizes) == 100


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_edges_are_the_same_in_batches_of_any_size(make_edges, batch):
    objective = make_edges()
    ids = objective.parts["val"][::-1].copy()
    found = encode_edges(objective.model, objective.loader, ids, device=CPU, batch=batch)
    one_by_one = [
        encode_edges(objective.model, objective.loader, ids[i : i + 1], device=CPU)
        for i in range(len(ids))
    ]
    np.testing.assert_allclose(found, np.concatenate(one_by_one), atol=1e-5)


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_nodes_are_the_same_in_batches_of_any_size(make_links, batch):
    objective = make_links()
    nodes = np.arange(objective.loader.graph.num_nodes)[::3][::-1].copy()
    found = encode_nodes(objective.model, objective.loader, nodes, device=CPU, batch=batch)
    one_by_one = [
        encode_nodes(objective.model, objective.loader, nodes[i : i + 1], device=CPU)
        for i in range(len(nodes))
    ]
    np.testing.assert_allclose(found, np.concatenate(one_by_one), atol=1e-5)
