"""The driver of the torture suites: it survives its cases, resumes, and counts."""

import json
from dataclasses import replace

import pytest

from tests.torture.driver import run_suite
from tests.torture.suites import Suite
from tests.torture.summary import DOCUMENT, RECORD, render_document, summarize

SUITE = Suite(
    module="tests.torture.misbehaving", count=6, short=6, title="", target="", timeout=0.5
)
KINDS = ["accepted", "rejected", "crash", "crash", "crash", "accepted"]


@pytest.fixture
def run_cases(tmp_path, monkeypatch):
    """Run the suite; the kinds of its outcomes, and the cases that were run this time."""
    log = tmp_path / "cases.txt"
    monkeypatch.setenv("TORTURE_TEST_LOG", str(log))

    def run(count=6, again=False, workers=1):
        log.write_text("")
        outcomes = run_suite(
            SUITE,
            tmp_path / "suite.jsonl",
            seed=3,
            count=count,
            workers=workers,
            again=again,
            show=False,
        )
        return [outcome["kind"] for outcome in outcomes], log.read_text().splitlines()

    return run


def test_cases_that_raise_exit_or_hang_are_outcomes(run_cases):
    kinds, names = run_cases(count=10)
    assert kinds == KINDS  # the suite has six cases
    assert names == ["fine", "refused", "raise", "exit", "sleep", "seed 3"]


def test_finished_cases_are_not_run_again_unless_they_failed(run_cases, tmp_path):
    assert run_cases(count=3)[0] == KINDS[:3]
    with (tmp_path / "suite.jsonl").open("a") as file:
        file.write('{"case": 3, "kin')  # of a killed driver
    assert run_cases(count=4) == (KINDS[:4], ["exit"])
    assert run_cases(count=4, again=True) == (KINDS[:4], ["raise", "exit"])


def test_two_workers_share_the_cases(run_cases):
    kinds, names = run_cases(workers=2)
    assert kinds == KINDS
    assert len(names) == 6


def test_a_summary_compares_counts_with_the_target():
    facts = {"seconds": 0.5, "cpu_seconds": 2, "peak_bytes": 7, "commit": "abc", "date": ""}
    outcomes = [{"kind": kind, **facts} for kind in KINDS[:3]]
    summary = summarize(SUITE, outcomes, count=3)
    assert summary["kinds"] == {"accepted": 1, "crash": 1, "rejected": 1}
    assert (summary["cases"], summary["cpu_seconds"], summary["peak_bytes"]) == (3, 6, 7)
    assert summary["result"] == "missed"
    tolerant = replace(SUITE, at_most={"crash": 1})
    assert summarize(tolerant, outcomes, count=3)["result"] == "met"
    assert summarize(tolerant, outcomes, count=4)["result"] == "not finished"
    demanding = replace(tolerant, at_least={"rejected": 2})
    assert summarize(demanding, outcomes, count=3)["result"] == "not finished"


def test_the_published_table_matches_its_record():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert render_document(text, json.loads(RECORD.read_text(encoding="utf-8"))) == text
