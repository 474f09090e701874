"""The first cases of every torture suite; `make torture` runs them in full."""

import pytest

from tests.torture.commands import differences
from tests.torture.disturbances import NAMES
from tests.torture.driver import run_suite
from tests.torture.suites import SUITES, Suite

TOGETHER = Suite(
    module="tests.torture.disturbances",
    count=0,
    short=sum(SUITES[name].short for name in NAMES),
    title="",
    target="",
)
SHORT = {name: suite for name, suite in SUITES.items() if suite.short and name not in NAMES}


@pytest.mark.parametrize("suite", [*SHORT.values(), TOGETHER], ids=[*SHORT, "disturbances"])
def test_short(suite, tmp_path):
    path = tmp_path / "suite.jsonl"
    outcomes = run_suite(suite, path, seed=1, count=suite.short, show=False)
    assert len(outcomes) == suite.short
    assert [o for o in outcomes if suite.is_failure(o["kind"])] == []


def test_differences_name_files_and_ignore_times(tmp_path):
    (tmp_path / "same.json").write_text('{"seconds": 2, "score": 1}')
    (tmp_path / "other.json").write_text('{"score": 1}')
    (tmp_path / ".lock").touch()
    expected = {"same.json": {"score": 1}, "other.json": {"score": 2}, "gone.txt": b""}
    found = differences(tmp_path, expected)
    assert found == "missing: gone.txt; left behind: .lock; different: other.json"
