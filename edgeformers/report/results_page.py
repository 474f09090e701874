"""The results as a page."""

from collections.abc import Sequence
from functools import partial

from edgeformers.report import page, plots
from edgeformers.report.attention import attention_table
from edgeformers.report.formatting import INPUT_NAMES, format_value, lower_is_better, metric_name
from edgeformers.report.results import AttentionMap, NodeMap, Results
from edgeformers.report.results_rows import data_rows, ordered, setting_rows
from edgeformers.report.results_tables import in_columns, interval_table, named_table
from edgeformers.report.results_verdict import Verdict, verdicts
from edgeformers.report.scores import TaskScores

FOOTER = "Made by edgeformers. Intervals hold 95% of resamples unless the settings say otherwise."


def results_html(results: Results) -> str:
    """The results as one page that needs nothing else: no script, no font, no network."""
    found = verdicts(results)
    sections = [
        _header(results, found),
        _verdict_section(found),
        *map(_task_section, results.tasks),
        _curves_section(results),
        _attention_section(results.attention),
        _maps_section(results.maps),
        _data_section(results),
        _settings_section(results),
    ]
    return page.page(f"{results.title}: results", sections, FOOTER)


def _header(results: Results, found: Sequence[Verdict]) -> str:
    tiles, lead = [], f"{len(results.tasks)} tasks" if len(results.tasks) != 1 else "1 task"
    if found:
        metric = found[0].task.metrics[0]
        tiles = [
            (f"{metric_name(metric)}, {m.inputs}", format_value(m.metrics[metric].value, metric))
            for m in found[0].models
        ]
        if metric in found[0].task.best:
            tiles.append(("best achievable", format_value(found[0].task.best[metric], metric)))
        lead = found[0].answer
    return page.header("Results", results.title, lead, results.origin, tiles)


def _verdict_section(found: Sequence[Verdict]) -> str:
    parts = []
    for one in found:
        rows = [(INPUT_NAMES[m.inputs], m.model, m) for m in one.models]
        metrics = one.task.metrics[:1]
        body = page.paragraph(one.answer) + interval_table(rows, one.task, metrics)
        parts.append(page.together(page.block(one.task.task, body + _best(one.task, metrics))))
    return page.section("Does the graph help?", *parts) if parts else ""


def _task_section(task: TaskScores) -> str:
    rows = [(m.model, INPUT_NAMES[m.inputs], m) for m in ordered(task)]
    notes = [f"{m.model}: {m.note}" for m in ordered(task) if m.note]
    section = page.section(
        task.task,
        page.paragraph(task.note, soft=True) if task.note else "",
        interval_table(rows, task, task.metrics),
        _best(task, task.metrics),
        page.bullets(notes) if notes else "",
    )
    return page.together(section)


def _best(task: TaskScores, metrics: Sequence[str]) -> str:
    """What the dashed line means."""
    known = ", ".join(
        f"{metric_name(m)} {format_value(task.best[m], m)}" for m in metrics if m in task.best
    )
    return page.paragraph(f"Best achievable (dashed line): {known}.", soft=True) if known else ""


def _curves_section(results: Results) -> str:
    figures = []
    for metric in dict.fromkeys(curve.metric for curve in results.curves):
        lines = {
            curve.run: [[(epoch, value) for epoch, value in curve.points]]
            for curve in results.curves
            if curve.metric == metric
        }
        label = f"{metric_name(metric)} on validation after each epoch, {len(lines)} runs"
        note = "by epoch; the large dot is the best"
        plot = plots.curves(
            lines,
            label,
            lower_is_better=lower_is_better(metric),
            show=partial(format_value, metric=metric),
        )
        figures.append(page.figure(metric_name(metric), plot, note))
    return page.section("Learning curves", page.side_by_side(figures)) if figures else ""


def _attention_section(pictures: Sequence[AttentionMap]) -> str:
    if not pictures:
        return ""
    told = (
        "How much the read-out token reads of each token, a mean over heads; the strongest cell of "
        "each layer is its largest weight. Virtual tokens stand first, in bold."
    )
    tables = (
        page.figure(one.title, attention_table(one.tokens, one.virtual, one.weights))
        for one in pictures
    )
    body = page.paragraph(told, soft=True) + page.side_by_side(tables)
    return page.together(page.section("Attention", body))


def _maps_section(maps: Sequence[NodeMap]) -> str:
    figures = []
    for one in maps:
        nodes = [(name, x, y) for name, (x, y) in zip(one.names, one.nodes, strict=True)]
        plot = plots.scatter(nodes, [(x, y) for x, y in one.edges], one.ends)
        note = "stars are nodes, points their edges" + (f"; {one.note}" if one.note else "")
        figures.append(page.figure(one.title, plot, note))
    return page.section("Nodes and edges", *figures) if figures else ""


def _data_section(results: Results) -> str:
    rows = data_rows(results)
    return page.together(page.section("Data", in_columns(rows))) if rows else ""


def _settings_section(results: Results) -> str:
    """Settings that differ with a column per run; those that are the same in all without."""
    if not results.settings:
        return ""
    head, *rows = setting_rows(results)
    differ = [row for row in rows if len(set(row[1:])) > 1]
    same = [row[:2] for row in rows if len(set(row[1:])) == 1]
    title = "The same in all runs" if len(head) > 2 else head[1]
    return page.section(
        "Settings",
        page.together(named_table(differ, head)) if differ else "",
        page.block(title, in_columns(same)) if same else "",
    )
