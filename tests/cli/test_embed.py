import json

import pytest

from edgeformers.inference.embed import read_embeddings
from tests.cli.commands import run_examples
from tests.cli.conftest import call


def test_nodes_and_edges_are_written(home, tmp_path):
    nodes = call("embed", "run-links", "--nodes", "-o", tmp_path / "n.parquet", "--quiet")
    assert (nodes.code, nodes.out) == (0, f"90 nodes, 32 dimensions: {tmp_path}/n.parquet\n")
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
        (["run-links", "-o", "v.parquet"], "--nodes or --edges"),
        (["run-links", "--edges", "-o", "v.parquet"], "has vectors of nodes"),
        (["run-links", "--nodes", "-o", "v.csv"], "v.csv.parquet"),
        (["run-links", "--nodes", "-o", "v.parquet", "--shard", "3"], "1/4"),
        (["run-links", "--nodes", "-o", "v.parquet", "--engine", "spark"], "--engine spark"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, args, words):
    answer = call("embed", *args, "--quiet")
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_the_examples_in_the_help_work(edgeformers):
    run_examples("embed")
