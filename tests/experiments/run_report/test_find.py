import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.run_report.find import find_runs
from tests.experiments.run_report.folders import edge_results, trained, write

EDGES = "edge-classification"


def names(paths, root):
    return [str(path.relative_to(root)) for path in paths]


def test_runs_are_found_at_any_depth_in_the_order_of_their_names(tmp_path):
    for name in ("b/1", "a/deep/0", "c"):
        trained(tmp_path / name, EDGES, edge_results(0.5))
    assert names(find_runs([tmp_path]).runs, tmp_path) == ["a/deep/0", "b/1", "c"]
    assert names(find_runs([tmp_path / "c"]).runs, tmp_path) == ["c"]


def test_a_run_reached_twice_is_one_run(tmp_path):
    trained(tmp_path / "runs/a", EDGES, edge_results(0.5))
    found = find_runs([tmp_path / "runs/a", tmp_path, tmp_path / "runs/../runs"])
    assert len(found.runs) == 1


def test_nothing_is_looked_for_in_a_run_a_network_or_a_hidden_folder(tmp_path):
    trained(tmp_path / "run", EDGES, edge_results(0.5))
    for inner in ("run/model", "network/inside", ".cache/run"):
        trained(tmp_path / inner, EDGES, edge_results(0.5))
    write(tmp_path / "network" / "network.json", {})
    assert names(find_runs([tmp_path]).runs, tmp_path) == ["run"]


def test_experiments_are_told_from_runs(tmp_path):
    write(tmp_path / "paper/ablation/plan.json", {})
    trained(tmp_path / "paper/runs/bert/0", EDGES, edge_results(0.5))
    found = find_runs([tmp_path])
    assert names(found.experiments, tmp_path) == ["paper/ablation"]
    assert names(found.runs, tmp_path) == ["paper/runs/bert/0"]


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*/x and .*/y; name folders of runs"):
        find_runs([tmp_path / "x", tmp_path, tmp_path / "y"])
