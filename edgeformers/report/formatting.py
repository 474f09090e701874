"""Names and values of metrics and settings as text."""

import json
from typing import Any

from edgeformers.report.scores import MetricValue
from edgeformers.report.text import number

ANY_SCALE = ("mae", "rmse", "r2")  # metrics that are no shares: shown as they are


OF_ONE = ("mrr", "ndcg", "auc", "average_precision")  # usually written as 0.123, not in percent


LOWER_IS_BETTER = ("mae", "rmse")


INPUT_NAMES = {"text": "text only", "nodes": "nodes only", "both": "text and nodes", "": ""}


def lower_is_better(metric: str) -> bool:
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


def format_value(value: float, metric: str) -> str:
    """A value as its metric is usually written: 54.3 of a hundred, 0.123, or as it is."""
    if _plain(metric) in ANY_SCALE:
        return number(value)
    return f"{value:.3f}" if _plain(metric) in OF_ONE else f"{100 * value:.1f}"


def format_interval(score: MetricValue, metric: str) -> str:
    """A score and its bounds, where they are known."""
    shown = format_value(score.value, metric)
    if score.low is None or score.high is None:
        return shown
    return f"{shown} ({format_value(score.low, metric)} to {format_value(score.high, metric)})"


def format_setting(value: Any) -> str:
    """A setting as it is shown; what is not set is a dash."""
    if value is None or value == "":
        return "–"
    return value if isinstance(value, str) else json.dumps(value)
