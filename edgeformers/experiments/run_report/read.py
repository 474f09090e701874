"""Find run folders and read what `train`, `reproduce` or an estimator left in them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from edgeformers.aliases import current_settings
from edgeformers.config import Task, flatten, read_toml
from edgeformers.data.card.phrasing import listed
from edgeformers.errors import EdgeformersError, InputError
from edgeformers.estimators.build import DEFAULT_MODELS
from edgeformers.experiments.plan import PLAN
from edgeformers.experiments.runner import OUTCOME
from edgeformers.experiments.tune import is_trial
from edgeformers.files import read_json_object
from edgeformers.inference.model_card import RESULTS
from edgeformers.report.comparison import SkippedRun
from edgeformers.report.verdict import Verdict, read_verdict
from edgeformers.runs import read_results
from edgeformers.training.run_folder import CONFIG, RECORD
from edgeformers.training.runlog import LOG, read_log

NETWORK = "network.json"  # marks the folder of a network, which contains no runs
FACTS = ("task", "model", "network", "network_fingerprint")  # in run.json, but not settings
CHOSEN = "chosen."  # prefix of settings that a simple baseline chose on validation


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run with scores on the test part."""

    path: Path
    task: str
    model: str
    seed: int | None
    network: str  # fingerprint
    network_path: str | None  # when the run was made
    settings: dict[str, Any]  # by dotted name, without the seed
    results: dict[str, Any]  # of the test part
    events: list[dict[str, Any]] = field(default_factory=list)  # metrics.jsonl
    total_seconds: float | None = None  # from start to results
    device: str = ""
    verdict: Verdict | None = None

    @property
    def split(self) -> str:
        """The split given in the settings; "" for the task's default."""
        return str(self.settings.get("data.split", self.settings.get("split", "")))

    @property
    def seconds(self) -> float | None:
        """The duration of the run, or at least of its training, if it was logged."""
        if self.total_seconds is not None:
            return float(self.total_seconds)
        spent = [event.get("seconds") for event in self.events if event.get("kind") == "speed"]
        known = [float(seconds) for seconds in spent if seconds is not None]
        return sum(known) if known and len(known) == len(spent) else None


@dataclass(frozen=True, kw_only=True)
class TuningTrial:
    """A finished trial of hyperparameters, which has no scores on the test part."""

    path: Path


def find_folders(roots: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The folders of runs and of experiments in `roots` and below, each once."""
    if missing := [str(root) for root in roots if not root.is_dir()]:
        raise InputError(f"no such folder: {listed(missing)}; give folders that contain runs")
    folders = {path.resolve(): path for root in roots for path in _walk(root)}.values()
    runs = [path for path in folders if (path / RECORD).is_file() or (path / CONFIG).is_file()]
    return runs, [path for path in folders if path not in runs]


def _walk(root: Path) -> Iterator[Path]:
    """Folders with a run or with the plan of an experiment."""
    for place, names, files in os.walk(root):
        if RECORD in files or CONFIG in files or NETWORK in files:
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith("."))
        if NETWORK not in files and {RECORD, CONFIG, PLAN} & set(files):
            yield Path(place)


def is_scalar(value: Any) -> bool:
    """Whether a value in results.json is a score, not an interval or a group."""
    return isinstance(value, int | float)


def read_run(path: Path) -> FinishedRun | TuningTrial | SkippedRun:
    """A run, a trial of hyperparameters, or why the folder is neither."""
    try:
        return _read(path)
    except (EdgeformersError, ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        is_expected = isinstance(error, EdgeformersError)
        reason = str(error) if is_expected else f"one of its files is damaged ({error!r})"
        return SkippedRun(folder=str(path), reason=reason)


def _read(path: Path) -> FinishedRun | TuningTrial | SkippedRun:
    config = read_toml(path / CONFIG) if (path / CONFIG).is_file() else {}
    record = _read_json(path / RECORD)
    events = read_log(path / LOG) if (path / LOG).is_file() else []
    settings = current_settings(flatten(config)) if config else dict(record)
    settings = {name: value for name, value in settings.items() if name not in FACTS}
    if not (path / RESULTS).is_file():
        return SkippedRun(folder=str(path), reason=_progress(path, settings, events))
    results = read_results(path)
    if is_trial(results):
        return TuningTrial(path=path)
    if not any(map(is_scalar, results.get("test", {}).values())):
        return SkippedRun(folder=str(path), reason="it has no score on the test part")
    task, outcome = str(config.get("task") or record["task"]), _read_json(path / OUTCOME)
    seed = settings.pop("train.seed", None)
    model = settings.pop("model.name", "") or record.get("model")
    return FinishedRun(
        path=path,
        task=task,
        model=str(model or DEFAULT_MODELS[cast(Task, task)]),
        seed=seed,
        network=str(record.get("network_fingerprint", "")),
        network_path=record.get("network"),
        settings=settings | _chosen_settings(outcome),
        results=dict(results["test"]),
        events=events,
        total_seconds=outcome.get("seconds"),
        device=str(outcome.get("device", "")),
        verdict=read_verdict(path),
    )


def _progress(path: Path, settings: Mapping[str, Any], events: list[dict[str, Any]]) -> str:
    """Why a run has no results."""
    failure = path.with_name(f"{path.name}.failed")
    if failure.is_file():
        return f"it failed: {failure.read_text(encoding='utf-8').strip()}"
    done = sum(event.get("kind") == "val" for event in events)
    total = settings.get("train.epochs")
    return f"it is not finished: {done} of {total} epochs done" if total else "it has no results"


def _chosen_settings(outcome: Mapping[str, Any]) -> dict[str, Any]:
    chosen = outcome.get("chosen", {}).get("setting") or {}
    chosen = chosen if isinstance(chosen, Mapping) else {"setting": chosen}
    return {f"{CHOSEN}{name}": value for name, value in chosen.items()}


def _read_json(path: Path) -> dict[str, Any]:
    return read_json_object(path, "remove it") if path.is_file() else {}
