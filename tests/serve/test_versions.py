"""New versions of a run are swapped in while requests are answered, and swapped back."""

import shutil
import threading

import pytest
import torch
from fastapi.testclient import TestClient

from edgeformers.errors import InputError
from edgeformers.inference.load import load_fitted
from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service
from edgeformers.serve.versions import run_names

EDGE = {"source": "a", "target": "b", "text": "My tent is excellent."}
NODE = "/v1/nodes/user-000003/recommendations"


@pytest.fixture
def run(runs, tmp_path):
    """A copy of the link run, to be changed."""
    shutil.copytree(runs[1], tmp_path / "links")
    return tmp_path / "links"


@pytest.fixture
def client(runs, run):
    service = Service([runs[0], run], store=run.parent / "edges.sqlite", device="cpu")
    with TestClient(create_app(service)) as client:
        yield client


def write_new_version(run):
    """Save the model of a run with other weights."""
    fitted = load_fitted(run, device="cpu", show=False)
    with torch.no_grad():
        for weight in fitted.model.parameters():
            weight += torch.randn_like(weight)
    fitted.save(run / "model")


def vector(client):
    body = {"input": [{"node": "user-000003"}]}
    return client.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]


def version(client):
    return client.get(NODE).json()["version"]


def test_a_new_version_is_served_after_a_reload_and_the_old_one_after_a_rollback(client, run):
    first, before = version(client), vector(client)
    assert client.post("/v1/models/rollback").status_code == 422
    assert client.post("/v1/models/reload").json()["previous"] == []
    write_new_version(run)
    assert version(client) == first
    reloaded = client.post("/v1/models/reload").json()
    second = version(client)
    assert second == reloaded["models"][1]["version"] != first
    assert reloaded["previous"][1]["version"] == first
    assert vector(client) != before
    assert f'model="links",version="{second}"' in client.get("/metrics").text
    client.post("/v1/models/rollback")
    assert version(client) == first
    assert vector(client) == before


def test_a_damaged_version_is_refused_and_the_old_one_stays(client, run):
    first = version(client)
    config = run / "model" / "config.json"
    config.write_text(config.read_text().replace("{", "", 1))
    answer = client.post("/v1/models/reload")
    assert answer.status_code == 409
    assert "config.json" in answer.json()["detail"]
    assert version(client) == first


def test_new_edges_are_known_to_a_new_version_and_after_a_rollback(client, run):
    edge = {"source": "zoe", "target": "item-000001", "text": "My tent is excellent."}
    client.post("/v1/edges", json={"edges": [edge]})
    write_new_version(run)
    client.post("/v1/models/reload")
    assert client.get("/v1/nodes/zoe/recommendations").status_code == 200
    client.post("/v1/edges", json={"edges": [{**edge, "source": "yan"}]})
    client.post("/v1/models/rollback")
    assert client.get("/v1/nodes/yan/recommendations").status_code == 200


@pytest.mark.slow
def test_no_request_fails_while_versions_are_swapped(client, run):
    answers, stop = [], threading.Event()

    def ask(path, body):
        while not stop.is_set():
            answer = client.post(path, json=body) if body else client.get(path)
            answers.append((answer.status_code, answer.json().get("version")))

    requests = [(NODE, None), ("/v1/edges/predict", {"edges": [EDGE]}), (NODE, None)]
    threads = [threading.Thread(target=ask, args=request) for request in requests]
    for thread in threads:
        thread.start()
    seen = {version(client)}
    for _ in range(3):
        write_new_version(run)
        assert client.post("/v1/models/reload").status_code == 200
        seen.add(version(client))
    client.post("/v1/models/rollback")
    stop.set()
    for thread in threads:
        thread.join()
    assert {status for status, _ in answers} == {200}
    assert len(seen) == 4
    assert seen <= {each for _, each in answers}


def test_runs_with_one_name_are_told_apart_by_their_folders(tmp_path):
    names = run_names([tmp_path / "a/links", tmp_path / "b/links", tmp_path / "a/edges"])
    assert names == ["a-links", "b-links", "edges"]
    with pytest.raises(InputError, match="a-links"):
        run_names([tmp_path / "a/links", tmp_path / "a/links"])
