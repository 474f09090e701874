"""`chronological` and `rolling` as experiments: their rows, splits, tables and resumption."""

import pytest

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import InputError
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.record import RECORD, Record
from edgeformers.experiments.reproduce import experiment_rows, reproduce
from tests.experiments.conftest import TINY

MODELS = ("recent-popularity", "recent-ease", "edgeformer-n-ensemble")


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    config = PrepareConfig(tokenizer="train:200", progress=False)
    path = tmp_path_factory.mktemp("dated") / "network"
    return prepare_simulated(path, num_edges=700, config=config)


def measured(experiment, graph, out, *models, **settings):
    options = ExperimentOptions(
        recipe="fast",
        seeds=1,
        settings={**TINY, **settings},
        models=models,
        estimate=False,
        jobs=1,
    )
    return reproduce(experiment, graph, out, options, show=False)


def test_rolling_ranks_the_same_links_for_every_row_and_resumes(dated, tmp_path):
    results = measured("rolling", dated, tmp_path, *MODELS)
    assert results.failures == []
    names = [table.name for table in results.tables]
    dtgb = ["rolling/test/dtgb", "rolling/test/dtgb-historical"]  # no node is new here
    assert names == ["rolling/test", "rolling/val", "rolling/test/groups", *dtgb]
    record = Record.read(tmp_path / "rolling" / RECORD)
    counts = {
        tuple(sorted((k, v) for k, v in entry.metrics["test"].items() if k.startswith("links/")))
        for entry in record.entries
    }
    assert len(counts) == 1
    for entry in record.entries:
        assert {"rolling/mrr", "dtgb/ap", "dtgb/auc", "dtgb-historical/hit@3"} <= set(
            entry.metrics["test"]
        )
    assert {lead.metric for lead in record.comparisons} >= {"rolling/mrr"}
    assert all(lead.examples for lead in record.comparisons)
    assert not measured("rolling", dated, tmp_path, *MODELS).plan.pending


def test_chronological_reports_the_full_ranking(dated, tmp_path):
    results = measured("chronological", dated, tmp_path, "recent-popularity", "popularity")
    assert results.failures == []
    assert {table.name for table in results.tables} >= {"chronological/test/full"}
    rows = {run.row for run in results.plan.runs}
    assert rows == {"recent-popularity-chronological", "popularity-chronological"}


@pytest.mark.parametrize("experiment", ["chronological", "rolling"])
def test_a_random_split_is_refused(experiment, dated, tmp_path):
    with pytest.raises(InputError, match="chronological"):
        measured(experiment, dated, tmp_path, "recent-ease", **{"data.split": "random"})


@pytest.mark.parametrize("experiment", ["chronological", "rolling"])
@pytest.mark.parametrize("missing", [1, 20])
@pytest.mark.parametrize("models", [None, ["recent-popularity"]])
def test_a_network_without_a_time_for_every_edge_is_refused(
    experiment, missing, models, make_network, tmp_path
):
    rows = [{"source": "a", "target": f"t{i}", "text": "", "time": i} for i in range(20)]
    for at, row in enumerate(rows):
        if missing == len(rows):
            del row["time"]
        elif at < missing:
            row["time"] = None
    graph, options = make_network(rows), ExperimentOptions(models=models, estimate=False)
    with pytest.raises(InputError, match=f"{missing} of 20.*`time=`"):
        reproduce(experiment, graph, tmp_path / "out", options, show=False)


def test_a_row_that_the_network_cannot_have_says_what_it_needs():
    with pytest.raises(InputError, match="time"):
        experiment_rows("as-shipped", ExperimentOptions(models=["tgn"]))
    with pytest.raises(InputError, match="directed"):
        experiment_rows("cold-start", ExperimentOptions(models=["reciprocity"]))
    with pytest.raises(InputError, match="as-shipped"):  # no network has it there
        experiment_rows("link-prediction", ExperimentOptions(models=["tgn"]))


def test_rows_that_need_times_are_in_every_table_of_a_network_with_times():
    for experiment in ("as-shipped", "chronological", "rolling"):
        timed = {row.name for row in experiment_rows(experiment, ExperimentOptions(), timed=True)}
        plain = {row.name for row in experiment_rows(experiment, ExperimentOptions())}
        assert {"recent-popularity", "sasrec-text", "tgn"} <= timed - plain
        assert {"alpharec", "graph-transformer"} <= plain
