import pytest

from edgeformers.experiments.claims import check_claims
from edgeformers.experiments.collect import collect_results, weakest_test
from edgeformers.experiments.runner import execute
from tests.experiments.records import lead


def test_a_refuting_comparison_decides_before_an_uncertain_one():
    ahead = lead("a", "b", difference=0.02, low=0.01, high=0.03)
    unsure = lead("a", "c", difference=0.01, low=-0.5, high=0.52)
    behind = lead("a", "d", difference=-0.02, low=-0.03, high=-0.01)
    assert weakest_test([ahead, unsure, behind]) == behind
    assert weakest_test([ahead, unsure]) == unsure


def test_claims_are_tested_over_seeds(tiny_plan):
    plan = tiny_plan("bert", "bert-nodes", seeds=2)
    assert execute(plan, show=False) == []
    record = collect_results(plan)
    assert {test.seeds for test in record.claim_tests} == {2}
    (checked,) = [one for one in check_claims(record) if one.effect is not None]
    assert (checked.claim.id, checked.effect.covers_seeds) == ("edges-nodes", True)


@pytest.fixture
def record(tiny_plan):
    plan = tiny_plan("tfidf", "tfidf-nodes")
    assert execute(plan, show=False) == []
    return collect_results(plan)


def test_rows_that_claims_compare_are_tested_on_their_examples(record):
    scores = {entry.row: entry.metrics["test"] for entry in record.entries}
    assert [test.metric for test in record.claim_tests] == ["macro_f1", "micro_f1"]
    for test in record.claim_tests:
        assert test.table == "edge-classification/test"
        assert (test.best, test.second) == ("tfidf-nodes", "tfidf")
        expected = scores["tfidf-nodes"][test.metric] - scores["tfidf"][test.metric]
        assert test.difference == pytest.approx(expected, abs=1e-5)
        assert test.low <= test.difference <= test.high
        assert test.seeds == 1
    (checked,) = [claim for claim in check_claims(record) if claim.effect is not None]
    assert (checked.effect.low, checked.effect.high) in [
        (t.low, t.high) for t in record.claim_tests
    ]
    assert "(95% interval " in str(checked)
