"""Does the graph help? Text and nodes against either alone, in a sentence."""

from dataclasses import dataclass

from edgeformers.report.results_data import ModelScores, ResultsPage, TaskScores
from edgeformers.report.results_rows import (
    SEES,
    interval_words,
    is_low_best,
    metric_name,
    ordered,
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the graph helps on a task, in a sentence, and the models that tell."""

    task: TaskScores
    answer: str
    sentence: str
    models: list[ModelScores]  # the best that sees the text, the nodes, both: those there are


def verdict(task: TaskScores) -> Verdict | None:
    """Text and nodes against either alone; None where the models to compare are missing."""
    metric = task.metrics[0]
    found = {sees: model for sees in ("text", "nodes", "both") if (model := _best(task, sees))}
    if "both" not in found or len(found) < 2:
        return None
    both = found["both"]
    sures = {
        sees: _gain(task, both, found[sees], sees) for sees in ("text", "nodes") if sees in found
    }
    graph = _GRAPH[sures["text"]] if "text" in sures else ""
    words = _WORDS[sures["nodes"]] if "nodes" in sures else ""
    figures = [
        f"{SEES[m.sees]} {interval_words(m.metrics[metric], metric)}" for m in found.values()
    ]
    sentence = f"{metric_name(metric)}: {', '.join(figures[:-1])}, {figures[-1]} ({both.model})."
    answer = " ".join(part for part in (graph, words) if part)
    return Verdict(task=task, answer=answer, sentence=sentence, models=list(found.values()))


#: Answers by how sure the gain is: 1 surely, 0 not surely, -1 there is none.
_GRAPH = {
    1: "The graph helps: nodes add to what the text says.",
    0: "The graph may help: the gain over text alone is within chance.",
    -1: "No gain from the graph was seen here: text alone did as well.",
}
_WORDS = {
    1: "The text helps too: nodes alone do worse.",
    0: "Whether the text adds to the nodes is within chance.",
    -1: "No gain from the text was seen here: nodes alone did as well.",
}


def _gain(task: TaskScores, both: ModelScores, alone: ModelScores, sees: str) -> int:
    """1 where the gain is sure, 0 where it may be chance, -1 where there is none."""
    metric = task.metrics[0]
    sign = -1.0 if is_low_best(metric) else 1.0
    if sees in task.gains:
        low, high = sorted(sign * bound for bound in task.gains[sees].bounds)
        difference = sign * task.gains[sees].value
        is_sure = low > 0 and task.gains[sees].low is not None
    else:
        ours, theirs = both.metrics[metric], alone.metrics[metric]
        difference = sign * (ours.value - theirs.value)
        low = min(sign * bound for bound in ours.bounds)
        high = max(sign * bound for bound in theirs.bounds)
        is_sure = low > high and ours.low is not None and theirs.low is not None
    return 1 if is_sure else 0 if difference > 0 else -1


def _best(task: TaskScores, sees: str) -> ModelScores | None:
    models = [m for m in ordered(task) if m.sees == sees and task.metrics[0] in m.metrics]
    return models[0] if models else None


def verdicts(results: ResultsPage) -> list[Verdict]:
    """One per task that has models to compare."""
    return [one for task in results.tasks if (one := verdict(task))]
