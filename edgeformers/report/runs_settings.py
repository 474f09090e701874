"""The settings of finished runs: those that differ by model, those that are the same once."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeformers.data.card.phrasing import counted
from edgeformers.report import page
from edgeformers.report.conclusions import format_duration
from edgeformers.report.formatting import format_setting
from edgeformers.report.results_tables import in_columns, named_table
from edgeformers.report.runs_data import ModelSettings, OneRun, RunGroup


def settings_tables(group: RunGroup) -> str:
    """Each model's runs and what is special about it, folded; then what all of them share."""
    shared = shared_settings([one.settings for one in group.settings])
    body = "".join(_model(one, shared) for one in group.settings)
    if not shared:
        return body
    rows = [[name, format_setting(value)] for name, value in shared.items()]
    title = f"{counted(len(rows), 'setting', 'settings')}, the same in all models that have them"
    return body + page.details(title, in_columns(rows))


def shared_settings(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings of several models that are the same in all that have them; of one model, all."""
    found: dict[str, list[Any]] = {}
    for settings in models:
        for name, value in settings.items():
            found.setdefault(name, []).append(value)
    least = min(2, len(models))
    return {
        name: values[0]
        for name, values in found.items()
        if len(values) >= least and all(value == values[0] for value in values)
    }


def _model(one: ModelSettings, shared: Mapping[str, Any]) -> str:
    own = [[name, format_setting(v)] for name, v in one.settings.items() if name not in shared]
    special = f", {counted(len(own), 'setting', 'settings')} of its own" if own else ""
    summary = f"{one.model}: {counted(len(one.runs), 'run', 'runs')}{special}"
    table = named_table(own) if own else ""
    return page.details(summary, table + page.bullets(map(_run_words, one.runs)))


def _run_words(run: OneRun) -> str:
    """Where a run is, its seed, and how long it took on what."""
    seed = f"seed {run.seed}" if run.seed else ""
    took = "" if run.seconds is None else format_duration(run.seconds)
    where = f"on {run.device}" if run.device else ""
    told = ", ".join(filter(None, (seed, " ".join(filter(None, (took, where))))))
    return f"{run.folder}: {told}" if told else run.folder
