"""Models shared as folders or on the Hub: portable, validated, and without a network."""

import json
import os
import shutil

import huggingface_hub
import numpy as np
import pytest

from edgeformers.errors import FormatError, InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor

EDGES = [("user-000001", "item-000001", "My tent is excellent."), ("nobody", "nothing", "Bad.")]


@pytest.fixture
def shared(classifier, tmp_path):
    return classifier.save_pretrained(tmp_path / "shared")


@pytest.fixture
def hub(shared, tmp_path, monkeypatch):
    """The Hub with one model, `owner/edges`, in a cache of symbolic links; all else is offline."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    shutil.copytree(shared, blobs)
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(file)
    asked = []

    def cached(name, file, **more):
        return str(snapshot / file) if name == "owner/edges" else None

    def download(name, *, allow_patterns, **more):
        asked.append((name, allow_patterns, more))
        return str(snapshot)

    def offline(url, timeout):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", cached)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", offline)
    return snapshot, asked


def test_a_shared_folder_predicts_the_same_and_names_no_path(classifier, shared, tmp_path):
    loaded = EdgeClassifier.from_pretrained(shared)
    assert loaded.predict(EDGES) == classifier.predict(EDGES)
    np.testing.assert_array_equal(loaded.embed_edges(EDGES), classifier.embed_edges(EDGES))
    assert "network" not in json.loads((shared / "config.json").read_text())["extra"]
    assert str(tmp_path.parent) not in (shared / "config.json").read_text()
    graph = classifier.fitted_.network.graph
    card = (shared / "README.md").read_text()
    assert f"| Edges | {graph.num_edges:,} |" in card
    assert "edgeformers" in card
    with pytest.raises(InputError, match="network"):
        loaded.evaluate()
    assert loaded.attach(graph).evaluate()["macro_f1"] == classifier.evaluate()["macro_f1"]


def test_a_folder_may_contain_the_network(predictor, tmp_path):
    folder = predictor.save_pretrained(tmp_path / "shared", include_network=True)
    loaded = LinkPredictor.from_pretrained(folder)
    ids = [[one.node for one in each.recommend("user-000001", k=3)] for each in (loaded, predictor)]
    assert ids[0] == ids[1]


def test_a_model_of_the_hub_is_loaded_from_the_cache(classifier, hub):
    loaded = EdgeClassifier.from_pretrained("owner/edges", revision="v1")
    assert loaded.predict(EDGES) == classifier.predict(EDGES)
    (name, patterns, more), *_ = hub[1]
    assert (name, more) == ("owner/edges", {"revision": "v1"})
    assert not any("*" in pattern and "network" not in pattern for pattern in patterns)


def test_another_kind_of_model_is_refused(shared):
    with pytest.raises(InputError, match="edge-classification"):
        LinkPredictor.from_pretrained(shared)


def test_a_name_that_is_not_there_is_explained(hub, tmp_path):
    with pytest.raises(InputError, match=r"owner/other.*no route to host"):
        EdgeClassifier.from_pretrained("owner/other")
    with pytest.raises(InputError, match="no such folder"):
        EdgeClassifier.from_pretrained(tmp_path / "nowhere")


def test_altered_weights_are_refused(hub):
    snapshot, _ = hub
    weights = (snapshot / "model.safetensors").resolve()
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(FormatError, match=r"model\.safetensors"):
        EdgeClassifier.from_pretrained("owner/edges")


def test_no_code_and_no_path_of_a_stranger_is_used(hub, simulated, tmp_path):
    snapshot, _ = hub
    ran = tmp_path / "ran"
    (snapshot / "modeling.py").write_text(f"open({str(ran)!r}, 'w')")
    (snapshot / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    config = (snapshot / "config.json").resolve()
    facts = json.loads(config.read_text())
    facts["extra"]["network"] = os.fspath(simulated.path)
    config.write_text(json.dumps(facts))
    loaded = EdgeClassifier.from_pretrained("owner/edges")
    assert loaded.fitted_.network_path is None
    with pytest.raises(InputError, match="network"):
        loaded.evaluate()
    assert not ran.exists()


def test_a_model_is_uploaded_to_the_hub(classifier, tmp_path, monkeypatch):
    done = []

    class Api:
        def create_repo(self, name, *, private, exist_ok):
            done.append(("create", name, private, exist_ok))

        def upload_folder(self, *, repo_id, folder_path):
            done.append(("upload", repo_id, folder_path))

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    folder = classifier.save_pretrained(tmp_path / "shared", push_to_hub="owner/edges")
    assert done == [("create", "owner/edges", True, True), ("upload", "owner/edges", str(folder))]
