import pytest

from edgeformers.experiments import runner
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import reproduce
from tests.experiments.conftest import TINY

ROWS = ("netmf", "edgeformer-n")


@pytest.fixture
def run(simulated, tmp_path, monkeypatch):
    """Runs experiments in one folder; returns the trained rows, the log and the results."""
    trained = []
    fit_run, fit_baseline = runner.fit_run, runner.fit_baseline

    def record_model(graph, path, *args, **options):
        trained.append(path.parent.name)
        return fit_run(graph, path, *args, **options)

    def record_baseline(planned, *args):
        trained.append(planned.row)
        return fit_baseline(planned, *args)

    monkeypatch.setattr(runner, "fit_run", record_model)
    monkeypatch.setattr(runner, "fit_baseline", record_baseline)
    options = {"recipe": "fast", "seeds": 1, "settings": TINY, "estimate": False}

    def run_experiment(experiment, *models, **more):
        trained.clear()
        lines = []
        chosen = ExperimentOptions(models=models, **options, **more)
        out = tmp_path / "out"
        results = reproduce(experiment, simulated, out, chosen, log=lines.append, show=False)
        assert results.failures == []
        return list(trained), "\n".join(lines), results

    return run_experiment


def test_experiments_in_one_folder_share_runs(run):
    assert run("link-prediction", *ROWS)[0] == list(ROWS)
    without = "edgeformer-n-without-local"
    assert run("ablation", "edgeformer-n", without)[0] == [without]
    trained, log, results = run("node-classification", *ROWS)
    assert trained == []
    assert "again" not in log
    assert {entry.row for entry in results.record.entries} == set(ROWS)


def test_a_dropped_model_is_trained_again_only_if_it_is_needed(run):
    first = run("link-prediction", *ROWS, keep_models=False)[2]
    assert run("ablation", "edgeformer-n")[0] == []  # its scores are enough
    for is_dry_run in (True, False):
        trained, log, results = run("node-classification", *ROWS, dry_run=is_dry_run)
        assert trained == ([] if is_dry_run else ["edgeformer-n"])
        assert "again" in log
        assert "edgeformer-n, seed 0" in log
    assert {entry.row for entry in results.record.entries} == set(ROWS)
    again = run("link-prediction", *ROWS)[2]
    assert run("node-classification", *ROWS)[0] == []
    assert [entry.metrics for entry in again.record.entries] == [
        entry.metrics for entry in first.record.entries
    ]


def test_a_figure_needs_its_model(run):
    run("link-prediction", "edgeformer-n", keep_models=False)
    trained, _, results = run("embedding-plot", "edgeformer-n")
    assert trained == ["edgeformer-n"]
    assert "embedding-plot.svg" in [path.name for path in results.files]
