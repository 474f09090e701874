"""From folders to a page: find runs, read them, compare what can be compared, and write."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from os import PathLike
from pathlib import Path

from edgeformers.data.card.phrasing import counted
from edgeformers.errors import InputError
from edgeformers.experiments.run_report.compare import compare_runs
from edgeformers.experiments.run_report.find import find_runs
from edgeformers.experiments.run_report.networks import KnownNetwork, find_networks
from edgeformers.experiments.run_report.read import RunRecord, Trial, read_run
from edgeformers.files import write_atomic
from edgeformers.report.runs_data import Drawing, RunComparison, RunGroup, Unfinished
from edgeformers.report.runs_page import runs_html

TASKS = {"edge-classification": "Edge classification", "link-prediction": "Link prediction"}
LARGEST = 2_000_000  # bytes of a drawing that is put on the page
GroupKey = tuple[str, str, str]  # network, task, split
TITLE = re.compile(r"<title>([^<]*)</title>")


def build_report(folders: Iterable[str | PathLike[str]]) -> RunComparison:
    """Read every run in these folders or below, and put side by side what can be compared."""
    given = [Path(folder).expanduser() for folder in folders]
    found = find_runs(given)
    read = [read_run(path) for path in found.runs]
    runs = [run for run in read if isinstance(run, RunRecord)]
    unfinished = [run for run in read if isinstance(run, Unfinished)]
    trials = sum(isinstance(run, Trial) for run in read)
    if not runs:
        raise InputError(_nothing(given, unfinished, trials))
    networks = find_networks(runs, found.experiments)
    groups = _groups(runs, networks)
    notes = [f"{folder} has no finished run." for folder in _without(given, runs)]
    return RunComparison(
        title=_title(groups),
        groups=groups,
        drawings=_drawings(found.experiments),
        cards=dict(sorted((one.name, one.card) for one in networks.values() if one.card)),
        unfinished=unfinished,
        notes=notes + _trial_notes(trials) + [n.note for n in networks.values() if n.note],
    )


def write_report(folders: Iterable[str | PathLike[str]], out: str | PathLike[str]) -> RunComparison:
    """Write the page of all finished runs in these folders, and give what is on it."""
    page, path = build_report(folders), Path(out).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, runs_html(page))
    return page


def _without(folders: Iterable[Path], runs: Iterable[RunRecord]) -> list[Path]:
    """The folders that none of these runs is in."""
    places = [run.path.resolve() for run in runs]
    return [
        folder
        for folder in folders
        if not any(place.is_relative_to(folder.resolve()) for place in places)
    ]


def _trial_notes(count: int) -> list[str]:
    was = "is not shown: it was" if count == 1 else "are not shown: they were"
    return [f"{_trials(count)} {was} judged on validation alone."] if count else []


def _trials(count: int) -> str:
    return counted(count, "trial of settings", "trials of settings")


def _nothing(folders: Sequence[Path], unfinished: Sequence[Unfinished], trials: int) -> str:
    where = ", ".join(map(str, folders)) + (f", only {_trials(trials)}" if trials else "")
    told = f"; {unfinished[0].folder}: {unfinished[0].sentence}" if unfinished else ""
    return f"no finished run in {where}{told}. Make one with: edgeformers train"


def _groups(runs: Sequence[RunRecord], networks: Mapping[str, KnownNetwork]) -> list[RunGroup]:
    keyed: dict[GroupKey, list[RunRecord]] = {}
    for run in runs:
        keyed.setdefault((networks[run.network].name, run.task, run.split), []).append(run)
    return [
        compare_runs(mine, key[0], _group_title(key, keyed)) for key, mine in sorted(keyed.items())
    ]


def _group_title(key: GroupKey, others: Iterable[GroupKey]) -> str:
    """The task; the network and the split where there are several."""
    (name, task, split), keys = key, list(others)
    network = f" on {name}" if len({other[0] for other in keys}) > 1 else ""
    several = sum(other[:2] == key[:2] for other in keys) > 1
    return TASKS.get(task, task) + network + (f", split {split or 'as usual'}" if several else "")


def _title(groups: Sequence[RunGroup]) -> str:
    names = list(dict.fromkeys(group.network for group in groups))
    return names[0] if len(names) == 1 else f"{len(names)} networks"


def _drawings(experiments: Iterable[Path]) -> list[Drawing]:
    """The SVG files of experiments, each picture once."""
    found = {}
    for folder in experiments:
        for path in sorted(folder.glob("*.svg")):
            if path.stat().st_size <= LARGEST:
                text = path.read_text(encoding="utf-8", errors="replace")
                title = TITLE.search(text)
                named = unescape(title[1]) if title else path.stem
                found[text] = Drawing(title=named, experiment=folder.name, svg=text)
    return list(found.values())
