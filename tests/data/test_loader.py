"""Loaders: the order of batches, ego graphs without leaks, and default batch sizes."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data import loader
from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.batch import EdgeBatch, EdgeContextBatch
from edgeformers.data.loader import (
    INFERENCE,
    EdgeLoader,
    EgoLoader,
    EpochBatches,
    default_batch_size,
    epoch_order,
)
from edgeformers.data.sampler import EgoSampler
from edgeformers.nn.packed import PackedText


@given(st.integers(0, 300), st.integers(1, 40), st.integers(0, 9), st.booleans())
def test_an_epoch_has_every_example_once(count, size, seed, is_large):
    examples = np.arange(count) * 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "MAX_SORTED", -1 if is_large else 10**9)
        batches = EpochBatches(examples, size, seed=seed, epoch=3)
    assert len(batches) == -(-count // size)
    assert all(0 < len(batch) <= size for batch in batches)
    found = np.sort(np.concatenate([np.empty(0, int), *batches]))
    np.testing.assert_array_equal(found, examples)


@pytest.mark.parametrize("most", [0, 1000])
def test_the_order_depends_on_seed_and_epoch_only(monkeypatch, most):
    monkeypatch.setattr(loader, "MAX_SORTED", most)

    def order(seed, epoch):
        batches = EpochBatches(np.arange(200), 8, seed=seed, epoch=epoch)
        assert [batch.tolist() for batch in batches[3:5]] == [batches[i].tolist() for i in (3, 4)]
        return np.concatenate(batches).tolist()

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)
    assert most == 0 or epoch_order(200, 1, 2).tolist() == order(1, 2)


@pytest.mark.parametrize(
    ("size", "least", "sizes"), [(3, 2, [3, 3]), (3, 1, [3, 3, 1]), (1, 2, [])]
)
def test_a_batch_that_is_too_small_is_left_out(size, least, sizes):
    batches = EpochBatches(np.arange(7), size, seed=0, epoch=0, least=least)
    assert [len(batch) for batch in batches] == sizes


def test_sources_and_targets_of_one_type_may_have_different_neighbor_counts(make_network):
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
    sample = many.sample(nodes, epoch=INFERENCE)
    neighbors = loader.nodes(nodes, side="target").neighbor.numpy()
    np.testing.assert_array_equal(neighbors, sample.neighbors[sample.mask])


@pytest.mark.parametrize("negatives", [[], [3, 0, 4], list(range(7)) * 3])
def test_links_are_the_ego_graphs_of_pairs_and_negatives(make_network, negatives):
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
    edges, negatives = np.array([0, 9, 11, 30]), np.array(negatives, np.int64)
    batch = loader.links(edges, negatives, epoch=1)
    src, dst = (nodes[edges].astype(int) for nodes in (graph.src, graph.dst))
    samples = [
        loader.source_sampler.sample(src, partners=dst, epoch=1),
        loader.target_sampler.sample(dst, partners=src, epoch=1),
        loader.target_sampler.sample(negatives, epoch=1),
    ]
    egos = batch.egos
    for sample, rows in zip(samples, batch.by_role(torch.arange(len(egos))), strict=True):
        assert egos.center[rows].tolist() == sample.center.tolist()
        for row, one in enumerate(rows.tolist()):
            own, kept = egos.owner == one, sample.mask[row]
            assert egos.neighbor[own].tolist() == sample.neighbors[row][kept].tolist()
            edges_out = graph.src[sample.edge_ids[row][kept]] == sample.center[row]
            assert egos.is_out[own].tolist() == edges_out.tolist()
    assert egos.owner.tolist() == sorted(egos.owner.tolist())
    assert len(batch) == max(4, len(negatives))


def test_a_target_that_repeats_with_the_same_edges_is_encoded_once(make_network):
    rows = [{"source": f"u{i}", "target": "popular", "text": "good film"} for i in range(40)]
    graph = make_network(rows)
    sampler = EgoSampler(graph.training_adjacency("edge"), [3])
    loader = EgoLoader(
        graph=graph,
        tokens=_Numbered(),
        max_tokens=8,
        source_sampler=sampler,
        target_sampler=sampler,
    )
    edges, popular = np.arange(20), graph.dst[:2].astype(np.int64)
    batch = loader.links(edges, popular, epoch=0)
    distinct = len(batch.egos) - len(edges)
    assert 1 <= distinct <= 4  # at most one more for each of the three edges that a pair excludes
    partner, owner = graph.src[edges], batch.by_role(torch.arange(len(batch.egos)))[1]
    for source, row in zip(partner.tolist(), owner.tolist(), strict=True):
        assert source not in batch.egos.neighbor[batch.egos.owner == row].tolist()


class _Numbered:
    """Text i has one to three tokens i."""

    states = None

    def take(self, text_ids, max_tokens):
        lengths = text_ids % 3 + 1
        return np.repeat(text_ids, lengths), np.cumsum([0, *lengths])


class _Tokens:
    """Every text is two tokens."""

    states = None

    def take(self, text_ids, max_tokens):
        return np.ones(2 * len(text_ids), np.int64), np.arange(len(text_ids) + 1) * 2


@pytest.mark.parametrize(
    ("examples", "size"),
    [(0, 16), (3_199, 16), (6_399, 16), (6_400, 32), (12_800, 64), (10**9, 64)],
)
def test_few_examples_get_small_batches(examples, size):
    assert default_batch_size("edge-classification", examples) == size


@pytest.mark.parametrize("examples", [0, 10**9])
def test_links_have_the_same_batches_in_every_network_on_a_cpu(examples):
    assert default_batch_size("link-prediction", examples) == 128


@pytest.mark.parametrize(
    ("examples", "edges", "links"),
    [
        (6_399, 16, 128),
        (102_399, 64, 128),
        (128_000, 128, 256),
        (256_000, 256, 512),
        (600_000, 512, 1_024),
        (10**9, 1_024, 1_024),
    ],
)
def test_many_examples_get_large_batches_on_a_gpu(examples, edges, links):
    assert default_batch_size("edge-classification", examples, gpu=True) == edges
    assert default_batch_size("link-prediction", examples, gpu=True) == links


NODES = 6
ends_and_parts = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


@dataclass
class Net:
    """The attributes of a network that a loader uses."""

    src: np.ndarray
    dst: np.ndarray
    labels: np.ndarray
    edge_types: np.ndarray | None = None


class EdgeNumbers:
    """The text of every edge is its number."""

    states = None

    def take(self, text_ids, max_tokens):
        return np.asarray(text_ids), np.arange(len(text_ids) + 1)


def make_loader(edges, sizes=(3, 4), seed=0, labels=None):
    """A loader of (source, target, part) edges that samples from part 0 only."""
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
    """For each center, the numbers of the edges around it and their other ends."""
    egos = [[] for _ in range(len(ego))]
    rows = zip(ego.owner.tolist(), ego.text.token_ids.tolist(), ego.neighbor.tolist(), strict=True)
    for owner, edge, neighbor in rows:
        egos[owner].append((edge, neighbor))
    return egos


@given(ends_and_parts, st.integers(-1, 3))
def test_ego_graphs_contain_neither_the_predicted_pair_nor_other_parts(edges, epoch):
    loader, numbers = make_loader(edges), np.arange(len(edges))
    batch = loader.batch(numbers, epoch=epoch)
    assert isinstance(batch, EdgeContextBatch)
    for ego, center in ((batch.source, 0), (batch.target, 1)):
        for predicted, neighborhood in enumerate(around(ego)):
            pair = edges[predicted][:2]
            for edge, neighbor in neighborhood:
                *both, part = edges[edge]
                assert part == 0
                assert set(both) != set(pair)
                assert set(both) == {pair[center], neighbor}


@given(ends_and_parts)
def test_ego_graphs_contain_all_other_training_edges_if_sizes_allow(edges):
    loader = make_loader(edges, sizes=(50, 50))
    batch = loader.batch(np.arange(len(edges)))
    for predicted, neighborhood in enumerate(around(batch.source)):
        src, dst, _ = edges[predicted]
        expected = [
            number
            for number, (a, b, part) in enumerate(edges)
            if part == 0 and src in (a, b) and {a, b} != {src, dst}
        ]
        assert sorted(edge for edge, _ in neighborhood) == expected


EDGES = [(0, 3, 0), (0, 4, 0), (1, 3, 0), (0, 3, 1), (2, 5, 0), (1, 4, 2), (0, 5, 0), (1, 5, 0)]


def test_each_side_has_its_own_sample_size():
    batch = make_loader(EDGES, sizes=(1, 3)).batch(np.array([3, 0, 5]))
    assert len(batch) == len(batch.source) == len(batch.target) == 3
    assert batch.edge.text.token_ids.tolist() == [3, 0, 5]
    assert batch.source.center.tolist() == batch.edge.src.tolist() == [0, 0, 1]
    assert batch.target.center.tolist() == batch.edge.dst.tolist() == [3, 3, 4]
    assert batch.label.tolist() == [1, 0, 1]
    assert [len(edges) for edges in around(batch.source)] == [1, 1, 1]
    assert around(batch.target) == [[(2, 1)], [(2, 1)], [(1, 0)]]


def test_labels_of_other_edges_are_not_visible():
    numbers = np.array([3, 0, 5])
    first = make_loader(EDGES).batch(numbers)
    labels = np.array([9, 9, 9, 1, 9, 9, 9, 9])
    second = make_loader(EDGES, labels=labels).batch(numbers)
    assert first.label.tolist() != second.label.tolist()
    for ours, theirs in ((first.source, second.source), (first.target, second.target)):
        assert vars(ours).keys() == vars(theirs).keys()
        for name, part in vars(ours).items():
            if isinstance(part, torch.Tensor):
                assert torch.equal(part, getattr(theirs, name))


def test_samples_change_with_the_epoch_but_not_in_inference():
    edges = [(0, 1 + i % 5, 0) for i in range(40)]
    loader, numbers = make_loader(edges), np.arange(8)

    def sample(**more):
        return loader.batch(numbers, **more).source.text.token_ids.tolist()

    assert sample(epoch=1) != sample(epoch=2)
    assert sample(epoch=1) == sample(epoch=1)
    assert sample() == sample(epoch=INFERENCE)


def test_the_ego_graph_of_a_new_node_is_empty():
    loader = make_loader(EDGES, sizes=(9, 9))
    new = EdgeBatch(
        text=PackedText.from_lists([[50], [51], [52]]),
        src=torch.tensor([-1, 1, -1]),
        dst=torch.tensor([3, -1, -1]),
    )
    batch = loader.with_context(new)
    assert batch.edge is new
    assert [len(edges) for edges in around(batch.source)] == [0, 2, 0]
    assert [len(edges) for edges in around(batch.target)] == [2, 0, 0]
    assert batch.source.center.tolist() == [-1, 1, -1]


def test_without_samplers_there_are_no_ego_graphs():
    loader = make_loader(EDGES)
    alone = EdgeLoader(graph=loader.graph, tokens=loader.tokens, max_tokens=8)
    assert isinstance(alone.batch(np.array([1, 2])), EdgeBatch)


def test_texts_are_concatenated_and_the_batch_moves():
    batch = make_loader(EDGES).batch(np.array([3, 5]))
    parts = (batch.edge.text, batch.source.text, batch.target.text)
    expected = [token for part in parts for token in part.token_ids.tolist()]
    assert batch.texts.token_ids.tolist() == expected
    assert batch.texts is batch.texts
    moved = batch.to("meta")
    tensors = (moved.edge.src, moved.source.owner, moved.target.egos.offsets)
    assert {tensor.device.type for tensor in (*tensors, moved.texts.token_ids)} == {"meta"}
    assert moved.texts.num_texts == batch.texts.num_texts


@pytest.mark.parametrize("count", [0, 1])
def test_batches_of_zero_and_one_edges_work(count):
    batch = make_loader(EDGES).batch(np.arange(count))
    assert len(batch) == len(batch.source) == count
    assert batch.texts.num_texts == count + batch.source.text.num_texts + len(batch.target.neighbor)
