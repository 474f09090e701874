import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import FormatError, InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, load
from edgeformers.inference import embed as embedding
from edgeformers.inference.embed import embed, parse_shard, read_embeddings
from edgeformers.inference.saved_model import model_fingerprint

CONFIG = PrepareConfig(tokenizer="train:300", progress=False)
TINY = {"train.epochs": 1, "data.max_tokens": 16, "train.lr": 1e-3}
LINKS = {**TINY, "data.source_neighbors": [2], "data.target_neighbors": [2]}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A network, and a run of each kind on it."""
    folder = tmp_path_factory.mktemp("runs")
    graph = prepare_simulated(folder / "network", num_edges=300, config=CONFIG)
    for kind, run, settings in ((EdgeClassifier, "edges", TINY), (LinkPredictor, "links", LINKS)):
        made = kind("scratch:2x32", recipe="fast", settings=settings, show=False)
        made.fit(graph, run=folder / run)
    return folder


def test_nodes_stand_in_the_order_of_the_network_beside_their_ids(home, tmp_path):
    out = embed(home / "links", what="nodes", out=tmp_path / "v.parquet", chunk=7, show=False)
    table, graph = read_embeddings(out), EdgeTextGraph.open(home / "network")
    expected = load(home / "links").embed_nodes()
    assert len(table) == graph.num_nodes
    np.testing.assert_allclose(table.vectors, expected, atol=1e-5)
    nodes = graph.nodes(["id", "side"])
    assert table.ids.column("id").to_pylist() == nodes.column("id").to_pylist()
    assert table.ids.column("side").to_pylist() == nodes.column("side").to_pylist()


def test_edges_stand_in_the_order_of_the_network_beside_their_ends(home, tmp_path):
    out = embed(home / "edges", what="edges", out=tmp_path / "v.parquet", chunk=64, show=False)
    table, graph = read_embeddings(out), EdgeTextGraph.open(home / "network")
    classifier = load(home / "edges").attach(graph)
    np.testing.assert_allclose(table.vectors, classifier.embed_edges(range(300)), atol=1e-5)
    assert table.ids.column("edge").to_pylist() == list(range(300))
    assert table.ids.column("source").to_pylist() == graph.node_names(graph.src)
    assert table.ids.column("target").to_pylist() == graph.node_names(graph.dst)
    assert pq.ParquetFile(out).metadata.num_row_groups == 5


def test_the_file_says_what_made_it(home, tmp_path):
    out = embed(home / "links", what="nodes", out=tmp_path / "v.parquet", show=False)
    facts = read_embeddings(out).metadata
    assert facts["model"] == model_fingerprint(load(home / "links").model)
    assert (facts["network"], facts["what"], facts["width"]) == ("network", "nodes", 32)
    assert facts["settings"]["data"]["max_tokens"] == 16
    assert str(pq.read_schema(out).field("vector").type) == "fixed_size_list<element: float>[32]"


def test_shards_together_are_the_whole(home, tmp_path):
    whole = embed(home / "edges", what="edges", out=tmp_path / "whole.parquet", show=False)
    names = []
    for number in (2, 1, 3):
        path = embed(
            home / "edges", what="edges", out=tmp_path / "s.parquet", shard=(number, 3), show=False
        )
        names.append(path.name)
    assert sorted(names) == [f"s.0000{i}-of-00003.parquet" for i in (1, 2, 3)]
    joined, table = read_embeddings(tmp_path / "s.parquet"), read_embeddings(whole)
    assert joined.ids == table.ids
    np.testing.assert_allclose(joined.vectors, table.vectors, atol=1e-5)
    (tmp_path / "s.00002-of-00003.parquet").unlink()
    with pytest.raises(InputError, match="2/3"):
        read_embeddings(tmp_path / "s.parquet")


def test_a_finished_file_is_not_made_again(home, tmp_path, monkeypatch):
    out = embed(home / "links", what="nodes", out=tmp_path / "v.parquet", show=False)
    monkeypatch.setattr(embedding, "encode_nodes", lambda *_, **__: pytest.fail("encoded again"))
    (tmp_path / ".v.parquet.parts").mkdir()  # of a process killed while it cleaned up
    assert embed(home / "links", what="nodes", out=out, show=False) == out
    assert [path.name for path in tmp_path.iterdir()] == ["v.parquet"]


def test_a_file_of_another_model_is_replaced_only_when_asked(home, tmp_path):
    out = tmp_path / "v.parquet"
    embed(home / "links", what="nodes", out=out, show=False)
    other = LinkPredictor("scratch:2x32", settings=LINKS, seed=1, show=False)
    other.fit(EdgeTextGraph.open(home / "network"))
    with pytest.raises(InputError, match="another model"):
        embed(other, what="nodes", out=out, show=False)
    embed(other, what="nodes", out=out, overwrite=True, show=False)
    assert read_embeddings(out).metadata["model"] == model_fingerprint(other.model)


KILLED = """
import sys, time
from edgeformers.inference import embed as embedding
encode = embedding.encode_edges
def slow(*args, **more):
    time.sleep(0.15)
    return encode(*args, **more)
