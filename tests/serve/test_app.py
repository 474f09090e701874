"""Every endpoint answers what the library computes, with the model and its version."""

import pytest


def test_models_are_listed_with_their_versions(client):
    models = client.get("/v1/models").json()["models"]
    assert [(model["name"], model["task"]) for model in models] == [
        ("edges", "edge-classification"),
        ("links", "link-prediction"),
    ]
    assert all(len(model["version"]) == 12 for model in models)


def test_edges_are_predicted_as_by_the_library(client, service):
    edges = [("user-000003", "item-000001", "My tent is fine."), ("new", "newer", "Bad.")]
    body = {"edges": [dict(zip(("source", "target", "text"), edge, strict=True)) for edge in edges]}
    answer = client.post("/v1/edges/predict", json=body).json()
    fitted = service.versions.find("edge-classification").fitted
    expected = fitted.predict_proba(edges)
    assert answer["model"] == "edges"
    for prediction, row in zip(answer["predictions"], expected, strict=True):
        assert list(prediction["probabilities"].values()) == pytest.approx(row.tolist(), abs=1e-5)
    assert [each["label"] for each in answer["predictions"]] == fitted.predict(edges)


def test_known_nodes_are_recommended_to_as_by_the_library(client, service):
    answer = client.get("/v1/nodes/user-000003/recommendations?k=3&explain=1").json()
    expected = service.versions.find("link-prediction").fitted.recommend(
        "user-000003", 3, explain=1
    )
    assert [each["node"] for each in answer["recommendations"]] == [each.node for each in expected]
    assert [each["because"][0]["text"] for each in answer["recommendations"]] == [
        each.because[0].text for each in expected
    ]
    assert (answer["node"], answer["model"]) == ("user-000003", "links")


def test_new_nodes_and_batches_of_nodes_get_recommendations(client, service):
    fitted = service.versions.find("link-prediction").fitted
    edges = [{"target": "item-000001", "text": "My tent is excellent."}]
    new = client.post("/v1/recommendations", json={"edges": edges, "k": 4}).json()["results"]
    expected = fitted.recommend(k=4, edges=[("item-000001", "My tent is excellent.")])
    assert [each["node"] for each in new[0]["recommendations"]] == [each.node for each in expected]
    nodes = ["user-000003", "user-000001"]
    both = client.post("/v1/recommendations", json={"nodes": nodes, "k": 2}).json()["results"]
    assert [each["node"] for each in both] == nodes
    for node, result in zip(nodes, both, strict=True):
        best = [each["node"] for each in result["recommendations"]]
        assert best == [each.node for each in fitted.recommend(node, 2)]


def test_nodes_are_found_by_parts_of_their_ids(client):
    found = client.get("/v1/nodes?query=000001&side=target").json()
    assert [node["id"] for node in found["nodes"]] == ["item-000001"]
    assert found["nodes"][0]["edges"] > 0
    exact = client.get("/v1/nodes?query=USER-000003&limit=1").json()
    assert [(node["id"], node["side"]) for node in exact["nodes"]] == [("user-000003", "source")]


def test_an_unknown_node_is_404_with_similar_ids(client):
    answer = client.get("/v1/nodes/user-00003/recommendations")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "user-000003" in answer.json()["detail"]


def test_the_server_is_live_and_ready(client):
    assert client.get("/health/live").json() == {"status": "live"}
    assert client.get("/health/ready").json() == {"status": "ready"}
