"""Edges that arrive while the server runs are on disk, read at once, and taken in again later."""

import re
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from edgeformers.estimators import EdgeClassifier, load
from edgeformers.serve.app import create_app
from edgeformers.serve.live_edges import default_store
from edgeformers.serve.service import Service
from tests.estimators.conftest import tiny

EDGES = [
    {"source": "zoe", "target": "item-000001", "text": "My tent is excellent."},
    {"source": "zoe", "target": "kayak", "text": "A good kayak.", "label": "5", "time": 1.5e9},
    {"source": "user-000003", "target": "kayak", "text": "The kayak is fine."},
]


@pytest.fixture
def store(tmp_path):
    return tmp_path / "edges.sqlite"


@pytest.fixture
def open_client(runs, store):
    """Clients of new services with the same store."""
    services = []

    def open_client():
        services.append(Service(runs, store=store, device="cpu"))
        client = TestClient(create_app(services[-1]))
        client.service = services[-1]
        return client

    yield open_client
    for service in services:
        service.close()


def recommended(client, node, **more):
    answer = client.get(f"/v1/nodes/{node}/recommendations", params={"k": 100, **more})
    assert answer.status_code == 200, answer.text
    return [each["node"] for each in answer.json()["recommendations"]]


def test_new_edges_are_visible_to_the_next_request_and_after_a_restart(open_client, store):
    client = open_client()
    assert client.get("/v1/nodes/zoe/recommendations").status_code == 404
    assert not store.exists()
    answer = client.post("/v1/edges", json={"edges": EDGES})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["added"], answer.json()["duplicates"]) == (3, 0)
    for each in (client, open_client()):
        assert "item-000001" not in recommended(each, "zoe")
        assert "kayak" in recommended(each, "user-000001")
        assert "kayak" not in recommended(each, "user-000003")
        found = each.get("/v1/nodes?query=kay").json()
        assert found["nodes"] == [{"id": "kayak", "side": "target", "edges": 2}]
        own = each.get("/v1/nodes/zoe/edges").json()
        assert [edge["text"] for edge in own["edges"]] == [EDGES[1]["text"], EDGES[0]["text"]]
        mixed = each.get("/v1/nodes/item-000001/edges?limit=1").json()
        assert mixed["edges"][0]["source"] == "zoe"
        more = each.get(f"/v1/nodes/item-000001/edges?limit=1&cursor={mixed['next']}").json()
        assert more["edges"][0]["source"] != "zoe"


def test_a_server_reads_validation_and_test_edges_if_asked_to(runs, store, simulated):
    service = Service(runs, store=store, all_edges=True, device="cpu")
    client, fitted = TestClient(create_app(service)), load(runs[1]).fitted_
    fitted.read_all_edges()
    node = simulated.node_names(simulated.src[fitted.network.part("test")[:1]])[0]
    assert recommended(client, node) == [each.node for each in fitted.recommend(node, 100)]
    total = client.get(f"/v1/nodes/{node}/edges").json()["total"]
    removed = client.delete(f"/v1/nodes/{node}/edges?side=source")
    assert removed.json()["removed"] == total == fitted.remove_edges(node, "source")
    service.close()


def test_new_nodes_have_embeddings_until_their_edges_are_removed(open_client):
    client = open_client()
    nodes = [{"node": "zoe"}, {"node": "kayak", "side": "target"}]
    assert client.post("/v1/embeddings", json={"input": nodes}).status_code == 404
    client.post("/v1/edges", json={"edges": EDGES})
    answer = client.post("/v1/embeddings", json={"input": nodes})
    assert answer.status_code == 200, answer.text
    zoe, kayak = (each["embedding"] for each in answer.json()["data"])
    assert zoe != kayak
    client.delete("/v1/nodes/zoe/edges")
    assert client.post("/v1/embeddings", json={"input": nodes[:1]}).status_code == 404
    similar = client.get("/v1/nodes/user-000003/similar?k=100").json()["similar"]
    assert "zoe" not in {each["node"] for each in similar}


def test_duplicates_count_once_and_keys_make_requests_repeatable(open_client):
    client, key = open_client(), {"Idempotency-Key": "one"}
    first = client.post("/v1/edges", json={"edges": EDGES[:1]}, headers=key).json()
    again = client.post("/v1/edges", json={"edges": EDGES[:1]}, headers=key).json()
    assert (first["added"], again["added"]) == (1, 1)
    conflict = client.post("/v1/edges", json={"edges": EDGES}, headers=key)
    assert conflict.status_code == 409
    both = client.post("/v1/edges", json={"edges": EDGES[:2]}).json()
    assert (both["added"], both["duplicates"]) == (1, 1)


def test_removed_edges_are_gone_from_answers_also_after_a_restart(open_client, simulated):
    client = open_client()
    client.post("/v1/edges", json={"edges": EDGES})
    number = simulated.node_number("user-000003", "source")
    edges = simulated.adjacency.edges_of(number)
    neighbor = simulated.node_names(simulated.adjacency.neighbors_of(number)[:1])[0]
    texts = set(simulated.texts(edges)) | {EDGES[2]["text"]}
    answer = client.delete("/v1/nodes/user-000003/edges")
    assert answer.json()["removed"] == len(edges) + 1
    assert client.delete("/v1/nodes/zoe/edges").json()["removed"] == 2
    for each in (client, open_client()):
        assert each.get("/v1/nodes/user-000003/edges").json()["edges"] == []
        shown = each.get(f"/v1/nodes/{neighbor}/edges?limit=100").json()["edges"]
        assert "user-000003" not in {edge["source"] for edge in shown}
        assert neighbor in recommended(each, "user-000003")
        reasons = each.get("/v1/nodes/user-000001/recommendations?k=100&explain=3").text
        assert not any(text in reasons for text in texts if len(text) > 30)
        assert each.get("/v1/nodes/zoe/edges").status_code == 404
    assert client.delete("/v1/nodes/nobody/edges").status_code == 404


