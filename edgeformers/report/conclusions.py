"""What is said of finished runs: the verdict of a task, times, and the answer for machines."""

from typing import Any

from edgeformers.data.card.phrasing import counted, listed
from edgeformers.report.formatting import INPUT_NAMES, format_value, metric_name
from edgeformers.report.results_rows import ordered
from edgeformers.report.results_verdict import best_by_input, missing_comparisons, verdict
from edgeformers.report.runs_data import RunComparison, RunGroup
from edgeformers.report.scores import MetricValue, TaskScores


def conclusion(task: TaskScores) -> str:
    """Does the graph help, does the text: what the runs tell, and what they cannot tell."""
    told = verdict(task)
    return " ".join([*([told.answer] if told else []), *missing_comparisons(task)])


def gain_sentences(task: TaskScores, examples: int) -> list[str]:
    """The paired differences between the best that sees both and the best of each kind."""
    best, metric = {model.inputs: model for model in best_by_input(task)}, task.metrics[0]
    return [
        f"{best['both'].model} less {best[sees].model} ({INPUT_NAMES[sees]}): "
        f"{_signed_words(gain, metric)} {metric_name(metric)}, "
        f"compared on the same {counted(examples, 'test example', 'test examples')}."
        for sees in ("text", "nodes")
        if (gain := task.gains.get(sees))
    ]


def _signed_words(score: MetricValue, metric: str) -> str:
    """+10.3 (95% interval +8.1 to +12.4)."""
    low, high = (_signed(bound, metric) for bound in score.bounds)
    known = score.low is not None and score.high is not None
    return _signed(score.value, metric) + (f" (95% interval {low} to {high})" if known else "")


def _signed(value: float, metric: str) -> str:
    return ("−" if value < 0 else "+") + format_value(abs(value), metric)


def time_unit(longest: float) -> tuple[float, str]:
    """The unit in which times of up to so many seconds are read, as seconds and by name."""
    if longest < 180:
        return 1.0, "second"
    return (60.0, "minute") if longest < 3 * 3600 else (3600.0, "hour")


def format_duration(seconds: float) -> str:
    """0.4 s, 12 s, 3.1 min or 5.2 h."""
    size, unit = time_unit(seconds)
    value = seconds / size
    shown = f"{value:.0f}" if value >= 10 else f"{value:.2g}"
    return f"{shown} {'min' if unit == 'minute' else unit[0]}"


def summary(page: RunComparison) -> str:
    """12 finished runs of 5 models on films."""
    models = sum(len(group.settings) for group in page.groups)
    networks = listed(list(dict.fromkeys(group.network for group in page.groups)))
    runs = counted(page.num_runs, "finished run", "finished runs")
    return f"{runs} of {counted(models, 'model', 'models')} on {networks}"


def comparison_lines(page: RunComparison) -> list[str]:
    """The answers of all tasks, and what was left out, for a terminal."""
    lines = [f"{summary(page)}."]
    for group in page.groups:
        task = group.scores[0]
        lines += ["", f"{task.task}: {conclusion(task)}", *gain_sentences(task, group.examples)]
    left_out = [f"{one.folder}: {one.sentence}." for one in page.unfinished]
    return [*lines, *([""] if left_out or page.notes else []), *left_out, *page.notes]


def comparison_json(page: RunComparison) -> dict[str, Any]:
    """What was found, for machines."""
    return {
        "runs": page.num_runs,
        "groups": [_group_json(group) for group in page.groups],
        "drawings": [drawing.title for drawing in page.drawings],
        "unfinished": {one.folder: one.sentence for one in page.unfinished},
        "notes": page.notes,
    }


def task_json(task: TaskScores) -> dict[str, Any]:
    """What the models of a task tell, for machines."""
    return {
        "answer": conclusion(task),
        "gains": {sees: _score_json(gain) for sees, gain in task.gains.items()},
        "models": [
            {
                "model": model.model,
                "inputs": model.inputs,
                "metrics": {name: _score_json(score) for name, score in model.metrics.items()},
            }
            for model in ordered(task)
        ],
    }


def _group_json(group: RunGroup) -> dict[str, Any]:
    folders = {one.model: [run.folder for run in one.runs] for one in group.settings}
    return {
        "network": group.network,
        "task": group.task,
        "answer": conclusion(group.scores[0]),
        "gains": {
            scores.metrics[0]: {sees: _score_json(gain) for sees, gain in scores.gains.items()}
            for scores in group.scores
        },
        "models": [
            {
                "model": model.model,
                "inputs": model.inputs,
                "runs": folders[model.model],
                "metrics": {
                    metric: _score_json(score)
                    for scores in group.scores
                    for one in scores.models
                    if one.model == model.model
                    for metric, score in one.metrics.items()
                },
            }
            for model in ordered(group.scores[0])
        ],
    }


def _score_json(score: MetricValue) -> dict[str, float | None]:
    return {"value": score.value, "low": score.low, "high": score.high, "spread": score.spread}
