"""Every endpoint answers what the library computes, with the model and its version."""

from base64 import b64decode

import numpy as np
import pytest

from edgeformers.inference.candidate_filter import CandidateFilter


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


def test_edges_of_a_node_come_in_pages_with_texts(client, simulated):
    pages, cursor = [], ""
    while cursor is not None:
        answer = client.get(f"/v1/nodes/item-000001/edges?limit=2&cursor={cursor}").json()
        pages += answer["edges"]
        cursor = answer["next"]
    edges = simulated.adjacency.edges_of(simulated.node_number("item-000001", "target"))
    assert len(pages) == answer["total"] == len(edges) > 2
    assert {edge["text"] for edge in pages} == set(simulated.texts(edges))
    assert {edge["target"] for edge in pages} == {"item-000001"}
    assert client.get("/v1/nodes/item-000001/edges?cursor=x").status_code == 422


def test_edges_are_embedded_by_text_and_endpoints(client, service):
    edge = {"source": "user-000003", "target": "item-000001", "text": "My tent is fine."}
    body = {"input": [edge, "My tent is fine."], "model": "edges"}
    answer = client.post("/v1/embeddings", json=body).json()
    fitted = service.versions.find("edge-classification").fitted
    expected = fitted.embed_edges([tuple(edge.values()), ("", "", "My tent is fine.")])
    vectors = [each["embedding"] for each in answer["data"]]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert [each["index"] for each in answer["data"]] == [0, 1]
    assert (answer["object"], answer["model"]) == ("list", "edges")
    assert answer["usage"]["total_tokens"] == fitted.pack([edge["text"]] * 2).num_tokens
    coded = client.post("/v1/embeddings", json={**body, "encoding_format": "base64"}).json()
    decoded = [np.frombuffer(b64decode(each["embedding"]), "<f4") for each in coded["data"]]
    np.testing.assert_allclose(decoded, expected, atol=1e-5)


def test_nodes_are_embedded_by_id(client, service):
    nodes = [("item-000001", "target"), ("user-000003", "source"), ("item-000002", "target")]
    inputs = [{"node": node, "side": side} for node, side in nodes]
    answer = client.post("/v1/embeddings", json={"input": inputs}).json()
    fitted = service.versions.find("link-prediction").fitted
    expected = [fitted.embed_nodes([node], side=side)[0] for node, side in nodes]
    np.testing.assert_allclose([x["embedding"] for x in answer["data"]], expected, atol=1e-5)
    for wrong, status in (
        ({"input": [*inputs, "a text"]}, 422),
        ({"input": inputs, "dimensions": 7}, 422),
        ({"input": [{"node": "nobody"}]}, 404),
        ({"input": inputs, "model": "edges"}, 404),
        ({"input": inputs, "model": "gpt-4"}, 404),
        ({"input": [[1, 2, 3]]}, 422),
        ({"input": []}, 422),
    ):
        assert client.post("/v1/embeddings", json=wrong).status_code == status


def test_ablations_predict_from_the_text_and_from_the_nodes_alone(client, service):
    edge = {"source": "user-000003", "target": "item-000001", "text": "My tent is fine."}
    body = {"edges": [edge], "ablations": True}
    (answer,) = client.post("/v1/edges/predict", json=body).json()["predictions"]
    fitted = service.versions.find("edge-classification").fitted
    rows = [("", "", edge["text"]), (edge["source"], edge["target"], "")]
    for part, row in zip(("text_only", "node_only"), fitted.predict_proba(rows), strict=True):
        values = list(answer[part]["probabilities"].values())
        assert values == pytest.approx(row.tolist(), abs=1e-5)


def test_info_has_the_card_the_data_and_the_limits(client):
    info = client.get("/info").json()
    edges, links = info["models"]
    assert "## Limitations" in links["card"]
    assert links["network"]["edges"] == 600
    assert edges["labels"] == ["1", "2", "3", "4", "5"]
    assert links["index"] is None
    assert info["limits"]["items"] == 2_048


def test_filters_limit_what_is_recommended(client, service):
    fitted = service.versions.find("link-prediction").fitted
    best = [each.node for each in fitted.recommend("user-000003", 4)]
    path = "/v1/nodes/user-000003/recommendations?k=4"
    denied = client.get(f"{path}&deny={best[0]}&deny={best[2]}").json()["recommendations"]
    assert [each["node"] for each in denied][:2] == [best[1], best[3]]
    only = {"nodes": ["user-000003"], "filter": {"allow": best[1:3]}}
    allowed = client.post("/v1/recommendations", json=only).json()["results"][0]
    assert [each["node"] for each in allowed["recommendations"]] == best[1:3]
    label = fitted.network.graph.node_label_names[0]
    labeled = client.get(f"{path}&label={label}").json()["recommendations"]
    kept = fitted.recommend("user-000003", 4, candidates=CandidateFilter(labels=[label]))
    assert [each["node"] for each in labeled] == [each.node for each in kept]
    assert client.get(f"{path}&deny=nothing").status_code == 404
    assert client.get(f"{path}&label=nothing").status_code == 422


def test_similar_nodes_are_those_of_the_library(client, service):
    answer = client.get("/v1/nodes/item-000001/similar?k=3&side=target").json()
    expected = service.versions.find("link-prediction").fitted.similar(
        "item-000001", 3, side="target"
    )
    assert [each["node"] for each in answer["similar"]] == [each.node for each in expected]
    assert client.get("/v1/nodes/nobody/similar").status_code == 404
