"""Rows of a node table in several processes; tests/test_distributed.py trains with them."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from edgeformers import distributed, sharded_nodes
from edgeformers.config import TrainSettings
from edgeformers.errors import ConfigError
from edgeformers.nn.nodes import NodeLookup
from edgeformers.sharded_nodes import ShardedNodeLookup


@pytest.fixture(params=[0, 1, 2])
def as_rank(request, monkeypatch):
    """One of three processes, which does not communicate; blocks of 32 rows of 8 numbers."""
    monkeypatch.setattr(distributed, "rank", lambda: request.param)
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    monkeypatch.setattr(sharded_nodes, "BLOCK_BYTES", 1024)
    return request.param


def test_every_process_starts_with_its_rows_of_the_same_table(as_rank):
    torch.manual_seed(0)
    full, after = NodeLookup(100, 8, sparse=True), torch.rand(1)
    torch.manual_seed(0)
    own, own_after = ShardedNodeLookup(100, 8, sparse=True), torch.rand(1)
    assert torch.equal(own.table, full.table[as_rank::3])
    assert torch.equal(after, own_after)  # what is initialized later is the same too


def test_values_of_all_nodes_are_cut_to_the_rows_of_a_process(as_rank):
    own = ShardedNodeLookup(100, 8, node_shrinkage=1.0, feature_width=2, sparse=True)
    seen, counts = torch.arange(100) % 7 > 0, torch.arange(100)
    own.mark_seen(seen)
    own.set_edge_counts(counts)
    own.set_features(counts[:, None].expand(-1, 2).float())
    nodes = torch.arange(as_rank, 100, 3)
    assert torch.equal(own.is_seen[: len(nodes)], seen[nodes])
    assert torch.equal(own.features[: len(nodes), 0], nodes.float())
    torch.testing.assert_close(own.keep[: len(nodes)], nodes / (nodes + 1))


def test_a_whole_table_is_cut_to_the_rows_of_a_process(as_rank):
    own, table = ShardedNodeLookup(100, 8, sparse=True), torch.randn(101, 8)
    own.set_rows(table)
    assert torch.equal(own.table, table[as_rank::3])


def test_rows_are_read_from_a_file_of_the_whole_table(as_rank, tmp_path):
    table = torch.randn(101, 8)
    save_file({"table": table}, tmp_path / "file")
    with safe_open(tmp_path / "file", "pt") as file:
        assert torch.equal(sharded_nodes.read_own_rows(file.get_slice("table")), table[as_rank::3])


def test_a_single_process_has_an_ordinary_table():
    with sharded_nodes.sharded_tables(False):
        assert sharded_nodes.lookup_class() is NodeLookup
    with sharded_nodes.sharded_tables(True):
        assert sharded_nodes.lookup_class() is ShardedNodeLookup
    assert sharded_nodes.lookup_class() is NodeLookup


@pytest.mark.parametrize("settings", [{"sparse_nodes": False}, {"decay_nodes": True}])
def test_sharding_needs_sparse_gradients(settings):
    with pytest.raises(ConfigError, match="sparse_nodes=true"):
        TrainSettings(shard_nodes=True, **settings)
