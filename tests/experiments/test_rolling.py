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


def test_rows_that_need_times_are_in_every_table_of_a_network_with_times():
    for experiment in ("as-shipped", "chronological", "rolling"):
        timed = {row.name for row in experiment_rows(experiment, ExperimentOptions(), timed=True)}
        plain = {row.name for row in experiment_rows(experiment, ExperimentOptions())}
        assert {"recent-popularity", "sasrec-text", "tgn"} <= timed - plain
        assert {"alpharec", "graph-transformer"} <= plain
