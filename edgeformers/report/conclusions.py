"""Does the graph help? Does the text? The answers as sentences and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from edgeformers.data.card.phrasing import counted, listed
from edgeformers.report.comparison import RunComparison, RunGroup
from edgeformers.report.formatting import INPUT_NAMES, format_gain, metric_name
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores, lower_is_better

#: Answers by the gain of both inputs over one: significant gain, gain, no gain, significant loss.
GRAPH = {
    2: "The graph helps: text and nodes together beat text alone.",
    1: "The graph may help, but the gain over text alone is not significant.",
    0: "The graph does not help here: text alone does as well.",
    -1: "The graph hurts here: text alone does better.",
}
TEXT = {
    2: "The text helps: nodes alone do worse.",
    1: "The text may help, but the gain over nodes alone is not significant.",
    0: "The text does not help here: nodes alone do as well.",
    -1: "The text hurts here: nodes alone do better.",
}
NO_COMBINED_MODEL = (
    "Cannot tell whether the graph or the text helps: no model here uses both text and nodes."
)
NO_TEXT_MODEL = "Cannot tell whether the graph helps: no model here uses the text alone."
NO_NODE_MODEL = "Cannot tell whether the text helps: no model here uses the nodes alone."
MAX_TITLES = 3  # titles listed before a shared conclusion


def conclusion(task: TaskScores) -> str:
    """Whether the graph and the text help, or which models are missing to tell."""
    best = task.best_by_input()
    if "both" not in best:
        return NO_COMBINED_MODEL
    both = best["both"]
    text, nodes = best.get("text"), best.get("nodes")
    graph_helps = GRAPH[_gain_level(task, both, text)] if text else NO_TEXT_MODEL
    text_helps = TEXT[_gain_level(task, both, nodes)] if nodes else NO_NODE_MODEL
    sentences = (graph_helps, text_helps)
    return " ".join(sorted(sentences, key=lambda s: s in (NO_TEXT_MODEL, NO_NODE_MODEL)))


def lead_sentences(answers: Sequence[tuple[str, str]]) -> list[str]:
    """Each distinct conclusion once, after the titles of the tasks it holds for."""
    titles: dict[str, list[str]] = {}
    for title, answer in answers:
        titles.setdefault(answer, []).append(title)
    if len(titles) == 1:
        return list(titles) if len(answers) == 1 else [f"All {len(answers)} tasks: {answers[0][1]}"]
    return [f"{_shortened(names)}: {answer}" for answer, names in titles.items()]


def _shortened(titles: list[str]) -> str:
    if len(titles) <= MAX_TITLES:
        return listed(titles)
    return listed([*titles[: MAX_TITLES - 1], f"{len(titles) - MAX_TITLES + 1} more"])


def _gain_level(task: TaskScores, both: ModelScores, single: ModelScores) -> int:
    """A key of GRAPH and TEXT."""
    ours, theirs = both.metrics[task.metric], single.metrics[task.metric]
    gain = task.gains.get(single.inputs) or _unpaired_gain(ours, theirs)
    sign = -1.0 if lower_is_better(task.metric) else 1.0
    low, high = sorted(sign * bound for bound in gain.bounds)
    if gain.has_interval and (low > 0 or high < 0):
        return 2 if low > 0 else -1
    return 1 if sign * gain.value > 0 else 0


def _unpaired_gain(ours: MetricValue, theirs: MetricValue) -> MetricValue:
    """The difference of two scores; significant if their intervals are disjoint."""
    value = ours.value - theirs.value
    if not (ours.has_interval and theirs.has_interval):
        return MetricValue(value=value)
    (our_low, our_high), (their_low, their_high) = ours.bounds, theirs.bounds
    return MetricValue(value=value, low=our_low - their_high, high=our_high - their_low)


def gain_sentences(task: TaskScores, examples: int) -> list[str]:
    """The paired gains of the best model that uses both inputs."""
    best, metric = task.best_by_input(), task.metric
    return [
        f"{best['both'].model} vs. {best[kind].model} ({INPUT_NAMES[kind]}): "
        f"{format_gain(gain, metric)} {metric_name(metric)} "
        f"on the same {counted(examples, 'test example', 'test examples')}."
        for kind in ("text", "nodes")
        if kind in best and (gain := task.gains.get(kind))
    ]


def summary(comparison: RunComparison) -> str:
    """12 finished runs of 5 models on films."""
    models = sum(len(group.settings) for group in comparison.groups)
    networks = listed(list(dict.fromkeys(group.network for group in comparison.groups)))
    runs = counted(comparison.num_runs, "finished run", "finished runs")
    return f"{runs} of {counted(models, 'model', 'models')} on {networks}"


def comparison_lines(comparison: RunComparison) -> list[str]:
    """The conclusions and the skipped runs, for a terminal."""
    lines = [f"{summary(comparison)}."]
    for group in comparison.groups:
        task = group.scores[0]
        lines += ["", f"{task.task}: {conclusion(task)}", *gain_sentences(task, group.examples)]
    remarks = [*skipped_lines(comparison), *comparison.notes]
    return [*lines, "", *remarks] if remarks else lines


def skipped_lines(comparison: RunComparison) -> list[str]:
    """The runs that are not compared, and why."""
    return [f"{run.folder}: {run.reason}." for run in comparison.skipped]


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """The comparison for programs."""
    return {
        "runs": comparison.num_runs,
        "groups": [_group_json(group) for group in comparison.groups],
        "drawings": [figure.title for figure in comparison.figures],
        "unfinished": {run.folder: run.reason for run in comparison.skipped},
        "notes": comparison.notes,
    }


def task_json(task: TaskScores) -> dict[str, Any]:
    """A task's conclusion, gains and scores for programs."""
    return {
        "answer": conclusion(task),
        "gains": _values_json(task.gains),
        "models": [
            {"model": m.model, "inputs": m.inputs, "metrics": _values_json(m.metrics)}
            for m in task.ranked()
        ],
    }


def _group_json(group: RunGroup) -> dict[str, Any]:
    folders = {model.model: [run.folder for run in model.runs] for model in group.settings}
    metrics: dict[str, dict[str, Any]] = {}
    for task in group.scores:
        for model in task.models:
            metrics.setdefault(model.model, {}).update(_values_json(model.metrics))
    return {
        "network": group.network,
        "task": group.task,
        "answer": conclusion(group.scores[0]),
        "gains": {task.metric: _values_json(task.gains) for task in group.scores},
        "models": [
            {
                "model": m.model,
                "inputs": m.inputs,
                "runs": folders[m.model],
                "metrics": metrics[m.model],
            }
            for m in group.scores[0].ranked()
        ],
    }


def _values_json(values: dict[str, MetricValue]) -> dict[str, dict[str, float | None]]:
    return {name: asdict(value) for name, value in values.items()}
