"""Build the comparison of all runs in some folders, and write its page."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from os import PathLike
from pathlib import Path

from edgeformers.data.card.phrasing import counted
from edgeformers.errors import InputError
from edgeformers.experiments.run_report.compare import compare_runs
from edgeformers.experiments.run_report.networks import KnownNetwork, find_networks
from edgeformers.experiments.run_report.read import (
    FinishedRun,
    TuningTrial,
    find_folders,
    read_run,
)
from edgeformers.files import write_atomic
from edgeformers.locks import single_writer
from edgeformers.report.comparison import RunComparison, RunGroup, SkippedRun, comparison_page
from edgeformers.report.page import SvgImage, render_html

TASKS = {"edge-classification": "Edge classification", "link-prediction": "Link prediction"}
MAX_FIGURE_BYTES = 2_000_000
GroupKey = tuple[str, str, str]  # network, task, split
TITLE = re.compile(r"<title>([^<]*)</title>")


def build_report(folders: Iterable[str | PathLike[str]]) -> RunComparison:
    """Read every run in these folders and below, and compare those that are comparable."""
    roots = [Path(folder).expanduser() for folder in folders]
    run_folders, experiments = find_folders(roots)
    read = [read_run(path) for path in run_folders]
    runs = [run for run in read if isinstance(run, FinishedRun)]
    skipped = [run for run in read if isinstance(run, SkippedRun)]
    trials = sum(isinstance(run, TuningTrial) for run in read)
    if not runs:
        raise InputError(_no_runs_message(roots, skipped, trials))
    networks = find_networks(runs, experiments)
    groups = _compare_groups(runs, networks)
    names = list(dict.fromkeys(group.network for group in groups))
    return RunComparison(
        title=names[0] if len(names) == 1 else f"{len(names)} networks",
        groups=groups,
        figures=_saved_figures(experiments),
        cards=dict(sorted((n.name, n.card) for n in networks.values() if n.card)),
        skipped=skipped,
        notes=[
            *(f"{root} has no finished run." for root in roots if not _contains(root, runs)),
            *_trial_notes(trials),
            *(network.note for network in networks.values() if network.note),
        ],
    )


def write_report(folders: Iterable[str | PathLike[str]], out: str | PathLike[str]) -> RunComparison:
    """Write the page that compares all finished runs in these folders; returns its data."""
    path = Path(out).expanduser()
    with single_writer(path):
        comparison = build_report(folders)
        write_atomic(path, render_html(comparison_page(comparison)))
    return comparison


def _contains(root: Path, runs: Iterable[FinishedRun]) -> bool:
    return any(run.path.resolve().is_relative_to(root.resolve()) for run in runs)


def _trial_notes(count: int) -> list[str]:
    verb = "is not shown: it was" if count == 1 else "are not shown: they were"
    trials = counted(count, "tuning trial", "tuning trials")
    return [f"{trials} {verb} scored on validation only."] if count else []


def _no_runs_message(roots: Sequence[Path], skipped: Sequence[SkippedRun], trials: int) -> str:
    where = ", ".join(map(str, roots))
    only = f", only {counted(trials, 'tuning trial', 'tuning trials')}" if trials else ""
    example = f"; {skipped[0].folder}: {skipped[0].reason}" if skipped else ""
    return f"no finished run in {where}{only}{example}. Create one with: edgeformers train"


def _compare_groups(
    runs: Sequence[FinishedRun], networks: Mapping[str, KnownNetwork]
) -> list[RunGroup]:
    groups: dict[GroupKey, list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault((networks[run.network].name, run.task, run.split), []).append(run)
    return [
        compare_runs(members, key[0], _group_title(key, list(groups)))
        for key, members in sorted(groups.items())
    ]


def _group_title(key: GroupKey, keys: Sequence[GroupKey]) -> str:
    """The task; also the network and the split, if there are several."""
    name, task, split = key
    network = f" on {name}" if len({other[0] for other in keys}) > 1 else ""
    has_splits = sum(other[:2] == key[:2] for other in keys) > 1
    return TASKS.get(task, task) + network + (f", split {split or 'default'}" if has_splits else "")


def _saved_figures(experiments: Iterable[Path]) -> list[SvgImage]:
    """The SVG files of experiments, without duplicates."""
    figures = {}
    for folder in experiments:
        for path in sorted(folder.glob("*.svg")):
            if path.stat().st_size <= MAX_FIGURE_BYTES:
                svg = path.read_text(encoding="utf-8", errors="replace")
                title = TITLE.search(svg)
                name = unescape(title[1]) if title else path.stem
                figures[svg] = SvgImage(folder.name, svg, alt=name)
    return list(figures.values())
