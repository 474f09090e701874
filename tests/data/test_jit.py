"""Loops give the same as Python and compiled, and are compiled once there is enough to do."""

import numpy as np
import pyarrow as pa
import pytest

from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.filtering import k_core
from edgeformers.data.id_table import IdTable
from edgeformers.data.jit import Jit, jit
from edgeformers.data.numba_kernels import hash_strings
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.splits import EdgeList, SplitConfig, make_split

NODES, EDGES = 40, 600


@pytest.fixture(scope="module")
def arrays():
    random = np.random.default_rng(0)
    src, dst = random.integers(0, NODES, (2, EDGES)).astype(np.int32)
    dst[:60], src[:60] = 1, 0  # nearly all edges of a node lead to one other
    return src, dst, random.integers(0, 2, EDGES).astype(np.int16), random.integers(0, 9, EDGES)


def group(src, dst, strata, times):
    masks = (src % 3 > 0, dst % 5 > 0)
    both = build_adjacency(src, dst, NODES, keep=masks, strata=strata, num_strata=2)
    timed = build_adjacency(src, dst, NODES, times=times)
    return [both.indptr, both.links, timed.indptr, timed.links, timed.times]


def sample(src, dst, strata, times):
    adjacency = build_adjacency(src, dst, NODES, strata=strata, num_strata=2)
    centers, partners = np.arange(NODES), (np.arange(NODES) + 1) % NODES
    timed = EgoSampler(build_adjacency(src, dst, NODES, times=times), [4])
    samples = [
        EgoSampler(adjacency, [2, 0], seed=3).sample(centers, partners=partners),
        EgoSampler(adjacency, [5, 40]).sample(centers, epoch=2),
        timed.sample(centers, before=np.full(NODES, 5)),
    ]
    return [part for each in samples for part in (each.edge_ids, each.neighbors)]


def number_strings(src, dst, strata, times):
    table, names = IdTable(), [f"node-{i % 997}é" for i in range(3_000)]
    added = table.add(pa.array(names))
    return [added, table.find(pa.array([*names[:9], "", "nobody"]))]


def split(src, dst, strata, times):
    edges = EdgeList(src=src, dst=dst, num_nodes=NODES, directed=True, times=times)
    names = ("per-source", "chronological", "cold-source")
    return [make_split(SplitConfig.parse(name), edges) for name in names]


def filter_edges(src, dst, strata, times):
    return [k_core(src, dst, 31)]


@pytest.mark.parametrize("compute", [group, sample, number_strings, split, filter_edges])
def test_python_and_compiled_loops_give_the_same(compute, arrays, monkeypatch):
    monkeypatch.setattr(jit, "budget", 10**12)
    as_python = compute(*arrays)
    monkeypatch.setattr(jit, "budget", -1)
    for expected, compiled in zip(as_python, compute(*arrays), strict=True):
        assert expected.dtype == compiled.dtype
        np.testing.assert_array_equal(expected, compiled)


@pytest.mark.filterwarnings("error")
def test_overflowing_hashes_do_not_warn():
    data = np.frombuffer(b"abcdefgh", np.uint8)
    assert len(Jit()(hash_strings, len(data))(data, np.array([0, 3, 8]))) == 2


def test_loops_are_compiled_once_their_steps_exceed_the_budget():
    choose = Jit(budget=10)
    compiled = [hasattr(choose(hash_strings, steps), "py_func") for steps in (6, 4, 1, 0)]
    assert compiled == [False, False, True, True]


def test_a_call_of_many_steps_is_compiled_at_once():
    assert hasattr(Jit(budget=10)(hash_strings, 11), "py_func")