embedding.encode_edges = slow
embedding.embed(sys.argv[1], what="edges", out=sys.argv[2], chunk=20, show=False)
"""


def test_a_killed_run_goes_on_and_gives_the_same_file(home, tmp_path):
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    embed(home / "edges", what="edges", out=whole, chunk=20, show=False)
    parts = tmp_path / ".cut.parquet.parts"
    command = [sys.executable, "-c", KILLED, str(home / "edges"), str(cut)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 120
    while len(list(parts.glob("0*.parquet"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    made = {path.name: path.stat().st_mtime_ns for path in parts.glob("0*.parquet")}
    assert 3 <= len(made) < 15
    assert not cut.exists()
    encoded = []
    original = embedding.encode_edges

    def counted(model, loader, ids, options):
        encoded.extend(ids.tolist())
        return original(model, loader, ids, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "encode_edges", counted)
        embed(home / "edges", what="edges", out=cut, chunk=20, show=False)
    assert len(encoded) == 300 - 20 * len(made)
    assert cut.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.parquet", "whole.parquet"]


def test_parts_of_other_work_are_not_used(home, tmp_path):
    out, parts = tmp_path / "v.parquet", tmp_path / ".v.parquet.parts"
    parts.mkdir()
    (parts / "facts.json").write_text(json.dumps({"model": "another"}))
    (parts / "00000000.parquet").write_bytes(b"not what is wanted")
    embed(home / "links", what="nodes", out=out, show=False)
    assert len(read_embeddings(out)) == EdgeTextGraph.open(home / "network").num_nodes


def test_a_mistake_is_answered_with_a_sentence(home, tmp_path):
    out = tmp_path / "v.parquet"
    with pytest.raises(InputError, match="use an edge-classification"):
        embed(home / "links", what="edges", out=out)
    with pytest.raises(InputError, match="use a link-prediction"):
        embed(home / "edges", what="nodes", out=out)
    with pytest.raises(InputError, match="words"):
        embed(home / "edges", what="words", out=out)
    with pytest.raises(InputError, match=r"v\.csv\.parquet"):
        embed(home / "edges", what="edges", out=tmp_path / "v.csv")
    with pytest.raises(InputError, match="5/4"):
        parse_shard("5/4")
    with pytest.raises(InputError, match="one"):
        parse_shard("one")
    with pytest.raises(InputError, match="no such file"):
        read_embeddings(tmp_path / "nothing.parquet")
    out.write_text("mine")
    with pytest.raises(FormatError, match="cannot be read as Parquet"):
        read_embeddings(out)
    with pytest.raises(InputError, match="not a file of vectors"):
        embed(home / "edges", what="edges", out=out, overwrite=True)


def test_a_network_that_moved_can_be_named(home, tmp_path):
    moved = tmp_path / "moved"
    graph = prepare_simulated(moved, num_edges=300, config=CONFIG)
    classifier = load(home / "edges")
    lost = replace(classifier.fitted_, network_path=tmp_path / "gone")
    with pytest.raises(InputError, match="gone"):
        embed(lost, what="edges", out=tmp_path / "v.parquet", show=False)
    out = embed(classifier, graph, what="edges", out=tmp_path / "v.parquet", show=False)
    assert read_embeddings(out).metadata["network"] == "moved"
    other = prepare_simulated(tmp_path / "other", num_edges=400, config=CONFIG)
    with pytest.raises(InputError, match="other nodes or labels"):
        classifier.attach(other)


def test_a_shard_without_rows_is_a_file_without_rows_in_int8_too(home, tmp_path):
    out, count = tmp_path / "v.parquet", 10**6
    made = embed(home / "edges", what="edges", out=out, shard=(1, count), int8=True, show=False)
    assert len(read_embeddings(made)) == 0


def test_int8_vectors_are_close_and_it_is_told_how_close(home, tmp_path, capsys):
    exact = embed(home / "edges", what="edges", out=tmp_path / "exact.parquet", show=False)
    out = embed(home / "edges", what="edges", out=tmp_path / "v.parquet", int8=True)
    words = r"256 edges: mean ([01]\.\d+), minimum ([01]\.\d+)"
    told = re.search(words, capsys.readouterr().err)
    vectors, close = read_embeddings(exact).vectors, read_embeddings(out).vectors
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(close, axis=1)
    cosines = (vectors * close).sum(1) / lengths
    assert 0.99 < cosines.min() < 1 - 1e-7
    assert float(told[1]) == pytest.approx(cosines.mean(), abs=1e-3)
    assert read_embeddings(out).metadata["int8"]
    with pytest.raises(InputError, match="another int8"):
        embed(home / "edges", what="edges", out=out, show=False)
