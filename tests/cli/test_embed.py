import json

import pytest

from edgeformers.cli.embed import EXAMPLES
from edgeformers.inference.embed import read_embeddings
from tests.cli.commands import pasted
from tests.cli.conftest import call


def test_nodes_and_edges_are_written(home, tmp_path):
    nodes = call("embed", "run-links", "--nodes", "-o", tmp_path / "n.parquet", "--quiet")
    assert (nodes.code, nodes.out) == (0, f"90 nodes, 32 numbers each: {tmp_path}/n.parquet\n")
    edges = call("embed", "run-edges", "--edges", "-o", tmp_path / "e.parquet", "--quiet", "--json")
    assert json.loads(edges.out)["rows"] == [0, 1000]
    assert read_embeddings(tmp_path / "e.parquet").vectors.shape == (1000, 32)


def test_shards_are_files_of_their_own(home, tmp_path):
    for shard in ("1/2", "2/2"):
        args = ("-o", tmp_path / "n.parquet", "--shard", shard, "--quiet")
        assert call("embed", "run-links", "--nodes", *args).code == 0
    assert len(read_embeddings(tmp_path / "n.parquet")) == 90


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run-links", "-o", "v.parquet"], "say what to embed: --nodes or --edges"),
        (["run-links", "--edges", "-o", "v.parquet"], "has vectors of nodes; take an edge-class"),
        (["run-links", "--nodes", "-o", "v.csv"], "name the file v.csv.parquet"),
        (["run-links", "--nodes", "-o", "v.parquet", "--shard", "3"], "write a shard as 1/4"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(home, args, words):
    answer = call("embed", *args, "--quiet")
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_the_commands_of_the_help_work_as_pasted(edgeformers):
    pasted("embed", EXAMPLES)
