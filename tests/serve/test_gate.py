"""Hostile and oversized requests are refused with a problem, never with a server error."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from edgeformers.serve.app import create_app
from edgeformers.serve.limits import Limits

PREDICT = "/v1/edges/predict"
EDGE = {"source": "user-000003", "target": "item-000001", "text": "fine"}
JSON = {"Content-Type": "application/json"}


def is_problem(answer):
    body = answer.json()
    return (
        answer.headers["content-type"] == "application/problem+json"
        and body["status"] == answer.status_code
        and body["detail"]
        and "Traceback" not in answer.text
    )


HOSTILE = {
    "not JSON": b"{",
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "a string": b'"edges"',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"edges":' * 100_000,
    "deep and closed": b'{"edges":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "invalid UTF-8": b'{"edges": [{"source": "\xff", "target": "b", "text": "c"}]}',
    "a lone surrogate": b'{"edges": [{"source": "\\ud800", "target": "b", "text": "c"}]}',
    "NUL in a text": b'{"edges": [{"source": "a", "target": "b", "text": "c\\u0000"}]}',
    "NUL in an id": b'{"edges": [{"source": "a\\u0000", "target": "b", "text": "c"}]}',
    "a number as a text": b'{"edges": [{"source": "a", "target": "b", "text": 3}]}',
    "a missing field": b'{"edges": [{"source": "a"}]}',
    "an unknown field": b'{"edges": [], "modle": "x"}',
    "many unknown fields": b"{" + b",".join(b'"%d":0' % i for i in range(200_000)) + b"}",
    "many wrong items": b'{"edges": [' + b"0," * 500_000 + b"0]}",
    "no edges": b'{"edges": []}',
    "a huge number": b'{"edges": ' + b"9" * 10_000 + b"}",
    "an infinity": b'{"edges": 1e999}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bodies_are_refused(client, body):
    answer = client.post(PREDICT, content=body, headers=JSON)
    assert answer.status_code in (400, 422)
    assert is_problem(answer)
    assert len(answer.content) < 50_000


def test_another_content_type_is_not_read_as_json(client):
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data"}, {}):
        answer = client.post(PREDICT, content=b'{"edges": []}', headers=headers)
        assert answer.status_code == 422
        assert is_problem(answer)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_is_413_with_the_limit(client, is_chunked):
    size = 10_000_000
    read = []

    def chunks():
        for _ in range(0, size, 100_000):
            read.append(1)
            yield b"x" * 100_000

    answer = client.post(PREDICT, content=chunks() if is_chunked else b"x" * size, headers=JSON)
    assert answer.status_code == 413
    assert is_problem(answer)
    assert f"{Limits().body_bytes:,}" in answer.json()["detail"]


def test_too_many_edges_or_too_long_a_text_is_413_with_the_limit(client):
    many = client.post(PREDICT, json={"edges": [EDGE] * 2_049})
    long = client.post(PREDICT, json={"edges": [{**EDGE, "text": "a" * 20_001}]})
    nodes = client.post("/v1/recommendations", json={"nodes": ["a"] * 2_049})
    assert [each.status_code for each in (many, long, nodes)] == [413] * 3
    assert "2,048" in many.json()["detail"]
    assert "20,000" in long.json()["detail"]


def test_too_many_tokens_are_413_with_the_limit(client):
    texts = ["a" * 19_000] * 60  # less than the limits of a body, of items and of a text
    edges = [{**EDGE, "text": text} for text in texts]
    requests = {
        PREDICT: {"edges": edges},
        "/v1/embeddings": {"input": texts},
        "/v1/recommendations": {"edges": [{"target": "a", "text": text} for text in texts]},
    }
    for path, body in requests.items():
        answer = client.post(path, json=body)
        assert answer.status_code == 413
        assert f"{Limits().queue_tokens:,}" in answer.json()["detail"]
    assert client.get("/info").json()["limits"]["queue_tokens"] == Limits().queue_tokens


@pytest.mark.parametrize(
    "path",
    [
        "/v1/nodes/%00/recommendations",
        "/v1/nodes/%ff%fe/recommendations",
        "/v1/nodes/%ed%a0%80/recommendations",
        "/v1/nodes//recommendations",
        "/v1/nodes/a%2F..%2Fb/recommendations",
        "/v1/nodes/" + "x" * 5_000 + "/recommendations",
    ],
)
def test_strange_node_ids_are_unknown_nodes(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert is_problem(answer)


@pytest.mark.parametrize("query", ["k=0", "k=x", "k=1e3", "k=99999999999999999999", "explain=-1"])
def test_wrong_parameters_are_422_with_their_name(client, query):
    answer = client.get(f"/v1/nodes/user-000003/recommendations?{query}")
    assert answer.status_code == 422
    assert query.partition("=")[0] in answer.json()["detail"]


def test_unknown_paths_and_methods_are_problems_too(client):
    assert is_problem(client.get("/v1/nothing"))
    answer = client.put("/v1/models")
    assert answer.status_code == 405
    assert is_problem(answer)


def test_a_fault_of_the_server_is_500_without_its_details(service, monkeypatch, caplog):
    monkeypatch.setattr(service, "models", lambda: 1 / 0)
    client = TestClient(create_app(service), raise_server_exceptions=False)
    answer = client.get("/v1/models")
    assert answer.status_code == 500
    assert is_problem(answer)
    assert "division" not in answer.text
    assert "ZeroDivisionError" in caplog.text
    assert "edgeformers_errors_total 1.0" in client.get("/metrics").text


def test_too_many_requests_at_once_are_503_and_health_still_answers(service, monkeypatch):
    release, inside = threading.Event(), threading.Barrier(3)

    def slow():
        inside.wait(5)
        assert release.wait(5)
        return original()

    original = service.models
    monkeypatch.setattr(service, "models", slow)
    monkeypatch.setattr(service, "limits", Limits(in_flight=2))
    client, pool = TestClient(create_app(service)), ThreadPoolExecutor(2)
    waiting = [pool.submit(client.get, "/v1/models") for _ in range(2)]
    inside.wait(5)
    refused = client.get("/v1/nodes?query=x")
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert is_problem(refused)
    assert client.get("/health/live").status_code == 200
    assert "edgeformers_requests_in_flight 3.0" in client.get("/metrics").text
    release.set()
    assert [each.result(5).status_code for each in waiting] == [200, 200]


def test_metrics_count_requests_by_route_and_show_versions(client, service):
    client.get("/v1/nodes/user-000003/recommendations?k=1")
    text = client.get("/metrics").text
    route = 'route="/v1/nodes/{node}/recommendations"'
    assert f'edgeformers_requests_total{{method="GET",{route},status="200"}}' in text
    assert "edgeformers_request_seconds_bucket{le=" in text
    version = service.versions.find("link-prediction").version
    assert f'edgeformers_model_info{{model="links",version="{version}"}} 1.0' in text
    for name in ("queue_length", "queue_tokens", "batch_tokens_sum", "batch_items_sum"):
        assert f"edgeformers_{name} " in text
