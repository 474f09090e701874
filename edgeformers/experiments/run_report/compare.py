"""Runs put side by side: their scores by protocol, and by how much the best of each kind lead."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa

from edgeformers.experiments.compare import Difference, compare_rows
from edgeformers.experiments.run_report.measures import (
    model_cost,
    model_curves,
    model_settings,
    scores_by_degree,
)
from edgeformers.experiments.run_report.model_rows import Row, make_rows
from edgeformers.experiments.run_report.read import RunRecord, is_number
from edgeformers.experiments.scoring import read_examples
from edgeformers.experiments.tables import PROTOCOLS
from edgeformers.report.results_verdict import verdict
from edgeformers.report.runs_data import RunGroup
from edgeformers.report.scores import MetricValue, TaskScores

#: Protocols in the order in which they decide: the full ranking is what a user meets.
DECIDING = ("full", "sampled", "paper")
Read = Callable[[Path], pa.Table | None]


def compare_runs(runs: Sequence[RunRecord], network: str, title: str) -> RunGroup:
    """Everything that runs of one task on one split of a network show together."""
    rows = make_rows(runs)
    found = list(_with_gains(_by_protocol(rows, title), rows))
    metric = found[0][0].metrics[0]
    return RunGroup(
        title=title,
        network=network,
        task=runs[0].task,
        scores=[task for task, _ in found],
        examples=max(examples for _, examples in found),
        curves=[curves for row in rows if (curves := model_curves(row, metric))],
        costs=[cost for row in rows if (cost := model_cost(row, metric))],
        degrees=scores_by_degree(rows, metric),
        settings=[model_settings(row) for row in rows],
    )


def _by_protocol(rows: Sequence[Row], title: str) -> Iterator[TaskScores]:
    """A table per protocol, or one where the task has none; the first decides."""
    results = [run.results for row in rows for run in row.runs]
    names = dict.fromkeys(name for one in results for name, v in one.items() if is_number(v))
    found = dict.fromkeys(name.rpartition("/")[0] for name in names)
    for protocol in dict.fromkeys((*(p for p in DECIDING if p in found), *found)):
        metrics = [name for name in names if name.rpartition("/")[0] == protocol]
        metrics = _without_twin(rows, metrics)
        yield TaskScores(
            task=f"{title}, protocol {protocol}" if protocol else title,
            metrics=metrics,
            models=[row.scores(metrics) for row in rows],
            note=PROTOCOLS.get(protocol, ""),
        )


def _without_twin(rows: Iterable[Row], metrics: list[str]) -> list[str]:
    """Where an edge has one class, accuracy is Micro-F1 by another name."""
    results = [run.results for row in rows for run in row.runs]
    if any(one.get("accuracy") != one.get("micro_f1") for one in results):
        return metrics
    return [metric for metric in metrics if metric != "accuracy"]


def _with_gains(
    tasks: Iterable[TaskScores], rows: Sequence[Row]
) -> Iterator[tuple[TaskScores, int]]:
    """Tasks with the paired gains of the best that sees both, and on how many examples."""
    named, read = {row.title: row for row in rows}, cache(read_examples)
    for task in tasks:
        told = verdict(task)
        if told is None:
            yield task, 0
            continue
        *alone, both = told.models
        gaps: dict[str, Difference] = {
            model.inputs: gap
            for model in alone
            if (gap := _gap(named[both.model], named[model.model], task.metrics[0], read))
        }
        gains = {
            sees: MetricValue(value=g.value, low=g.low, high=g.high) for sees, g in gaps.items()
        }
        yield replace(task, gains=gains), max((g.examples for g in gaps.values()), default=0)


def _gap(ours: Row, theirs: Row, metric: str, read: Read) -> Difference | None:
    """The paired difference of two rows; None where a run kept no examples, or other ones."""
    tables = [[read(run.path) for run in row.runs] for row in (ours, theirs)]
    first, second = ([one for one in some if one is not None] for some in tables)
    if (len(first), len(second)) != (len(ours.runs), len(theirs.runs)):
        return None
    return compare_rows(first, second, "test", metric)
