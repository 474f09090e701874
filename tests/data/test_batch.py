"""Batches of edges and ego graphs contain what the network contains."""

import numpy as np
import pytest
import torch

from edgeformers.data.batch import (
    EdgeBatch,
    EgoBatch,
    LinkBatch,
    edge_batch,
    ego_batch,
    pack_texts,
)
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.simulate import SimulationConfig, simulate
from edgeformers.errors import InputError
from edgeformers.nn.packed import PackedText


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Sixty reviews by ten users, tokenized."""
    config = SimulationConfig(num_edges=60, num_sources=10, num_targets=12)
    out = tmp_path_factory.mktemp("network") / "reviews"
    settings = PrepareConfig(tokenizer="train:300", progress=False)
    return write_network(simulate(config).table, out, config=settings)


def make_ego(counts=(2, 0, 1), center=(0, 1, 2)):
    texts = [[2, 3], [2], [2, 4, 3]]
    return EgoBatch.from_counts(
        text=PackedText.from_lists(texts),
        center=torch.tensor(center),
        counts=torch.tensor(counts),
        neighbor=torch.tensor([5, 6, 7]),
    )


def test_an_edge_batch_has_texts_nodes_and_labels(graph):
    ids = [7, 0, 41]
    batch = edge_batch(graph, graph.tokens, ids, 64)
    assert len(batch) == batch.text.num_texts == 3
    assert batch.src.tolist() == graph.src[ids].tolist()
    assert batch.dst.tolist() == graph.dst[ids].tolist()
    assert batch.label.tolist() == graph.labels[ids].tolist()
    assert batch.edge_ids.tolist() == ids
    assert batch.edge_type is None
    assert {part.dtype for part in (batch.src, batch.dst, batch.label)} == {torch.int64}
    tokenizer, texts = graph.tokens.tokenizer(), graph.texts(ids)
    for row, text in enumerate(texts):
        start, stop = batch.text.host_offsets[row : row + 2]
        assert batch.text.token_ids[start:stop].tolist() == tokenizer.encode(text).ids


def test_texts_are_truncated(graph):
    packed = pack_texts(graph.tokens, np.arange(5), 6)
    assert packed.max_length == 6
    assert packed.token_ids[packed.starts.long()].unique().numel() == 1  # all begin with [CLS]


def test_an_edge_batch_may_be_empty(graph):
    batch = edge_batch(graph, graph.tokens, [], 64)
    assert len(batch) == batch.text.num_texts == 0


def test_the_edges_of_a_center_are_consecutive(graph):
    sample = graph.sampler("edge", [4]).sample([3, 15, 0])
    batch = ego_batch(graph, graph.tokens, sample, max_tokens=64)
    assert len(batch) == 3
    assert batch.egos.lengths.tolist() == [size for size in sample.sizes if size]
    assert batch.neighbor.tolist() == sample.neighbors[sample.mask].tolist()
    edges = sample.edge_ids[sample.mask]
    assert batch.text.num_texts == len(edges) > 0
    for row, edge in enumerate(edges):
        ends = {int(graph.src[edge]), int(graph.dst[edge])}
        center = int(batch.center[batch.owner[row]])
        assert ends == {center, int(batch.neighbor[row])}
        assert bool(batch.is_out[row]) == (int(graph.src[edge]) == center)


def test_centers_without_edges_have_no_ego():
    batch = make_ego()
    assert batch.owner.tolist() == [0, 0, 2]
    assert batch.occupied.tolist() == [0, 2]
    assert batch.egos.lengths.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("counts", "center", "message"),
    [
        ((2, 2, 1), (0, 1, 2), "5 edges"),
        ((2, 1), (0, 1, 2), "2 counts"),
    ],
)
def test_counts_must_match_texts_and_centers(counts, center, message):
    with pytest.raises(InputError, match=message):
        make_ego(counts, center)


def test_batches_move_between_devices():
    edge = EdgeBatch(
        text=PackedText.from_lists([[2, 3]]), src=torch.tensor([0]), dst=torch.tensor([1])
    )
    moved = edge.to("meta")
    assert {moved.text.device.type, moved.src.device.type, moved.dst.device.type} == {"meta"}
    assert moved.label is None
    pair = LinkBatch(egos=make_ego(), num_pairs=1, targets=torch.tensor([1, 2, 1]))
    assert len(pair) == 2
    assert [rows.tolist() for rows in pair.by_role(torch.arange(3))] == [[0], [1], [2, 1]]
    moved = pair.to("meta").egos
    parts = (moved.center, moved.owner, moved.occupied, moved.egos.offsets)
    assert {part.device.type for part in parts} == {"meta"}
