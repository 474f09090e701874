"""What both forms of the results say: models in order, figures and settings as words."""

import math

from edgeformers.report.formatting import format_setting, lower_is_better
from edgeformers.report.results import Results
from edgeformers.report.scores import ModelScores, TaskScores
from edgeformers.report.text import Rows, number


def ordered(task: TaskScores) -> list[ModelScores]:
    """The best first; who was not measured last."""
    metric = task.metrics[0]
    sign = 1.0 if lower_is_better(metric) else -1.0

    def place(model: ModelScores) -> float:
        return sign * model.metrics[metric].value if metric in model.metrics else math.inf

    return sorted(task.models, key=place)


def setting_rows(results: Results) -> Rows:
    """Settings that differ between runs first, then those that are the same in all."""
    runs = list(results.settings)
    names = list(dict.fromkeys(name for values in results.settings.values() for name in values))
    table = {
        name: [format_setting(results.settings[run].get(name)) for run in runs] for name in names
    }
    names.sort(key=lambda name: len(set(table[name])) == 1)
    return [["", *runs], *([name, *table[name]] for name in names)]


def data_rows(results: Results) -> Rows:
    """The key numbers of the data."""
    return [
        [name, value if isinstance(value, str) else number(value)]
        for name, value in results.data.items()
    ]
