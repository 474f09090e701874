"""Vectors reach FAISS, DuckDB and PyG in one call each."""

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.inference.embed import read_embeddings
from edgeformers.inference.vector_formats import embed_as_pyg, embed_to
from tests.estimators.conftest import tiny

QUIET = {"show": False}


def test_a_faiss_index_finds_each_node_by_its_row(predictor, tmp_path):
    import faiss

    path = embed_to(predictor, what="nodes", out=tmp_path / "nodes.faiss", **QUIET)
    table, index = read_embeddings(tmp_path / "nodes.parquet"), faiss.read_index(str(path))
    assert index.ntotal == len(table) == len(predictor.fitted_.nodes)
    scores, rows = index.search(table.vectors[:5], 3)
    expected = table.vectors[:5] @ table.vectors.T
    np.testing.assert_allclose(scores[:, 0], expected.max(1), rtol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(expected, rows, 1), scores, rtol=1e-4)


def test_duckdb_has_a_table_with_an_array_column(classifier, tmp_path):
    import duckdb

    path = embed_to(classifier, what="edges", out=tmp_path / "edges.duckdb", **QUIET)
    table = read_embeddings(tmp_path / "edges.parquet")
    with duckdb.connect(str(path), read_only=True) as connection:
        count = connection.execute("SELECT count(*) FROM edges").fetchone()
        query = "SELECT source, array_inner_product(vector, vector) FROM edges WHERE edge = 7"
        source, square = connection.execute(query).fetchone()
    assert count == (len(table),)
    assert source == table.ids["source"][7].as_py()
    assert square == pytest.approx(float(table.vectors[7] @ table.vectors[7]), rel=1e-4)


def test_other_files_are_not_overwritten(predictor, tmp_path):
    mine = tmp_path / "mine.duckdb"
    mine.write_text("mine")
    with pytest.raises(InputError, match="exists"):
        embed_to(predictor, what="nodes", out=mine, **QUIET)
    with pytest.raises(InputError, match="Parquet"):
        embed_to(predictor, what="nodes", out=tmp_path / "nodes.npy", **QUIET)
    with pytest.raises(InputError, match="shard"):
        embed_to(predictor, what="nodes", out=tmp_path / "n.faiss", shard=(1, 2), **QUIET)
    assert mine.read_text() == "mine"


def test_pyg_nodes_have_their_vectors(predictor):
    data = embed_as_pyg(predictor)
    for side in ("source", "target"):
        ids = data[side].node_id
        expected = predictor.embed_nodes(ids[:9], side=side)
        np.testing.assert_allclose(data[side].x[:9], expected, rtol=0, atol=1e-5)
        assert len(data[side].x) == len(ids)
    graph = predictor.fitted_.network.graph
    assert data["source", "to", "target"].edge_index.shape == (2, graph.num_edges)


def test_pyg_edges_have_their_vectors(classifier):
    data = embed_as_pyg(classifier)
    edges = data["source", "to", "target"]
    expected = classifier.embed_edges(np.array([0, 5, 17]))
    np.testing.assert_allclose(edges.edge_attr[[0, 5, 17]], expected, rtol=0, atol=1e-5)
    source, target = edges.edge_index[:, 5].tolist()
    graph = classifier.fitted_.network.graph
    ends = [data["source"].node_id[source], data["target"].node_id[target]]
    assert ends == graph.node_names([graph.src[5], graph.dst[5]])


def test_a_network_with_one_node_type_has_the_type_node(make_network):
    rows = [
        {"source": f"n{i % 7}", "target": f"n{(i * 3 + 1) % 8}", "text": f"text {i}"}
        for i in range(60)
    ]
    graph = make_network(rows, bipartite=False)
    predictor = tiny(LinkPredictor, **{"links.ensemble": False}).fit(graph)
    data = embed_as_pyg(predictor)
    ids = data["node"].node_id
    np.testing.assert_allclose(data["node"].x, predictor.embed_nodes(ids), rtol=0, atol=1e-5)
    assert data["node", "to", "node"].edge_index.shape == (2, 60)
