"""The page of finished runs: does the graph help, does the text, and everything behind it."""

from collections.abc import Callable

from edgeformers.data.card.phrasing import counted
from edgeformers.report import page
from edgeformers.report.card_page import card_in_short
from edgeformers.report.conclusions import conclusion, gain_sentences, summary
from edgeformers.report.formatting import INPUT_NAMES, format_value, metric_name
from edgeformers.report.results_rows import ordered
from edgeformers.report.results_tables import interval_table
from edgeformers.report.results_verdict import best_by_input
from edgeformers.report.runs_cost import cost_figure
from edgeformers.report.runs_data import RunComparison, RunGroup
from edgeformers.report.runs_figures import curve_figures, degree_figure, drawing_figures
from edgeformers.report.runs_settings import settings_tables
from edgeformers.report.scores import ModelScores, TaskScores

FOOTER = (
    "Made by edgeformers. Values are means over runs, ± their deviation; intervals are 95% "
    "bootstrap intervals over test examples."
)


def runs_html(runs: RunComparison) -> str:
    """The runs as one page that needs nothing else: no script, no font, no network."""
    parts = {
        "graph": ("Does the graph help? Does the text?", _each(runs, _verdict)),
        "models": ("All models", _each(runs, _models)),
        "curves": ("Learning curves", _each(runs, curve_figures)),
        "cost": ("Cost against quality", _each(runs, cost_figure)),
        "degree": ("By node degree", _each(runs, degree_figure)),
        "figures": ("Figures of experiments", drawing_figures(runs.drawings)),
        "data": ("Data", _data(runs)),
        "settings": ("Settings", _each(runs, settings_tables)),
        "left-out": ("Not compared", _left_out(runs)),
    }
    shown = {anchor: part for anchor, part in parts.items() if part[1]}
    sections = [
        _header(runs),
        page.contents((anchor, title) for anchor, (title, _) in shown.items()),
        *(page.section(title, body, anchor=anchor) for anchor, (title, body) in shown.items()),
    ]
    return page.page(f"{runs.title}: runs", sections, FOOTER)


def _header(runs: RunComparison) -> str:
    """The answer of every task; of one task alone, also the best of each kind in large letters."""
    tiles = []
    if len(runs.groups) == 1:
        task, metric = runs.groups[0].scores[0], runs.groups[0].scores[0].metrics[0]
        tiles = [
            (
                f"{metric_name(metric)}, {INPUT_NAMES[m.inputs]}",
                format_value(m.metrics[metric].value, metric),
            )
            for m in best_by_input(task)
        ]
    left = len(runs.unfinished)
    more = f"; {counted(left, 'more is', 'more are')} not compared" if left else ""
    answers = [(group.title, conclusion(group.scores[0])) for group in runs.groups]
    lead = "\n".join(f"{title}: {told}" for title, told in answers)
    return page.header("Runs", runs.title, lead, f"{summary(runs)}{more}.", tiles)


def _each(runs: RunComparison, show: Callable[[RunGroup], str]) -> str:
    """Every group under its own title."""
    bodies = ((group.title, show(group)) for group in runs.groups)
    return "".join(page.block(title, body) for title, body in bodies if body)


def _verdict(group: RunGroup) -> str:
    task, *others = group.scores
    rows = [(INPUT_NAMES[m.inputs], m.model, m) for m in best_by_input(task)]
    gains = gain_sentences(task, group.examples)
    return page.together(
        page.paragraph(conclusion(task))
        + (interval_table(rows, task, task.metrics[:1]) if rows else "")
        + (page.bullets(gains) if gains else "")
        + page.bullets(f"{metric_name(other.metrics[0])}: {conclusion(other)}" for other in others)
        * bool(others)
    )


def _models(group: RunGroup) -> str:
    notes = [f"{m.model}: {m.note}." for m in group.models if m.note]
    return "".join(map(_scores, group.scores)) + (page.bullets(notes) if notes else "")


def _scores(task: TaskScores) -> str:
    table = interval_table(
        [(m.model, _remark(m), m) for m in ordered(task)],
        task,
        task.metrics,
        show_best=True,
        named=lambda metric: metric_name(metric.rpartition("/")[2]),
    )
    head = page.paragraph(f"{task.task}: {task.note}.", soft=True) if task.note else ""
    return page.together(head + table)


def _remark(model: ModelScores) -> str:
    """What a model sees, and how often it was run."""
    return ", ".join(filter(None, (INPUT_NAMES[model.inputs], counted(model.runs, "run", "runs"))))


def _data(runs: RunComparison) -> str:
    return "".join(page.block(name, card_in_short(card)) for name, card in runs.cards.items())


def _left_out(runs: RunComparison) -> str:
    lines = [f"{one.folder}: {one.sentence}." for one in runs.unfinished]
    return page.bullets([*lines, *runs.notes]) if lines or runs.notes else ""
