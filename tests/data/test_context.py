"""Edges read with those around them: nothing of what is to be judged, nothing of other parts."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.batch import EdgeBatch, EdgeContextBatch
from edgeformers.data.loader import INFERENCE, EdgeLoader
from edgeformers.data.sampler import EgoSampler
from edgeformers.nn.packed import PackedText

NODES = 6
ends_and_parts = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


@dataclass
class Net:
    """A network in memory, of which a loader asks no more than this."""

    src: np.ndarray
    dst: np.ndarray
    labels: np.ndarray
    edge_types: np.ndarray | None = None


class EdgeNumbers:
    """The text of every edge is its number."""

    def take(self, text_ids, max_tokens):
        return np.asarray(text_ids), np.arange(len(text_ids) + 1)


def make_loader(edges, sizes=(3, 4), seed=0, labels=None):
    """A loader over (source, target, part) that draws around both ends from part 0 alone."""
    src, dst, part = np.array(edges).T
    labels = np.arange(len(src)) % 2 if labels is None else labels
    adjacency = build_adjacency(src, dst, NODES, keep=part == 0)
    source, target = (EgoSampler(adjacency, [size], seed=seed) for size in sizes)
    return EdgeLoader(
        graph=Net(src, dst, labels),
        tokens=EdgeNumbers(),
        max_tokens=8,
        source_sampler=source,
        target_sampler=target,
    )


def around(ego):
    """Of each center the numbers of the edges around it, and their other ends."""
    found = [[] for _ in range(len(ego))]
    rows = zip(ego.owner.tolist(), ego.text.token_ids.tolist(), ego.neighbor.tolist(), strict=True)
    for owner, edge, neighbor in rows:
        found[owner].append((edge, neighbor))
    return found


@given(ends_and_parts, st.integers(-1, 3))
def test_no_edge_between_the_ends_and_none_of_another_part_is_around(edges, epoch):
    loader, numbers = make_loader(edges), np.arange(len(edges))
    batch = loader.batch(numbers, epoch=epoch)
    assert isinstance(batch, EdgeContextBatch)
    for ego, center in ((batch.source, 0), (batch.target, 1)):
        for judged, found in enumerate(around(ego)):
            mine = edges[judged][:2]
            for edge, neighbor in found:
                *both, part = edges[edge]
                assert part == 0
                assert set(both) != set(mine)
                assert set(both) == {mine[center], neighbor}


@given(ends_and_parts)
def test_all_other_training_edges_are_around_where_there_is_room(edges):
    loader = make_loader(edges, sizes=(50, 50))
    batch = loader.batch(np.arange(len(edges)))
    for judged, found in enumerate(around(batch.source)):
        src, dst, _ = edges[judged]
        expected = [
            number
            for number, (a, b, part) in enumerate(edges)
            if part == 0 and src in (a, b) and {a, b} != {src, dst}
        ]
        assert sorted(edge for edge, _ in found) == expected


SOME = [(0, 3, 0), (0, 4, 0), (1, 3, 0), (0, 3, 1), (2, 5, 0), (1, 4, 2), (0, 5, 0), (1, 5, 0)]


def test_a_row_has_its_own_edge_and_the_sizes_of_either_side():
    batch = make_loader(SOME, sizes=(1, 3)).batch(np.array([3, 0, 5]))
    assert len(batch) == len(batch.source) == len(batch.target) == 3
    assert batch.edge.text.token_ids.tolist() == [3, 0, 5]
    assert batch.source.center.tolist() == batch.edge.src.tolist() == [0, 0, 1]
    assert batch.target.center.tolist() == batch.edge.dst.tolist() == [3, 3, 4]
    assert batch.label.tolist() == [1, 0, 1]
    assert [len(found) for found in around(batch.source)] == [1, 1, 1]
    assert around(batch.target) == [[(2, 1)], [(2, 1)], [(1, 0)]]


def test_what_other_edges_are_labelled_is_not_told():
    numbers = np.array([3, 0, 5])
    one = make_loader(SOME).batch(numbers)
    labels = np.array([9, 9, 9, 1, 9, 9, 9, 9])
    other = make_loader(SOME, labels=labels).batch(numbers)
    assert one.label.tolist() != other.label.tolist()
    for ours, theirs in ((one.source, other.source), (one.target, other.target)):
        assert vars(ours).keys() == vars(theirs).keys()
        for name, part in vars(ours).items():
            if isinstance(part, torch.Tensor):
                assert torch.equal(part, getattr(theirs, name))


def test_draws_change_with_the_epoch_and_are_the_same_in_inference():
    edges = [(0, 1 + i % 5, 0) for i in range(40)]
    loader, numbers = make_loader(edges), np.arange(8)

    def drawn(**more):
        return loader.batch(numbers, **more).source.text.token_ids.tolist()

    assert drawn(epoch=1) != drawn(epoch=2)
    assert drawn(epoch=1) == drawn(epoch=1)
    assert drawn() == drawn(epoch=INFERENCE)


def test_around_a_new_node_there_is_nothing():
    loader = make_loader(SOME, sizes=(9, 9))
    new = EdgeBatch(
        text=PackedText.from_lists([[50], [51], [52]]),
        src=torch.tensor([-1, 1, -1]),
        dst=torch.tensor([3, -1, -1]),
    )
    batch = loader.with_context(new)
    assert batch.edge is new
    assert [len(found) for found in around(batch.source)] == [0, 2, 0]
    assert [len(found) for found in around(batch.target)] == [2, 0, 0]
    assert batch.source.center.tolist() == [-1, 1, -1]


def test_without_samplers_an_edge_stands_alone():
    loader = make_loader(SOME)
    alone = EdgeLoader(graph=loader.graph, tokens=loader.tokens, max_tokens=8)
    assert isinstance(alone.batch(np.array([1, 2])), EdgeBatch)


def test_all_texts_are_one_after_another_and_the_batch_moves_as_one():
    batch = make_loader(SOME).batch(np.array([3, 5]))
    parts = (batch.edge.text, batch.source.text, batch.target.text)
    expected = [token for part in parts for token in part.token_ids.tolist()]
    assert batch.texts.token_ids.tolist() == expected
    assert batch.texts is batch.texts
    far = batch.to("meta")
    found = (far.edge.src, far.source.owner, far.target.egos.offsets, far.texts.token_ids)
    assert {part.device.type for part in found} == {"meta"}
    assert far.texts.num_texts == batch.texts.num_texts


@pytest.mark.parametrize("count", [0, 1])
def test_no_edge_and_one_edge_are_batches_too(count):
    batch = make_loader(SOME).batch(np.arange(count))
    assert len(batch) == len(batch.source) == count
    assert batch.texts.num_texts == count + batch.source.text.num_texts + len(batch.target.neighbor)
