"""New versions of a run are swapped in while requests are answered, and swapped back."""

import shutil
import threading

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.inference.index import LinkIndex
from edgeformers.inference.load import load_fitted
from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service
from edgeformers.serve.versions import Versions, run_names
from tests.estimators.conftest import tiny

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


def test_the_run_of_the_next_night_is_served_after_a_reload(runs, tmp_path):
    current = tmp_path / "current"
    current.symlink_to(runs[1])
    versions = Versions([current], device="cpu")
    config = PrepareConfig(tokenizer=None, progress=False)
    grown = prepare_simulated(tmp_path / "network", num_edges=800, config=config)
    tonight = LinkPredictor(start_from=runs[1], device="cpu", show=False)
    tonight.fit(grown, run=tmp_path / "tonight")
    current.unlink()
    current.symlink_to(tmp_path / "tonight")
    (served,) = versions.reload()
    assert len(served.fitted.nodes) == grown.num_nodes > len(versions.previous[0].fitted.nodes)


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
def test_edges_that_a_new_network_has_are_not_taken_in_twice(client, run, tmp_path):
    store, count = tmp_path / "edges.sqlite", 12
    merged = [
        {"source": "zoe", "target": f"item-{at:06}", "text": f"My tent {at} is excellent."}
        for at in range(1, count + 1)
    ]
    later = {"source": "zoe", "target": "kayak", "text": "A good kayak."}
    client.post("/v1/edges", json={"edges": [{**merged[0], "source": "yan"}, *merged]})
    client.delete("/v1/nodes/yan/edges")
    config = PrepareConfig(tokenizer="train:8000", progress=False, add=[store])
    network = prepare_simulated(tmp_path / "network", num_edges=600, config=config)
    assert network.meta.stores[0]["added"] == count
    client.post("/v1/edges", json={"edges": [later]})
    shutil.rmtree(run)
    expected = tiny(LinkPredictor).fit(network, run=run).fitted_
    assert client.post("/v1/models/reload").status_code == 200
    assert client.post("/v1/edges", json={"edges": merged}).json()["duplicates"] == count
    expected.update([(later["source"], later["target"], later["text"])])
    for _ in range(2):
        page = client.get("/v1/nodes/zoe/edges?limit=100").json()
        texts = [edge["text"] for edge in page["edges"]]
        assert sorted(texts) == sorted(edge["text"] for edge in [*merged, later])
        assert page["total"] == count + 1
        assert client.get("/v1/nodes/yan/edges").status_code == 404
        client.post("/v1/models/rollback")  # the version before has taken in the same edges
    zoe = {"input": [{"node": "zoe"}]}
    vector = client.post("/v1/embeddings", json=zoe).json()["data"][0]["embedding"]
    np.testing.assert_allclose(vector, expected.embed_nodes(["zoe"])[0], rtol=1e-3, atol=1e-4)
    answers = client.get("/v1/nodes/zoe/recommendations?k=5").json()["recommendations"]
    wanted = expected.recommend("zoe", 5)
    assert [each["node"] for each in answers] == [each.node for each in wanted]
    assert answers[0]["components"] == pytest.approx(wanted[0].components, rel=1e-3, abs=1e-3)


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


def test_a_new_index_is_served_after_a_reload_and_reported_with_its_recall(client, run):
    assert client.get("/info").json()["models"][1]["index"] is None
    LinkIndex.build(load_fitted(run, device="cpu", show=False), run / "index", show=False)
    assert client.post("/v1/models/reload").status_code == 200
    index = client.get("/info").json()["models"][1]["index"]
    assert (index["kind"], index["recall_at_10"]) == ("exact", 1.0)


def test_runs_with_one_name_are_told_apart_by_their_folders(tmp_path):
    names = run_names([tmp_path / "a/links", tmp_path / "b/links", tmp_path / "a/edges"])
    assert names == ["a-links", "b-links", "edges"]
    with pytest.raises(InputError, match="a-links"):
        run_names([tmp_path / "a/links", tmp_path / "a/links"])
