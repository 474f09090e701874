import pytest

from edgeformers.experiments.claims import check_claims
from edgeformers.experiments.collect import collect_results
from edgeformers.experiments.record import Record
from edgeformers.experiments.runner import execute


@pytest.fixture
def gathered(tiny_plan):
    plan = tiny_plan("tfidf", "tfidf-nodes")
    assert execute(plan, show=False) == []
    return collect_results(plan)


def test_rows_that_claims_compare_are_tested_on_their_examples(gathered):
    scores = {entry.row: entry.metrics["test"] for entry in gathered.entries}
    assert [one.metric for one in gathered.claim_tests] == ["macro_f1", "micro_f1"]
    for one in gathered.claim_tests:
        assert (one.table, one.best, one.second) == (
            "edge-classification/test",
            "tfidf-nodes",
            "tfidf",
        )
        expected = scores["tfidf-nodes"][one.metric] - scores["tfidf"][one.metric]
        assert one.difference == pytest.approx(expected, abs=1e-5)
        assert one.low <= one.difference <= one.high
    (checked,) = [one for one in check_claims(gathered) if one.margin is not None]
    assert checked.test in gathered.claim_tests
    assert "(95% interval " in str(checked)


def test_a_record_is_read_with_or_without_tests(gathered, tmp_path):
    path = tmp_path / "record.json"
    gathered.write(path)
    assert Record.read(path) == gathered
    text = path.read_text()
    start, end = text.index(' "claim_tests"'), text.index(' "failures"')
    path.write_text(text[:start] + text[end:])
    assert Record.read(path).claim_tests == []
