"""Networks, models and runs written before the redesign (0.1) load, resume and rank as they did.

The folders in tests/fixtures/v0_1 were written by commit 6d56c9f, and expected.json holds what that
code answered: an edge run, a link run with its ensemble, a link run among nodes of one type with
reciprocity, and a run that was killed after its first checkpoint.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.evaluation import bootstrap_interval as interval
from edgeformers.evaluation import network_links, report
from edgeformers.runs import open_run, read_config, train_run

FIXTURES = Path(__file__).parent / "fixtures" / "v0_1"
NEWER_RESULTS = ("calibration", "ece", "recommendations")  # which 0.1 did not have
NETWORKS = {"edge-run": "reviews", "link-run": "reviews", "reply-run": "replies"}


@pytest.fixture(scope="module")
def expected():
    return json.loads((FIXTURES / "expected.json").read_text())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A copy of the old folders, so that nothing is written into the repository."""
    folder = tmp_path_factory.mktemp("saved") / "v0_1"
    shutil.copytree(FIXTURES, folder)
    return folder


def open_saved(saved, run):
    return open_run(saved / run, saved / NETWORKS[run], device="cpu", show=False)


def assert_same(actual, wanted, where=""):
    """Nested results are equal, numbers to within rounding."""
    if isinstance(wanted, dict):
        assert set(actual) - set(NEWER_RESULTS) == set(wanted), where
        for name in wanted:
            assert_same(actual[name], wanted[name], f"{where}/{name}")
    elif isinstance(wanted, list):
        assert len(actual) == len(wanted), where
        for at, value in enumerate(wanted):
            assert_same(actual[at], value, f"{where}[{at}]")
    elif isinstance(wanted, float):
        assert actual == pytest.approx(wanted, rel=1e-4, abs=1e-6, nan_ok=True), where
    else:
        assert actual == wanted, where


def test_an_old_edge_run_predicts_as_it_did(saved, expected):
    classifier, wanted = open_saved(saved, "edge-run"), expected["edge-run"]
    new = [tuple(edge) for edge in wanted["new"]]
    np.testing.assert_allclose(classifier.predict_proba(new), wanted["proba"], atol=1e-5)
    np.testing.assert_allclose(classifier.predict_proba(), wanted["test_proba"], atol=1e-5)
    assert_same(json.loads(json.dumps(classifier.evaluate("test"))), wanted["evaluate"])


@pytest.mark.parametrize("run", ["link-run", "reply-run"])
def test_an_old_link_run_ranks_as_it_did(saved, expected, run, monkeypatch):
    # 0.1 took the pairs of the protocol `paper` in the order of the file.
    monkeypatch.setattr(network_links, "order_links", lambda _, links: np.arange(len(links)))
    # Its intervals resampled pairs, not sources, and all pairs had equal weights.
    monkeypatch.setattr(report, "bootstrap_interval", lambda x, seed, **_: interval(x, seed))
    predictor, wanted = open_saved(saved, run), expected[run]
    scores = predictor.score([tuple(pair) for pair in wanted["pairs"]])
    np.testing.assert_allclose(scores, wanted["scores"], rtol=1e-4, atol=1e-5)
    for source, recommended in wanted["recommend"].items():
        answer = predictor.recommend(source, 5)
        assert [one.node for one in answer] == [node for node, *_ in recommended]
        np.testing.assert_allclose(
            [one.score for one in answer], [score for _, score, _ in recommended], rtol=1e-4
        )
    edges = [tuple(edge) for edge in wanted["new_edges"]]
    answer = predictor.recommend(edges=edges, k=5)
    assert [one.node for one in answer] == [node for node, _ in wanted["new_recommend"]]
    assert_same(json.loads(json.dumps(predictor.evaluate("test"))), wanted["evaluate"])


def test_an_old_interrupted_run_resumes_to_the_same_end(saved, expected, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(saved / "interrupted-run", run)
    network = EdgeTextGraph.open(saved / "reviews")
    results = train_run(network, run, read_config(run), device="cpu", show=False)
    assert_same(results, expected["interrupted-run"]["results"])
