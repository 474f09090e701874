"""Networks whose edges have times: links are trained on the past by default, and it is said."""

import json

import numpy as np
import pandas as pd
import pytest

from edgeformers import LinkPredictor, load
from edgeformers.config import make_config
from edgeformers.data.card.card import DataCard
from edgeformers.data.card.describe import describe
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare
from edgeformers.data.splits import DEFAULT_SPLITS, TEST, TRAIN
from edgeformers.estimators import run_config
from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.plan import ExperimentOptions, row_config
from edgeformers.report.card_page import card_page
from edgeformers.report.terminal import render_text

PLAIN = PrepareConfig(tokenizer="train:200", progress=False)
LINKS = "link-prediction"


def reviews(days):
    """20 reviews on the given days; the last three are of a reader who is new then."""
    readers = [f"r{i % 4}" for i in range(17)] + ["new"] * 3
    return pd.DataFrame(
        {
            "source": readers,
            "target": [f"b{i % 5}" for i in range(20)],
            "text": [f"a good book {i}" for i in range(20)],
            "when": [None if d is None else f"2024-01-{d:02d}" for d in days],
        }
    )


def network(folder, days=range(1, 21), **more):
    return prepare(reviews(days), folder / "net", time="when", config=PLAIN, **more)


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    return network(tmp_path_factory.mktemp("dated"))


def test_times_add_a_split_by_time(dated):
    assert list(dated.splits) == ["edge", "link", "future"]
    codes = dated.split("future")
    assert dated.times[codes == TRAIN].max() < dated.times[codes == TEST].min()
    assert np.array_equal(codes, dated.split("chronological"))


@pytest.mark.parametrize(
    "days",
    [[None, *range(2, 21)], [1] * 20],
    ids=["a missing time", "one moment"],
)
def test_without_an_order_in_time_the_splits_are_random(days, tmp_path):
    assert list(network(tmp_path, days).splits) == ["edge", "link"]


def test_named_splits_and_simulated_networks_stay_as_they_are(tmp_path):
    assert list(network(tmp_path, splits=["link=per-source"]).splits) == ["link"]
    simulated = prepare("simulated", tmp_path / "simulated", num_edges=60, config=PLAIN)
    assert list(simulated.split_configs.values()) == list(DEFAULT_SPLITS)


@pytest.mark.parametrize(
    ("task", "recipe", "settings", "split"),
    [
        (LINKS, None, {}, "future"),
        (LINKS, "fast", {}, "future"),
        (LINKS, "fast", {"data.split": "link"}, "link"),
        (LINKS, "fast", {"data.split": ""}, ""),
        (LINKS, "paper", {}, ""),
        (LINKS, "paper-tuned", {}, ""),
        ("edge-classification", None, {}, ""),
    ],
)
def test_links_are_trained_on_the_past_by_default(task, recipe, settings, split, dated):
    assert run_config(task, recipe, settings=settings, graph=dated).data.split == split


def test_the_settings_of_an_earlier_run_keep_their_split(dated, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(make_config(LINKS, "fast").to_toml())
    assert run_config(LINKS, file=file, graph=dated).data.split == ""


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_experiments_keep_the_random_split(recipe, dated):
    options = ExperimentOptions(recipe=recipe)
    assert row_config(ROWS["edgeformer-n"], dated, options).data.split == ""


def test_training_says_how_links_are_split(dated, tmp_path, capsys):
    predictor = LinkPredictor("scratch:2x16", recipe="fast", settings={"train.epochs": 1})
    predictor.fit(dated)
    assert predictor.fitted_.network.split == "future"
    said = capsys.readouterr().err
    for share in ("70%", "10%", "20%", "25% of the test links"):  # 1 of 4 is of a known reader
        assert share in said
    predictor.save(tmp_path / "model")
    assert load(tmp_path / "model").fitted_.network.split == "future"


@pytest.mark.parametrize(
    ("settings", "prepared", "is_said"),
    [
        ({}, {}, True),
        ({"data.split": "link"}, {}, False),
        ({}, {"splits": ["link=random"]}, False),
        ({}, {"days": [1] * 20}, False),
    ],
    ids=["default", "chosen in training", "chosen in prepare", "all times"],
)
def test_training_says_that_times_are_missing(settings, prepared, is_said, tmp_path, capsys):
    graph = network(tmp_path, **{"days": [None, *range(2, 21)], **prepared})
    predictor = LinkPredictor("scratch:2x16", recipe="fast", settings=settings)
    predictor.make_objective(graph)
    assert ("time" in capsys.readouterr().err) == is_said


def test_the_card_shows_what_of_the_future_is_known(dated):
    card = describe(dated)
    test = card.splits[2].part("test")
    assert test.new_ends == {"neither": 1, "source": 3, "target": 0, "both": 0}
    assert sum(test.new_ends.values()) - test.new_ends["neither"] == test.cold_edges
    text = render_text(card_page(card))
    assert text.count("What of the future is known") == 1  # not of the random splits
    assert [f.splits for f in card.findings if f.about == "new nodes"] == [["future"]]
    assert "future=chronological+drop" not in card.prepare_options


def test_a_card_of_an_earlier_version_is_readable(dated):
    values = json.loads(describe(dated).to_json())
    for split in values["splits"]:
        for part in split["parts"]:
            del part["new_ends"]
    card = DataCard.from_json(json.dumps(values))
    assert "What of the future is known" not in render_text(card_page(card))
