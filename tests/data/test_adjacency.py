"""Adjacency equals a brute-force search for the edges of each node."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.data.adjacency import build_adjacency, small_int


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(1, 8))
    ends = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends, st.integers(-1, 2), st.booleans()), max_size=30))
    src, dst, strata, keep = (np.array(c) for c in zip(*edges, strict=True)) if edges else [[]] * 4
    as_array = lambda values, dtype: np.array(values, dtype)  # noqa: E731
    return (
        num_nodes,
        as_array(src, np.int32),
        as_array(dst, np.int32),
        as_array(strata, np.int16),
        as_array(keep, bool),
    )


@settings(derandomize=True, deadline=None, max_examples=60)
@given(graphs())
def test_adjacency_equals_a_loop_over_edges(graph):
    num_nodes, src, dst, strata, keep = graph
    adjacency = build_adjacency(src, dst, num_nodes, keep=keep, strata=strata, num_strata=3)
    for node in range(num_nodes):
        for stratum in range(3):
            row = node * 3 + stratum
            edges = adjacency.edge_ids[adjacency.indptr[row] : adjacency.indptr[row + 1]]
            others = adjacency.neighbors[adjacency.indptr[row] : adjacency.indptr[row + 1]]
            expected = [
                e
                for e in range(len(src))
                if keep[e] and strata[e] == stratum and node in (src[e], dst[e])
            ]
            assert edges.tolist() == expected
            assert others.tolist() == [src[e] + dst[e] - node for e in expected]


def test_a_self_loop_occurs_once():
    adjacency = build_adjacency(np.array([0, 1]), np.array([0, 0]), 2)
    assert adjacency.edges_of(0).tolist() == [0, 1]
    assert adjacency.neighbors_of(0).tolist() == [0, 1]
    assert adjacency.degrees().tolist() == [2, 1]


def test_int32_is_used_while_it_suffices():
    assert small_int(2**31 - 1) is np.int32
    assert small_int(2**31) is np.int64


def test_an_edge_can_be_kept_at_one_end_only():
    src, dst = np.array([0, 0, 1]), np.array([2, 3, 2])
    keep = np.array([True, True, False]), np.array([True, False, True])
    adjacency = build_adjacency(src, dst, 4, keep=keep)
    assert [adjacency.edges_of(node).tolist() for node in range(4)] == [[0, 1], [], [0, 2], []]
    assert adjacency.neighbors_of(2).tolist() == [0, 1]
