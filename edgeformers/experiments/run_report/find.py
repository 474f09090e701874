"""Runs and experiments in folders, searched downwards."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeformers.data.card.phrasing import listed
from edgeformers.errors import InputError
from edgeformers.experiments.plan import PLAN
from edgeformers.runs import CONFIG, RECORD

NETWORK = "network.json"  # a folder with this is a network, and has no runs below


@dataclass(frozen=True, kw_only=True)
class Found:
    """Folders of runs and of experiments, each once."""

    runs: list[Path]
    experiments: list[Path]


def find_runs(folders: Sequence[Path]) -> Found:
    """Every run in the folders or below them, in the order of their names."""
    if gone := [str(folder) for folder in folders if not folder.is_dir()]:
        raise InputError(f"there is no folder {listed(gone)}; name folders of runs")
    found = {path.resolve(): path for folder in folders for path in _below(folder)}
    runs = [path for path in found.values() if _is_run(path)]
    return Found(runs=runs, experiments=[path for path in found.values() if path not in runs])


def _is_run(folder: Path) -> bool:
    return (folder / RECORD).is_file() or (folder / CONFIG).is_file()


def _below(folder: Path) -> Iterator[Path]:
    """Folders that are a run or have the plan of an experiment."""
    for place, names, files in os.walk(folder):
        if RECORD in files or CONFIG in files or NETWORK in files:
            names.clear()  # whatever is in a run or a network is its own
        names[:] = sorted(name for name in names if not name.startswith("."))
        if NETWORK not in files and {RECORD, CONFIG, PLAN} & set(files):
            yield Path(place)
