"""What runs show in figures: learning curves, scores by degree, the figures of experiments."""

from collections.abc import Iterable, Sequence
from functools import partial

from edgeformers.data.card.phrasing import listed
from edgeformers.report import page, plots
from edgeformers.report.conclusions import time_unit
from edgeformers.report.formatting import format_value, lower_is_better, metric_name
from edgeformers.report.results_rows import ordered
from edgeformers.report.runs_data import DegreeScores, Drawing, Line, ModelCurves, RunGroup

TOGETHER = len(plots.COLORS)  # models in one plot, each in a color of its own


def curve_figures(group: RunGroup) -> str:
    """The validation metric by epochs and by time, eight models to a plot, the best first."""
    place = {model.model: number for number, model in enumerate(ordered(group.scores[0]))}
    models = sorted(group.curves, key=lambda one: place[one.model])
    figures = []
    for at in range(0, len(models), TOGETHER):
        part = models[at : at + TOGETHER]
        figures += [_by_epoch(part, group), _by_time(part, group)]
    return page.side_by_side(figures) if figures else ""


def _by_epoch(models: Sequence[ModelCurves], group: RunGroup) -> str:
    metric = group.scores[0].metrics[0]
    plot = plots.curves(
        {one.model: one.by_epoch for one in models},
        _label(models, metric, "epochs"),
        lower_is_better=lower_is_better(metric),
        show=partial(format_value, metric=metric),
        frame=_points(one.by_epoch for one in group.curves),
    )
    note = "by epochs done, a line per run; the large dot is the best"
    return page.figure(f"{metric_name(metric)} on validation", plot, note)


def _by_time(models: Sequence[ModelCurves], group: RunGroup) -> str:
    """The same by time of training; the axis begins with the training."""
    metric = group.scores[0].metrics[0]
    everyone = _points(one.by_seconds for one in group.curves)
    size, unit = time_unit(max((x for x, _ in everyone), default=0.0))
    frame = [(x / size, y) for x, y in everyone]
    ticks = plots.round_values(0.0, max((x for x, _ in frame), default=0.0))
    plot = plots.curves(
        {one.model: [[(x / size, y) for x, y in run] for run in one.by_seconds] for one in models},
        _label(models, metric, f"{unit}s of training"),
        lower_is_better=lower_is_better(metric),
        show=partial(format_value, metric=metric),
        at=f"{unit} {{:.3g}}".format,
        ticks={x: f"{x:g}" for x in ticks},
        frame=[*((0.0, y) for _, y in frame[:1]), *frame],
    )
    note = f"by {unit}s of training, those of validation left out"
    return page.figure(f"{metric_name(metric)} on validation", plot, note)


def _label(models: Sequence[ModelCurves], metric: str, across: str) -> str:
    names = listed([one.model for one in models])
    return f"{metric_name(metric)} on validation by {across}: {names}"


def _points(models: Iterable[list[Line]]) -> Line:
    return [point for lines in models for line in lines for point in line]


def degree_figure(group: RunGroup) -> str:
    """A metric by groups of pairs: how much is left where there is little to learn from."""
    found = group.degrees
    if found is None:
        return ""
    order = [model.model for model in ordered(group.scores[0]) if model.model in found.models]
    note = "by the training edges of a pair's query; cold: one of its two nodes has none"
    plot = _degree_plot(found, order[:TOGETHER])
    return page.figure(metric_name(found.metric), plot, note) + _degree_table(found, order)


def _degree_plot(found: DegreeScores, order: Sequence[str]) -> str:
    """A line per model over the groups; nothing where there is one group alone."""
    names = list(found.groups)
    if len(names) < 2:
        return ""
    lines = {
        model: [[(float(x), y) for x, y in enumerate(found.models[model]) if y is not None]]
        for model in order
    }
    return plots.curves(
        lines,
        f"{metric_name(found.metric)} of {listed(order)} by training edges: {listed(names)}",
        lower_is_better=None,
        show=partial(format_value, metric=found.metric),
        at=lambda x: names[int(x)],
        ticks={float(x): name for x, name in enumerate(names)},
    )


def _degree_table(found: DegreeScores, order: Sequence[str]) -> str:
    """The best of each group is bold, if there are others."""
    columns = list(zip(*(found.models[model] for model in order), strict=True))
    pick = min if lower_is_better(found.metric) else max
    best = [pick((v for v in column if v is not None), default=None) for column in columns]
    rows = [["", *(f"{name}: {pairs:,} pairs" for name, pairs in found.groups.items())]]
    bold = set()
    for y, model in enumerate(order, start=1):
        values = found.models[model]
        rows.append([model, *("–" if v is None else format_value(v, found.metric) for v in values)])
        bold |= {
            (y, x) for x, v in enumerate(values, start=1) if v is not None and v == best[x - 1]
        }
    return page.table(rows, bold=bold if len(order) > 1 else ())


def drawing_figures(drawings: Sequence[Drawing]) -> str:
    """Figures that experiments left beside their tables, each with its own title within."""
    return "".join(
        page.figure(one.experiment, page.picture(one.svg, one.title)) for one in drawings
    )