def test_without_a_link_run_posted_edges_are_removed_too(runs, store):
    service = Service(runs[:1], store=store, device="cpu")
    client = TestClient(create_app(service))
    client.post("/v1/edges", json={"edges": EDGES})
    assert client.delete("/v1/nodes/zoe/edges").json()["removed"] == 2
    assert client.get("/v1/nodes/zoe/edges").status_code == 404
    assert client.get("/v1/nodes/kayak/edges").json()["total"] == 1
    assert client.delete("/v1/nodes/nobody/edges").status_code == 404
    service.close()


def test_the_edges_of_a_node_that_only_another_run_knows_are_removed(runs, store, make_network):
    rows = [{"source": f"s{i % 4}", "target": f"t{i % 3}", "text": "a b"} for i in range(12)]
    graph = make_network([{**row, "label": str(i % 2)} for i, row in enumerate(rows)])
    other = store.with_name("other")
    tiny(EdgeClassifier, **{"train.epochs": 1}).fit(graph, run=other)
    service = Service([other, runs[1]], store=store, device="cpu")
    client = TestClient(create_app(service))
    for removed in (3, 0):
        answer = client.delete("/v1/nodes/s1/edges")
        assert (answer.status_code, answer.json()["removed"]) == (200, removed)
    assert client.get("/v1/nodes/s1/edges?model=other").json()["total"] == 0
    assert client.get("/v1/nodes/s0/edges?model=other").json()["total"] == 3
    service.close()


def test_removed_edges_are_gone_from_the_map(open_client, monkeypatch):
    monkeypatch.setattr("edgeformers.serve.explore.map_page.SAMPLE", 20)
    client = open_client()
    name = re.search(r"(user-\d+) →", client.get("/map?what=edge").text)[1]
    client.delete(f"/v1/nodes/{name}/edges")
    page = client.get("/map?what=edge").text
    assert f"{name} →" not in page
    assert "→" in page


@pytest.mark.parametrize(
    "change",
    [
        {"source": ""},
        {"time": "yesterday"},
        {"time": 1e300},
        {"time": True},
        {"time": "2900-01-01"},
        {"label": 5},
        {"text": "\0"},
    ],
)
def test_edges_that_cannot_be_stored_are_refused(open_client, store, change):
    client = open_client()
    answer = client.post("/v1/edges", json={"edges": [{**EDGES[0], **change}]})
    assert answer.status_code == 422
    assert client.get("/v1/nodes/zoe/edges").status_code == 404


@pytest.mark.parametrize("time", ["1350000000", "2013/07/05", 1.35e9, None])
def test_times_are_read_as_by_prepare(open_client, store, time):
    client = open_client()
    assert client.post("/v1/edges", json={"edges": [{**EDGES[0], "time": time}]}).status_code == 200


def test_the_edge_with_a_bad_time_is_named(open_client):
    edges = [EDGES[0], {**EDGES[0], "time": "noon"}]
    assert "edge 2" in open_client().post("/v1/edges", json={"edges": edges}).json()["detail"]


def test_the_store_is_next_to_the_first_run(tmp_path):
    assert default_store(tmp_path / "run") == tmp_path / "run.edges.sqlite"


def test_search_counts_posted_and_removed_edges(open_client):
    client = open_client()

    def count(node):
        found = client.get("/v1/nodes", params={"query": node}).json()["nodes"]
        return next(each["edges"] for each in found if each["id"] == node)

    before = count("item-000001")
    assert client.post("/v1/edges", json={"edges": EDGES}).status_code == 200
    assert count("item-000001") == before + 1
    assert client.delete("/v1/nodes/zoe/edges").status_code == 200
    assert count("item-000001") == before
    assert client.delete("/v1/nodes/item-000001/edges").status_code == 200
    assert count("item-000001") == 0


def test_an_id_may_have_line_breaks_and_slashes(open_client):
    client, node = open_client(), "a\nb/c"
    edges = [{"source": node, "target": "item-000001", "text": "Dry."}]
    assert client.post("/v1/edges", json={"edges": edges}).status_code == 200
    path = f"/v1/nodes/{quote(node, safe='')}"
    assert client.get(f"{path}/edges").json()["total"] == 1
    assert client.get(f"{path}/recommendations").json()["recommendations"]
    assert client.get(f"{path}/similar").status_code == 200
    assert client.delete(f"{path}/edges").json()["removed"] == 1


def test_edges_are_taken_in_even_if_the_queue_is_full(open_client, monkeypatch):
    client = open_client()
    worker = client.service.worker
    monkeypatch.setattr(worker, "_tokens", worker.queue_tokens)
    assert client.get("/v1/nodes/user-000003/recommendations").status_code == 503
    assert client.post("/v1/edges", json={"edges": EDGES}).status_code == 200
    monkeypatch.setattr(worker, "_tokens", 0)
    assert "kayak" in recommended(client, "zoe", exclude_seen=False)
