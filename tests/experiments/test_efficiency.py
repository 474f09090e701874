import sys

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.efficiency import choose_centers, compare_times
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import reproduce
from tests.experiments.conftest import TINY


def test_timed_nodes_have_enough_edges_and_are_repeated_if_few():
    degrees = np.array([9, 9, 5, 1, 6, 7])
    assert choose_centers(degrees, 2, 3, 5).tolist() == [2, 4, 5]
    assert choose_centers(degrees, 2, 4, 7).tolist() == [5, 5, 5, 5]
    with pytest.raises(InputError, match="10 training edges"):
        choose_centers(degrees, 0, 3, 10)


def test_times_are_compared_by_the_ratio_of_medians_over_rounds():
    random = np.random.default_rng(0)
    load = random.uniform(1, 3, 40)  # of the machine, in every round the same for both
    seconds = {("a", "train", 2): 1.2 * load, ("b", "train", 2): load, ("c", "train", 2): load}
    slower = compare_times(seconds, "train", 2, "a", "b")
    assert (slower.table, slower.metric, slower.examples) == ("efficiency/train", "2", 40)
    assert slower.difference == pytest.approx(0.2)
    assert slower.low == slower.high == pytest.approx(0.2)
    same = compare_times(seconds, "train", 2, "b", "c")
    assert same.low <= 0 <= same.high


def test_timing_needs_no_optional_package_and_ignores_trained_runs(
    simulated, tmp_path, monkeypatch
):
    for name in ("matplotlib", "rich", "rich.cells", "duckdb", "polars", "jinja2"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "runs" / "bert-gin" / "0").mkdir(parents=True)
    (tmp_path / "runs" / "bert-gin" / "0" / "run.json").write_text('{"network_fingerprint": "x"}')
    options = ExperimentOptions(
        recipe="fast", settings=TINY, rounds=1, models=("bert-gin", "edgeformer-n"), estimate=False
    )
    found = reproduce("efficiency", simulated, tmp_path, options, show=False)
    assert [one.claim.id for one in found.checked] == ["time-close", "time-nested", "time-linear"]
    assert all(one.effect is not None for one in found.checked)
