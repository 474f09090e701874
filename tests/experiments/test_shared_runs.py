import pytest

from edgeformers.experiments import worker
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import reproduce
from tests.experiments.conftest import TINY

ROWS = ("als", "edgeformer-n")


@pytest.fixture
def run(simulated, tmp_path, monkeypatch):
    """Carries out an experiment in one folder: which rows were trained, and what was said."""
    trained = []
    fit_run, fit_simple = worker.fit_run, worker._fit_simple
    monkeypatch.setattr(
        worker,
        "fit_run",
        lambda graph, path, *a, **k: (trained.append(path), fit_run(graph, path, *a, **k))[1],
    )
    monkeypatch.setattr(
        worker,
        "_fit_simple",
        lambda one, graph: (trained.append(one.path), fit_simple(one, graph))[1],
    )

    def do(experiment, *models, keep=True, dry=False):
        trained.clear()
        said = []
        options = ExperimentOptions(
            recipe="fast",
            seeds=1,
            settings=TINY,
            keep_models=keep,
            models=models,
            estimate=False,
            dry_run=dry,
        )
        found = reproduce(
            experiment, simulated, tmp_path / "out", options, say=said.append, show=False
        )
        assert found.failures == []
        return [path.parent.name for path in trained], "\n".join(said), found

    return do


def test_experiments_in_one_folder_share_the_runs_of_their_rows(run):
    assert run("link-prediction", *ROWS)[0] == list(ROWS)
    without = "edgeformer-n-without-local"
    assert run("ablation", "edgeformer-n", without)[0] == [without]
    trained, said, found = run("node-classification", *ROWS)
    assert trained == []
    assert "again" not in said
    assert {entry.row for entry in found.record.entries} == set(ROWS)


def test_a_model_that_was_dropped_is_trained_again_where_it_is_looked_into(run):
    first = run("link-prediction", *ROWS, keep=False)[2]
    assert run("ablation", "edgeformer-n")[0] == []  # its scores are enough
    trained, said, found = run("node-classification", *ROWS, dry=True)
    told = "Trained again, for their models were not kept: edgeformer-n, seed 0."
    assert (trained, told in said) == ([], True)
    trained, said, found = run("node-classification", *ROWS)
    assert (trained, told in said) == (["edgeformer-n"], True)
    assert {entry.row for entry in found.record.entries} == set(ROWS)
    again = run("link-prediction", *ROWS)[2]
    assert run("node-classification", *ROWS)[0] == []
    assert [one.metrics for one in again.record.entries] == [
        one.metrics for one in first.record.entries
    ]


def test_a_figure_of_a_model_that_was_dropped_has_it_trained_again(run):
    run("link-prediction", "edgeformer-n", keep=False)
    trained, _, found = run("embedding-plot", "edgeformer-n")
    assert trained == ["edgeformer-n"]
    assert "embedding-plot.svg" in [path.name for path in found.files]
