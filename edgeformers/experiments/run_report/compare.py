"""Compare the runs of one task: scores by protocol, paired gains, and scores by node degree."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from edgeformers.experiments.compare import Difference, compare_rows
from edgeformers.experiments.run_report.models import ComparedModel, group_by_model
from edgeformers.experiments.run_report.read import FinishedRun, is_scalar
from edgeformers.experiments.scoring import read_examples
from edgeformers.experiments.tables import PROTOCOLS
from edgeformers.report.comparison import DegreeScores, RunGroup
from edgeformers.report.scores import MetricValue, TaskScores

#: Protocols by importance: the full ranking is what users get.
PRIORITY = ("full", "sampled", "paper")
#: Groups of test pairs in results.json, and their names on the page.
DEGREES = {
    "cold": "cold",
    "degree 1-3": "1 to 3",
    "degree 4-10": "4 to 10",
    "degree 11+": "11 or more",
}
ReadExamples = Callable[[Path], pa.Table | None]


def compare_runs(runs: Sequence[FinishedRun], network: str, title: str) -> RunGroup:
    """Everything that the runs of one task on one split of a network show together."""
    models = group_by_model(runs)
    first, *others = _with_gains(_by_protocol(models, title), models)
    compared = [(_with_verdict(first[0], models), first[1]), *others]
    metric = compared[0][0].metric
    return RunGroup(
        title=title,
        network=network,
        task=runs[0].task,
        scores=[task for task, _ in compared],
        examples=max(examples for _, examples in compared),
        curves=[curves for model in models if (curves := model.curves(metric))],
        costs=[cost for model in models if (cost := model.cost(metric))],
        degrees=scores_by_degree(models, metric),
        calibration=[curve for model in models if (curve := model.calibration())],
        recommendations=[each for model in models if (each := model.recommendations())],
        settings=[model.settings() for model in models],
    )


def _by_protocol(models: Sequence[ComparedModel], title: str) -> Iterator[TaskScores]:
    """One table per protocol of link prediction, most important first; else a single table."""
    results = [run.results for model in models for run in model.runs]
    names = dict.fromkeys(name for values in results for name, v in values.items() if is_scalar(v))
    if all(values.get("accuracy") == values.get("micro_f1") for values in results):
        names.pop("accuracy", None)  # the same as Micro-F1 if every edge has one class
    protocols = dict.fromkeys(name.rpartition("/")[0] for name in names)
    for protocol in dict.fromkeys((*(p for p in PRIORITY if p in protocols), *protocols)):
        metrics = [name for name in names if name.rpartition("/")[0] == protocol]
        yield TaskScores(
            task=f"{title}, protocol {protocol}" if protocol else title,
            metrics=metrics,
            models=[model.scores(metrics) for model in models],
            note=PROTOCOLS.get(protocol, ""),
        )


def _with_gains(
    tasks: Iterable[TaskScores], models: Sequence[ComparedModel]
) -> Iterator[tuple[TaskScores, int]]:
    """Tasks with the paired gains of the best model of text and nodes, and their examples."""
    by_title, read = {model.title: model for model in models}, cache(read_examples)
    for task in tasks:
        best = task.best_by_input()
        differences: dict[str, Difference] = {}
        for kind in ("text", "nodes"):
            if "both" in best and kind in best:
                ours, theirs = by_title[best["both"].model], by_title[best[kind].model]
                if difference := _paired_difference(ours, theirs, task.metric, read):
                    differences[kind] = difference
        gains = {
            kind: MetricValue(value=d.value, low=d.low, high=d.high)
            for kind, d in differences.items()
        }
        yield (
            replace(task, gains=gains),
            max((d.examples for d in differences.values()), default=0),
        )


def _with_verdict(task: TaskScores, models: Sequence[ComparedModel]) -> TaskScores:
    """A task with the verdict of the best model that has one; of its runs, the first."""
    by_title = {model.title: model for model in models}
    runs = [run for scores in task.ranked() for run in by_title[scores.model].runs]
    return replace(task, verdict=next((run.verdict for run in runs if run.verdict), None))


def _paired_difference(
    ours: ComparedModel, theirs: ComparedModel, metric: str, read: ReadExamples
) -> Difference | None:
    """None if a run kept no examples, or different ones."""
    tables = [[read(run.path) for run in model.runs] for model in (ours, theirs)]
    first, second = ([table for table in side if table is not None] for side in tables)
    if (len(first), len(second)) != (len(ours.runs), len(theirs.runs)):
        return None
    return compare_rows(first, second, "test", metric)


def scores_by_degree(models: Iterable[ComparedModel], metric: str) -> DegreeScores | None:
    """The metric by group of test pairs, for all models that were scored on the same groups."""
    protocol, _, plain = metric.rpartition("/")
    pairs: dict[str, int] = {}
    scores = {}
    for model in models:
        groups = [run.results.get("groups", {}).get(protocol, {}) for run in model.runs]
        if not all(DEGREES.keys() <= group.keys() for group in groups):
            continue
        counts = {name: int(groups[0][name]["pairs"]) for name in DEGREES}
        counts = {name: count for name, count in counts.items() if count}
        pairs = pairs or counts
        if counts == pairs:
            scores[model.title] = [_group_mean(groups, name, plain) for name in pairs]
    shown = {DEGREES[name]: count for name, count in pairs.items()}
    return DegreeScores(metric=metric, groups=shown, models=scores) if shown else None


def _group_mean(groups: Sequence[Mapping[str, Any]], name: str, metric: str) -> float | None:
    values = [group[name]["metrics"].get(metric) for group in groups]
    return None if None in values else fmean(values)
