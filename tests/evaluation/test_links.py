"""Known links and the columns of nodes."""

import numpy as np
import pytest
import torch

from edgeformers.data import scratch
from edgeformers.errors import InputError
from edgeformers.evaluation import LinkMask, LinkTable, node_positions
from tests.evaluation.problems import known_links


def test_a_link_table_contains_its_pairs():
    known = known_links([2, 0, 2], [4, 1, 0], 4)
    rows, columns = np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4)
    told = known.contains(rows, columns)
    assert [(r, c) for r, c, t in zip(rows, columns, told, strict=True) if t] == [
        (0, 1),
        (2, 0),
        (2, 4),
    ]
    place, candidate = known.of(np.array([2, 1, 0, 2]))
    assert list(zip(place, candidate, strict=True)) == [(0, 0), (0, 4), (2, 1), (3, 0), (3, 4)]
    assert not known_links([], [], 4).contains(rows, columns).any()


def test_links_are_looked_up_on_a_device():
    mask = known_links([2, 0, 2], [1, 9, 1], 10).to("cpu")
    found = mask(torch.tensor([0, 1, 2, -1]), torch.tensor([9, 1, -1]))
    assert found.int().tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert not known_links([], [], 10).to("cpu")(torch.arange(3), torch.arange(3)).any()


def test_node_positions_are_found_in_any_order():
    assert node_positions([30, 10, 30], [20, 30, 10]).tolist() == [1, 2, 1]
    assert node_positions([], []).tolist() == []
    with pytest.raises(InputError, match="node 25 is not among the 3"):
        node_positions([30, 25], [20, 30, 10])


@pytest.mark.parametrize("block", [1, 2, 100])
def test_the_mask_of_edges_is_that_of_their_links(monkeypatch, block):
    monkeypatch.setattr(scratch, "BLOCK", block)
    src, dst = np.array([3, 0, 3, 1, 3, 0], np.int32), np.array([1, 2, 1, 0, 0, 2], np.int32)
    edges = np.array([0, 1, 2, 4, 5])
    mask = LinkMask.of_edges(src, dst, edges)
    assert torch.equal(mask.keys, LinkTable.from_pairs(src[edges], dst[edges], 4).to("cpu").keys)
    assert mask(torch.tensor([0, 1, 3]), torch.tensor([0, 2])).tolist() == [
        [False, True],
        [False, False],
        [True, False],
    ]
