from types import SimpleNamespace

import numpy as np
import pytest
import torch

from edgeformers.data import text_states
from edgeformers.estimators import EdgeClassifier, LinkPredictor, load
from edgeformers.training.optimizers import Optimizers, freeze_layers
from edgeformers.training.state_cache import cacheable_layers, cached_states
from tests.tiny_models import make_tiny

SETTINGS = {"model.text_layers": 2, "model.node_width": 8, "train.epochs": 1}


def make_objective(kind, network):
    """An objective whose two lowest layers are frozen and read the text only."""
    made = kind("scratch:3x32", settings=SETTINGS, device="cpu", show=False)
    objective = made.make_objective(network)
    freeze_layers(objective.model.encoder, 2)
    objective.modules.eval()  # without dropout, results can be compared
    return objective


def text_of(batch):
    return batch.egos.text if hasattr(batch, "egos") else batch.text


@pytest.mark.parametrize(("frozen", "text", "cached"), [(0, 1, 0), (1, 2, 1), (2, 1, 1), (2, 2, 2)])
def test_cached_layers_are_frozen_and_see_no_node(frozen, text, cached):
    model = make_tiny("edgeformer-n", text_layers=text)
    freeze_layers(model.encoder, frozen)
    assert cacheable_layers(model) == cached


@pytest.mark.parametrize("kind", [EdgeClassifier, LinkPredictor])
def test_the_loss_and_its_gradients_are_those_without_a_cache(kind, simulated, tmp_path):
    objective = make_objective(kind, simulated)
    ids, losses, gradients = objective.batches(0)[0], [], []
    for folder in (None, tmp_path):
        objective.modules.zero_grad()
        if folder is None:
            losses.append(objective.backward([objective.make(ids, 0, None)]))
        else:
            with cached_states(objective.fitted, folder):
                pieces = objective.make(ids, 0, None)
                assert text_of(pieces[0]).state_layers == 2
                losses.append(objective.backward([pieces]))
        gradients.append(objective.model.nodes.table.grad.to_dense().clone())
    torch.testing.assert_close(losses[1], losses[0], atol=1e-3, rtol=1e-3)
    assert torch.nn.functional.cosine_similarity(*map(torch.flatten, gradients), dim=0) > 0.999


def test_the_cache_ends_with_training(simulated, tmp_path):
    objective = make_objective(EdgeClassifier, simulated)
    test, train = objective.parts["test"][:4], objective.parts["train"][:4]
    with cached_states(objective.fitted, tmp_path):
        assert text_of(objective.loader.batch(train)).states is not None
        assert text_of(objective.loader.batch(test)).states is None  # training does not read it
    assert text_of(objective.loader.batch(train)).states is None
    assert not list(tmp_path.iterdir())


def test_without_space_training_goes_on_without_a_cache(simulated, tmp_path, monkeypatch):
    usage = SimpleNamespace(disk_usage=lambda folder: SimpleNamespace(free=0))
    monkeypatch.setattr(text_states, "shutil", usage)
    objective = make_objective(EdgeClassifier, simulated)
    with cached_states(objective.fitted, tmp_path):
        assert text_of(objective.loader.batch(objective.parts["train"][:4])).states is None


def test_a_resumed_run_ends_as_an_uninterrupted_one(simulated, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformers.estimators.build.SCRATCH", "pretrained:")  # freeze it
    settings = {**SETTINGS, "train.frozen_layers": 2, "train.checkpoint_every": 5}

    def fit(run):
        made = EdgeClassifier("scratch:3x32", settings=settings, device="cpu", show=False)
        return made.fit(simulated, run=run)

    expected = fit(tmp_path / "whole").embed_edges()
    step = Optimizers.step
    calls = iter(range(12))

    def fail(optimizers, factor):
        if next(calls, None) is None:
            raise RuntimeError("killed")
        step(optimizers, factor)

    with monkeypatch.context() as patch:
        patch.setattr(Optimizers, "step", fail)
        with pytest.raises(RuntimeError, match="killed"):
            fit(tmp_path / "killed")
    vectors = fit(tmp_path / "killed").embed_edges()
    np.testing.assert_array_equal(vectors, expected)


def test_a_model_with_cached_layers_is_saved_and_loaded(simulated, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformers.estimators.build.SCRATCH", "pretrained:")  # freeze it
    settings = {**SETTINGS, "train.frozen_layers": 2}
    made = EdgeClassifier("scratch:3x32", settings=settings, device="cpu", show=False)
    made.fit(simulated, run=tmp_path / "run")
    assert cacheable_layers(made.model) == 2
    loaded = load(tmp_path / "run", network=simulated, device="cpu")
    assert loaded.model.config.text_layers == 2
    edges = [("user-000001", "item-000001", "My tent is excellent.")]
    np.testing.assert_allclose(loaded.predict_proba(edges), made.predict_proba(edges), atol=1e-6)
