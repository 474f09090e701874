"""The order of batches, which nodes are read how, and batches made ahead."""

import threading
import time
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.batch import ego_batch
from edgeformers.data.loader import (
    INFERENCE,
    EgoLoader,
    Prefetch,
    default_batch_size,
    epoch_batches,
    epoch_order,
)
from edgeformers.data.sampler import EgoSampler


@given(st.integers(0, 300), st.integers(1, 40), st.integers(0, 9))
def test_an_epoch_has_every_example_once(count, size, seed):
    batches = epoch_batches(count, size, seed=seed, epoch=3)
    assert len(batches) == -(-count // size)
    assert all(0 < len(batch) <= size for batch in batches)
    found = np.sort(np.concatenate([np.empty(0, int), *batches]))
    np.testing.assert_array_equal(found, np.arange(count))


def test_the_order_depends_on_seed_and_epoch_alone():
    def order(seed, epoch):
        return np.concatenate(epoch_batches(200, 8, seed=seed, epoch=epoch)).tolist()

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)
    assert epoch_order(200, 1, 2).tolist() == order(1, 2)


def test_both_ends_of_a_one_kind_network_may_be_read_with_different_neighbors(make_network):
    rows = [{"source": f"n{i % 7}", "target": f"n{i % 5}", "text": "good film"} for i in range(40)]
    graph = make_network(rows, bipartite=False)
    adjacency = graph.training_adjacency("edge")
    few, many = EgoSampler(adjacency, [1]), EgoSampler(adjacency, [4])
    loader = EgoLoader(
        graph=graph, tokens=_Tokens(), max_tokens=8, source_sampler=few, target_sampler=many
    )
    nodes = np.arange(3)
    assert loader.nodes(nodes).text.num_texts == 3
    assert loader.nodes(nodes, side="target").text.num_texts == 12
    drawn = many.sample(nodes, epoch=INFERENCE)
    found = loader.nodes(nodes, side="target").neighbor.numpy()
    np.testing.assert_array_equal(found, drawn.neighbors[drawn.mask])


@pytest.mark.parametrize("drawn", [[], [3, 0, 4], list(range(7)) * 3])
def test_links_are_the_ego_graphs_of_their_pairs_and_of_drawn_nodes_packed_at_once(
    make_network, drawn
):
    rows = [{"source": f"n{i % 7}", "target": f"n{i % 5}", "text": "good film"} for i in range(40)]
    graph = make_network(rows, bipartite=False)
    adjacency = graph.training_adjacency("edge")
    loader = EgoLoader(
        graph=graph,
        tokens=_Numbered(),
        max_tokens=8,
        source_sampler=EgoSampler(adjacency, [2]),
        target_sampler=EgoSampler(adjacency, [3]),
    )
    edges, drawn = np.array([0, 9, 11, 30]), np.array(drawn, np.int64)
    found = loader.links(edges, drawn, epoch=1)
    src, dst = (nodes[edges].astype(int) for nodes in (graph.src, graph.dst))
    around = [
        loader.source_sampler.sample(src, partners=dst, epoch=1),
        loader.target_sampler.sample(dst, partners=src, epoch=1),
        loader.target_sampler.sample(drawn, epoch=1),
    ]
    parts = [ego_batch(graph, _Numbered(), one, max_tokens=8) for one in around]
    egos = found.egos
    for name in ("center", "neighbor", "is_out"):
        assert torch.equal(getattr(egos, name), torch.cat([getattr(one, name) for one in parts]))
    assert torch.equal(egos.text.token_ids, torch.cat([one.text.token_ids for one in parts]))
    owners = [one.center[one.owner].tolist() for one in parts]
    assert egos.center[egos.owner].tolist() == [node for some in owners for node in some]
    assert egos.owner.tolist() == sorted(egos.owner.tolist())
    assert [nodes.tolist() for nodes in found.centers] == [src.tolist(), dst.tolist(), [*drawn]]
    assert found.sizes == [4, 4, len(drawn)]
    assert len(found) == max(4, len(drawn))


class _Numbered:
    """Text i has one to three tokens i."""

    def take(self, text_ids, max_tokens):
        lengths = text_ids % 3 + 1
        return np.repeat(text_ids, lengths), np.cumsum([0, *lengths])


class _Tokens:
    """Every text is two tokens."""

    def take(self, text_ids, max_tokens):
        return np.ones(2 * len(text_ids), np.int64), np.arange(len(text_ids) + 1) * 2


def test_batches_made_ahead_come_in_order():
    batches = [np.array([i]) for i in range(20)]
    ahead = Prefetch(lambda ids: int(ids[0]) ** 2, batches, ahead=3)
    assert len(ahead) == 20
    assert list(ahead) == [i**2 for i in range(20)]
    assert list(Prefetch(lambda ids: ids, [])) == []


def test_what_fails_in_the_thread_is_raised_where_the_batch_was_wanted():
    def make(ids):
        if ids[0] == 3:
            raise ValueError("batch 3 is broken")
        return int(ids[0])

    batches = iter(Prefetch(make, [np.array([i]) for i in range(9)]))
    assert [next(batches) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="batch 3 is broken"):
        next(batches)


@pytest.mark.parametrize("taken", [1, 3])
def test_leaving_early_ends_the_thread(taken):
    made = []
    before = threading.active_count()
    batches = iter(Prefetch(lambda ids: made.append(ids) or 1, [np.array([i]) for i in range(999)]))
    assert list(islice(batches, taken)) == [1] * taken
    batches.close()
    assert threading.active_count() == before
    assert len(made) <= taken + 6


def test_a_slow_consumer_is_waited_for():
    made = []
    batches = iter(Prefetch(lambda ids: made.append(ids) or 1, [np.array([i]) for i in range(50)]))
    next(batches)
    time.sleep(0.1)
    assert len(made) <= 6  # one taken, four ready, one in hand
    assert sum(1 for _ in batches) == 49


@pytest.mark.parametrize(
    ("examples", "size"),
    [(0, 16), (3_199, 16), (6_399, 16), (6_400, 32), (12_800, 64), (10**9, 64)],
)
def test_few_examples_are_learned_in_small_batches(examples, size):
    assert default_batch_size(examples) == size
