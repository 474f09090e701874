import numpy as np
import pytest

from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.text.tfidf import Tfidf
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import LinkReport, metrics
from edgeformers.experiments.scoring import read_examples, score
from tests.estimators.conftest import tiny

FIT = {
    "classifier": lambda graph: tiny(EdgeClassifier, **{"train.epochs": 1}).fit(graph),
    "tfidf": lambda graph: Tfidf().fit(graph, "edge"),
    "predictor": lambda graph: tiny(LinkPredictor, **{"train.epochs": 1}).fit(graph),
    "popularity": lambda graph: Popularity().fit(graph, "link"),
}


@pytest.fixture(scope="module")
def scores(simulated):
    splits = {"classifier": "edge", "tfidf": "edge", "predictor": "link", "popularity": "link"}
    return {name: score(FIT[name](simulated), simulated, splits[name]) for name in FIT}


def rows_of(table, part="test"):
    return table.filter(np.array(table.column("part").to_pylist()) == part)


@pytest.mark.parametrize("name", ["classifier", "tfidf"])
def test_metrics_of_edges_follow_from_the_saved_predictions(scores, name):
    results, examples = scores[name].results, scores[name].examples
    assert set(results) == {"val", "test"}
    for part, values in results.items():
        table = rows_of(examples, part)
        labels, predicted = (table.column(c).to_numpy() for c in ("label", "predicted"))
        assert values["macro_f1"] == pytest.approx(metrics.macro_f1(labels, predicted))
        low, high = values["micro_f1_interval"]
        assert low <= values["micro_f1"] <= high


@pytest.mark.parametrize("name", ["predictor", "popularity"])
def test_metrics_of_links_follow_from_the_saved_ranks(scores, name):
    table = rows_of(scores[name].examples)
    report = LinkReport(ranks={"full": table.column("full").to_numpy()})
    results = scores[name].results["test"]
    assert results["full/mrr"] == pytest.approx(report.metrics("full")["mrr"], abs=1e-6)
    assert set(results["groups"]["full"]) >= {"degree 0", "cold"}


@pytest.mark.parametrize("pair", [("classifier", "tfidf"), ("predictor", "popularity")])
def test_models_and_baselines_are_scored_on_the_same_examples(scores, pair):
    first, second = (scores[name].examples for name in pair)
    assert first.column("edge").equals(second.column("edge"))
    assert sorted(first.column_names) == sorted(second.column_names)


def test_examples_are_read_as_they_were_written(scores, tmp_path):
    assert read_examples(tmp_path) is None
    for name in ("tfidf", "popularity"):
        folder = tmp_path / name
        folder.mkdir()
        scores[name].write_examples(folder)
        assert read_examples(folder).to_pylist() == scores[name].examples.to_pylist()


def test_only_the_wanted_parts_and_protocols_are_scored(simulated):
    baseline = FIT["popularity"](simulated)
    found = score(baseline, simulated, "link", parts=("test",), protocols=("full",))
    assert list(found.results) == ["test"]
    assert "sampled/mrr" not in found.results["test"]
    model = found.model_scores("popularity", "nodes", ["full/mrr"])
    assert model.metrics["full/mrr"].value == found.results["test"]["full/mrr"]
