"""Quality against time: a dot per model, the same as a table, and what is worth its time."""

import math
from collections.abc import Sequence
from functools import partial

from edgeformers.data.card.phrasing import listed
from edgeformers.report import page, plots
from edgeformers.report.conclusions import format_duration
from edgeformers.report.formatting import INPUT_NAMES, format_value, lower_is_better, metric_name
from edgeformers.report.results_tables import named_table
from edgeformers.report.runs_data import ModelCost, RunGroup
from edgeformers.report.scores import InputKind

#: Seconds that an axis of times may name.
TIMES = (0.01, 0.1, 1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10800, 36000, 86400, 259200)
COLORS: dict[InputKind, str] = {
    "text": plots.COLORS[1],
    "nodes": plots.COLORS[2],
    "both": plots.COLORS[0],
    "": plots.COLORS[7],
}


def cost_figure(group: RunGroup) -> str:
    """All models whose time is known, the best first; nothing where there is one alone."""
    metric = group.scores[0].metrics[0]
    sign = 1 if lower_is_better(metric) else -1
    costs = sorted(group.costs, key=lambda one: (sign * one.value, one.seconds))
    if len(costs) < 2:
        return ""
    name, show = metric_name(metric), partial(format_value, metric=metric)
    rows = [
        [f"{number} {one.model}", show(one.value), format_duration(one.seconds), one.device or "–"]
        for number, one in enumerate(costs, start=1)
    ]
    note = "by the time a run takes, on a logarithmic axis; numbers as in the table"
    return (
        page.figure(f"{name} on test", _plot(costs, metric), note)
        + page.paragraph(worth_their_time(costs))
        + named_table(rows, ["", name, "a run takes", "on"])
    )


def _plot(costs: Sequence[ModelCost], metric: str) -> str:
    show = partial(format_value, metric=metric)
    dots = [
        plots.NumberedDot(
            number=number,
            x=math.log10(max(one.seconds, TIMES[0])),
            y=one.value,
            color=COLORS[one.inputs],
            tip=f"{one.model}: {show(one.value)} after {format_duration(one.seconds)}",
        )
        for number, one in enumerate(costs, start=1)
    ]
    kinds = [sees for sees in COLORS if any(one.inputs == sees for one in costs)]
    keys = plots.legend([INPUT_NAMES[s] or "others" for s in kinds], [COLORS[s] for s in kinds])
    label = f"{metric_name(metric)} of {len(costs)} models by the time a run takes"
    ticks = _time_ticks([dot.x for dot in dots])
    return plots.numbered(dots, label, show=show, ticks=ticks) + keys


def _time_ticks(places: Sequence[float]) -> dict[float, str]:
    """Round times within the plot, at most six; its two ends where there are hardly any."""
    low, high = min(places), max(places)
    inside = [seconds for seconds in TIMES if low <= math.log10(seconds) <= high]
    if len(inside) < 2:
        return {at: format_duration(10**at) for at in dict.fromkeys((low, high))}
    return {math.log10(t): format_duration(t) for t in inside[:: math.ceil(len(inside) / 6)]}


def worth_their_time(costs: Sequence[ModelCost]) -> str:
    """The models, given the best first, that no better one undercuts in time."""
    kept: list[ModelCost] = []
    for one in costs:
        if not kept or one.seconds < kept[-1].seconds:
            kept.append(one)
    names = [f"{one.model} ({format_duration(one.seconds)})" for one in reversed(kept)]
    others = " Every other is beaten by one as quick." if len(kept) < len(costs) else ""
    return f"The best for their time: {listed(names)}.{others}"
