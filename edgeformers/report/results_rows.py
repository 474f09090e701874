"""What both forms of the results say: models in order, figures and settings as words."""

import json
import math
from typing import Any

from edgeformers.report.results_data import ModelScores, ResultsPage, Score, TaskScores
from edgeformers.report.text import Rows, number

ANY_SCALE = ("mae", "rmse", "r2")  # metrics that are no shares: shown as they are
OF_ONE = ("mrr", "ndcg", "auc", "average_precision")  # usually written as 0.123, not in percent
LOWER_IS_BETTER = ("mae", "rmse")
SEES = {"text": "text only", "nodes": "nodes only", "both": "text and nodes", "": ""}


def ordered(task: TaskScores) -> list[ModelScores]:
    """The best first; who was not measured last."""
    metric = task.metrics[0]
    sign = 1.0 if is_low_best(metric) else -1.0

    def place(model: ModelScores) -> float:
        return sign * model.metrics[metric].value if metric in model.metrics else math.inf

    return sorted(task.models, key=place)


def is_low_best(metric: str) -> bool:
    """Whether lower is better."""
    return _plain(metric) in LOWER_IS_BETTER


def _plain(metric: str) -> str:
    """`full/mrr` -> `mrr`."""
    return metric.rpartition("/")[2].lower()


def metric_name(metric: str) -> str:
    """`full/mrr` -> `MRR (full)`."""
    protocol, _, plain = metric.rpartition("/")
    known = {"macro_f1": "Macro-F1", "micro_f1": "Micro-F1", "hit@1": "Hit@1", "hit@5": "Hit@5"}
    known |= {"hit@10": "Hit@10", "prec": "PREC", "precision": "Precision", "accuracy": "Accuracy"}
    name = known.get(plain.lower(), plain.upper() if len(plain) < 5 else plain)
    return f"{name} ({protocol})" if protocol else name


def value_words(value: float, metric: str) -> str:
    """A value as its metric is usually written: 54.3 of a hundred, 0.123, or as it is."""
    if _plain(metric) in ANY_SCALE:
        return number(value)
    return f"{value:.3f}" if _plain(metric) in OF_ONE else f"{100 * value:.1f}"


def interval_words(score: Score, metric: str) -> str:
    """A score and its bounds, where they are known."""
    shown = value_words(score.value, metric)
    if score.low is None or score.high is None:
        return shown
    return f"{shown} ({value_words(score.low, metric)} to {value_words(score.high, metric)})"


def setting_rows(results: ResultsPage) -> Rows:
    """Settings that differ between runs first, then those that are the same in all."""
    runs = list(results.settings)
    names = list(dict.fromkeys(name for values in results.settings.values() for name in values))
    table = {
        name: [setting_words(results.settings[run].get(name)) for run in runs] for name in names
    }
    names.sort(key=lambda name: len(set(table[name])) == 1)
    return [["", *runs], *([name, *table[name]] for name in names)]


def setting_words(value: Any) -> str:
    """A setting as it is shown; what is not set is a dash."""
    if value is None or value == "":
        return "–"
    return value if isinstance(value, str) else json.dumps(value)


def data_rows(results: ResultsPage) -> Rows:
    """The key numbers of the data."""
    return [
        [name, value if isinstance(value, str) else number(value)]
        for name, value in results.data.items()
    ]
