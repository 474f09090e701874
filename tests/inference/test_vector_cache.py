"""What a trained model has encoded is not encoded again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeformers import EdgeClassifier, LinkPredictor
from edgeformers.config import make_config
from edgeformers.data.types import Ids
from edgeformers.inference import fitted_edges, trained_components
from edgeformers.inference.vector_cache import VectorCache
from edgeformers.runs import open_run, trained_run


def double(ids: Ids) -> np.ndarray:
    return np.stack([ids, 2 * ids], 1).astype(np.float32)


def test_each_number_is_encoded_once() -> None:
    cache, encoded = VectorCache(), []

    def encode(ids: Ids) -> np.ndarray:
        encoded.append(ids.tolist())
        return double(ids)

    for asked in ([3, 1, 3], [1, 2, 0, 2], [0, 1, 2, 3], []):
        ids = np.array(asked, np.int64)
        np.testing.assert_array_equal(cache.vectors("nodes", ids, 5, encode), double(ids))
    assert encoded == [[3, 1, 3], [0, 2]]


def test_kinds_are_separate_and_their_shares_are_known() -> None:
    cache, ids = VectorCache(), np.arange(4)
    cache.vectors("source", ids, 8, double)
    found = cache.vectors("target", ids, 8, lambda ids: -double(ids))
    np.testing.assert_array_equal(found, -double(ids))
    assert (cache.share("source"), cache.share("edges")) == (0.5, 0.0)


def test_only_so_many_bytes_are_kept() -> None:
    cache = VectorCache(most_bytes=16)
    for ids in (np.arange(2), np.arange(2, 4), np.arange(4)):
        np.testing.assert_array_equal(cache.vectors("nodes", ids, 4, double), double(ids))
    assert cache.share("nodes") == 0.5


def test_what_is_changed_afterwards_is_the_callers() -> None:
    cache, ids = VectorCache(), np.arange(3)
    for _ in range(2):
        cache.vectors("nodes", ids, 3, double)[:] = 7
    np.testing.assert_array_equal(cache.vectors("nodes", ids, 3, double), double(ids))


SETTINGS = {"train.epochs": 1, "train.batch_size": 64}


@pytest.fixture(scope="module")
def run(simulated, tmp_path_factory) -> tuple[Path, LinkPredictor]:
    folder = tmp_path_factory.mktemp("runs") / "run"
    settings = {**SETTINGS, "model.backbone": "scratch:2x32"}
    config = make_config("link-prediction", "fast", settings=settings)
    trained = trained_run(simulated, folder, config, device="cpu", show=False)
    assert isinstance(trained, LinkPredictor)
    return folder, trained


def test_a_trained_run_has_an_index_of_the_vectors_that_were_made(run, simulated) -> None:
    folder, trained = run
    opened = open_run(folder, simulated, device="cpu", show=False)
    assert isinstance(opened, LinkPredictor)
    assert opened.fitted_.index is not None
    np.testing.assert_array_equal(opened.embed_nodes(), trained.embed_nodes())
    assert opened.recommend("user-000003", 3) == trained.recommend("user-000003", 3)


def test_nodes_are_encoded_once_by_all_that_follows_training(run, simulated, monkeypatch) -> None:
    opened = open_run(run[0], simulated, device="cpu", show=False)
    fitted = replace(opened.fitted_, index_folder=None)
    encode_nodes, encoded = trained_components.encode_nodes, []

    def counted(model, loader, nodes, *args, **options):
        encoded.extend(nodes.tolist())
        return encode_nodes(model, loader, nodes, *args, **options)

    monkeypatch.setattr(trained_components, "encode_nodes", counted)
    first = fitted.evaluate("test")["full/mrr"]
    alone = replace(fitted, ensemble=None)
    alone.evaluate("test")
    assert fitted.evaluate("test")["full/mrr"] == first
    assert len(encoded) == len(set(encoded)) > 0


def test_nodes_with_new_edges_are_encoded_again(run, simulated) -> None:
    opened = open_run(run[0], simulated, device="cpu", show=False)
    fitted, before = replace(opened.fitted_, index_folder=None), opened.embed_nodes(["user-000003"])
    other = replace(fitted)
    fitted.embed_nodes(["user-000003"])
    fitted.update([("user-000003", "item-000001", "My tent is excellent.")])
    assert (fitted.embed_nodes(["user-000003"]) != before).any()
    np.testing.assert_allclose(other.embed_nodes(["user-000003"]), before, atol=1e-6)


def test_edges_are_encoded_once(simulated, monkeypatch) -> None:
    settings = {**SETTINGS, "edges.ensemble": True}
    classifier = EdgeClassifier("scratch:2x32", settings=settings, device="cpu", show=False)
    classifier.fit(simulated)
    monkeypatch.setattr(fitted_edges, "encode_edges", lambda *_: pytest.fail("edges were encoded"))
    classifier.embed_edges(classifier.fitted_.network.parts["val"])  # the ensemble read them
    monkeypatch.undo()
    probs = classifier.predict_proba()
    monkeypatch.setattr(fitted_edges, "encode_edges", lambda *_: pytest.fail("edges were encoded"))
    np.testing.assert_array_equal(classifier.predict_proba(), probs)
