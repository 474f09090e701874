"""Does the graph help? Text and nodes against either alone, in a sentence."""

from dataclasses import dataclass

from edgeformers.report.formatting import INPUT_NAMES, format_interval, lower_is_better, metric_name
from edgeformers.report.results import Results
from edgeformers.report.results_rows import ordered
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the graph helps on a task, in a sentence, and the models that tell."""

    task: TaskScores
    answer: str
    sentence: str
    models: list[ModelScores]  # the best that sees the text, the nodes, both: those there are


def verdict(task: TaskScores) -> Verdict | None:
    """Text and nodes against either alone; None where the models to compare are missing."""
    metric, found = task.metrics[0], {model.inputs: model for model in best_by_input(task)}
    if "both" not in found or len(found) < 2:
        return None
    both = found["both"]
    sures = {
        sees: _gain(task, both, found[sees], sees) for sees in ("text", "nodes") if sees in found
    }
    graph = _GRAPH[sures["text"]] if "text" in sures else ""
    words = _WORDS[sures["nodes"]] if "nodes" in sures else ""
    figures = [
        f"{INPUT_NAMES[m.inputs]} {format_interval(m.metrics[metric], metric)}"
        for m in found.values()
    ]
    sentence = f"{metric_name(metric)}: {', '.join(figures[:-1])}, {figures[-1]} ({both.model})."
    answer = " ".join(part for part in (graph, words) if part)
    return Verdict(task=task, answer=answer, sentence=sentence, models=list(found.values()))


#: Answers by how sure the gain is: 1 surely, 0 not surely, -1 there is none, -2 surely a loss.
_GRAPH = {
    1: "The graph helps: nodes add to what the text says.",
    0: "The graph may help: the gain over text alone is within chance.",
    -1: "No gain from the graph was seen here: text alone did as well.",
    -2: "The graph did not help here: text alone did better.",
}
_WORDS = {
    1: "The text helps: nodes alone do worse.",
    0: "Whether the text adds to the nodes is within chance.",
    -1: "No gain from the text was seen here: nodes alone did as well.",
    -2: "The text did not help here: nodes alone did better.",
}


def _gain(task: TaskScores, both: ModelScores, alone: ModelScores, sees: str) -> int:
    """1 where the gain is sure, 0 or -1 where it or a loss may be chance, -2 where that is sure."""
    metric = task.metrics[0]
    sign = -1.0 if lower_is_better(metric) else 1.0
    gap = task.gains.get(sees) or _unpaired(both.metrics[metric], alone.metrics[metric])
    low, high = sorted(sign * bound for bound in gap.bounds)
    if gap.low is not None and gap.high is not None and (low > 0 or high < 0):
        return 1 if low > 0 else -2
    return 0 if sign * gap.value > 0 else -1


def _unpaired(ours: MetricValue, theirs: MetricValue) -> MetricValue:
    """The difference of two scores; it is sure where their intervals do not meet."""
    value = ours.value - theirs.value
    if None in (ours.low, ours.high, theirs.low, theirs.high):
        return MetricValue(value=value)
    (our_low, our_high), (their_low, their_high) = ours.bounds, theirs.bounds
    return MetricValue(value=value, low=our_low - their_high, high=our_high - their_low)


def _best(task: TaskScores, sees: str) -> ModelScores | None:
    models = [m for m in ordered(task) if m.inputs == sees and task.metrics[0] in m.metrics]
    return models[0] if models else None


def best_by_input(task: TaskScores) -> list[ModelScores]:
    """The best that sees the text, the nodes, and both: those there are."""
    found = (_best(task, sees) for sees in ("text", "nodes", "both"))
    return [model for model in found if model is not None]


def missing_comparisons(task: TaskScores) -> list[str]:
    """What the models of a task cannot tell, and which of them are missing."""
    seen = {model.inputs for model in best_by_input(task)}
    if "both" not in seen:
        return [
            "Whether the graph or the text helps cannot be told: no model here sees both text "
            "and nodes."
        ]
    missing = {
        "text": "Whether the graph helps cannot be told: no model here sees the text alone.",
        "nodes": "Whether the text helps cannot be told: no model here sees the nodes alone.",
    }
    return [sentence for sees, sentence in missing.items() if sees not in seen]


def verdicts(results: Results) -> list[Verdict]:
    """One per task that has models to compare."""
    return [one for task in results.tasks if (one := verdict(task))]
