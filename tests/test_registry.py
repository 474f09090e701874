from inspect import signature

import pytest
import torch
from torch import nn

from edgeformers.aliases import current_settings
from edgeformers.config import RunConfig, flatten
from edgeformers.data.batch import EdgeBatch, EdgeContextBatch, EgoBatch
from edgeformers.errors import ConfigError, InputError
from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.no_text import NoText
from edgeformers.nn.nodes import NodeLookup
from edgeformers.registry import BACKBONE_RATES, MODELS, find_entry, make_model, model_name
from tests.tiny_models import TINY_ENCODER, make_tiny


@pytest.mark.parametrize("name", MODELS)
def test_every_entry_makes_a_model_of_what_it_says(name):
    model = make_tiny(name)
    assert model_name(model) == name
    assert isinstance(model.config, MODELS[name].config)
    batch = {"edges": EdgeBatch, "nodes": EgoBatch}[MODELS[name].encodes]
    (given,) = list(signature(model.forward).parameters.values())
    assert given.annotation is (EdgeContextBatch if MODELS[name].context else batch)
    assert isinstance(model.encoder, BagOfWords) == (MODELS[name].text == "bag-of-words")
    assert isinstance(model.encoder, NoText) == (MODELS[name].text == "none")
    assert isinstance(model.nodes, NodeLookup)


@pytest.mark.parametrize("name", MODELS)
def test_what_every_entry_wants_and_tries_are_settings_of_its_task(name):
    entry = MODELS[name]
    task = {"edges": "edge-classification", "nodes": "link-prediction"}[entry.encodes]
    config = RunConfig(task=task).with_settings({**entry.settings, **entry.tuned})
    assert len(entry.grid) == len(BACKBONE_RATES)  # the same budget for every model
    assert all(("train.lr" in point) == (entry.text == "language-model") for point in entry.grid)
    for point in entry.grid:
        settings = flatten(config.with_settings(point).to_dict())
        assert {name: settings[name] for name in point} == point


def test_a_model_is_made_from_plain_values():
    encoder = random_backbone(TINY_ENCODER)
    model = make_model("edgeformer-e", {"num_nodes": 3, "tokens": ["source"]}, encoder)
    assert model.encoder is encoder
    assert model.config.tokens == ("source",)
    assert model.nodes.table.shape == (4, 64)


def test_the_seed_draws_what_stands_beside_the_encoder():
    encoder = random_backbone(TINY_ENCODER)
    one, same, other = (
        make_model("edgeformer-n", {"num_nodes": 3}, encoder, seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(one.nodes.table, same.nodes.table)
    assert torch.equal(one.pool.score.weight, same.pool.score.weight)
    assert not torch.equal(one.nodes.table, other.nodes.table)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="'edgeformer-f'; did you mean 'edgeformer-"):
        find_entry("edgeformer-f")
    with pytest.raises(ConfigError, match=r"'word2vec'; available: edgeformer-e, edgeformer-n"):
        make_model("word2vec", {}, random_backbone(TINY_ENCODER))


def test_a_model_of_0_1_that_is_defined_differently_now_is_named():
    settings = current_settings({"model.name": "ehgnn", "train.clip": 1.0})  # a name of 0.1
    with pytest.raises(ConfigError, match=r"'ehgnn' of version 0\.1 .* train it again"):
        find_entry(settings["model.name"])


def test_a_setting_of_another_model_is_refused():
    with pytest.raises(ConfigError, match="'pooling'"):
        make_tiny("edgeformer-e", pooling="mean")


def test_a_module_that_is_not_listed_has_no_name():
    with pytest.raises(InputError, match=r"Linear is not a registered model; available: edg"):
        model_name(nn.Linear(1, 1))
