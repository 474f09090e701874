"""The whole way in seconds: prepare, train both models, evaluate, recommend, embed, save, load."""

import numpy as np
import pytest

import edgeformers

SMALL = {
    "train.epochs": 1,
    "data.max_tokens": 16,
    "model.node_width": 8,
    "edges.ensemble": False,
    "links.ensemble": False,
}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke") / "network"
    return edgeformers.prepare("simulated", folder, num_edges=400)


def test_edges_from_a_table_to_a_loaded_model(network, tmp_path):
    classifier = edgeformers.EdgeClassifier("scratch:2x16", settings=SMALL, show=False)
    classifier.fit(network)
    assert 0 <= classifier.evaluate()["macro_f1"] <= 1
    edges = [("user-000003", "item-000001", "My tent is fine.")]
    probabilities = classifier.predict_proba(edges)
    loaded = edgeformers.load(classifier.save(tmp_path / "model"))
    np.testing.assert_allclose(loaded.predict_proba(edges), probabilities, atol=1e-6)


def test_links_from_a_table_to_a_loaded_model(network, tmp_path):
    predictor = edgeformers.LinkPredictor("scratch:2x16", settings=SMALL, show=False)
    predictor.fit(network)
    assert 0 <= predictor.evaluate()["full/mrr"] <= 1
    answer = predictor.recommend("user-000003", k=3, explain=1)
    assert len(answer) == 3
    loaded = edgeformers.load(predictor.save(tmp_path / "model"))
    assert [one.node for one in loaded.recommend("user-000003", k=3)] == [x.node for x in answer]
