"""What a run left in its folder, whoever made it: `train`, `reproduce`, or an estimator."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeformers.config import flatten, read_toml
from edgeformers.errors import EdgeformersError
from edgeformers.estimators.settings import DEFAULT_MODELS
from edgeformers.experiments.runner import OUTCOME
from edgeformers.experiments.tune import is_trial
from edgeformers.report.runs_data import Unfinished
from edgeformers.runs import CONFIG, RECORD, RESULTS, read_results
from edgeformers.training.runlog import LOG, read_log

#: What run.json of a simple baseline says that is no setting of it.
FACTS = ("task", "model", "network", "network_fingerprint")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A finished run that was scored on the test part."""

    path: Path
    task: str
    model: str
    seed: int | None
    network: str  # the network's fingerprint
    network_path: str | None  # where the network was
    settings: dict[str, Any]  # by dotted names, the seed aside
    results: dict[str, Any]  # of the test part
    events: list[dict[str, Any]] = field(default_factory=list)
    seconds: float | None = None  # from its start to its results
    device: str = ""

    @property
    def split(self) -> str:
        """The split it was told to learn from; empty: the usual one of its task."""
        return str(self.settings.get("data.split", self.settings.get("split", "")))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A finished trial of settings: no model of its own, and never scored on the test part."""

    path: Path


def is_number(value: Any) -> bool:
    """Whether a value of results.json is a score: intervals and groups are none."""
    return isinstance(value, int | float)


def read_run(path: Path) -> RunRecord | Trial | Unfinished:
    """A run that can be compared, a trial of settings, or why it is neither in a sentence."""
    try:
        return _read(path)
    except (EdgeformersError, ValueError, KeyError, TypeError, AttributeError) as error:
        foreseen = isinstance(error, EdgeformersError)
        why = str(error) if foreseen else f"a file of it is damaged ({error!r})"
        return Unfinished(folder=str(path), sentence=why)


def _read(path: Path) -> RunRecord | Trial | Unfinished:
    config = read_toml(path / CONFIG) if (path / CONFIG).is_file() else {}
    noted = _json(path / RECORD)
    events = read_log(path / LOG) if (path / LOG).is_file() else []
    settings = _flat(config) if config else {k: v for k, v in noted.items() if k not in FACTS}
    if not (path / RESULTS).is_file():
        return Unfinished(folder=str(path), sentence=_standing(path, settings, events))
    results = read_results(path)
    if is_trial(results):
        return Trial(path=path)
    if not any(map(is_number, results.get("test", {}).values())):
        why = "it has no score on the test part"
        return Unfinished(folder=str(path), sentence=why)
    task, outcome = str(config.get("task") or noted["task"]), _json(path / OUTCOME)
    seed = settings.pop("train.seed", None)
    model = settings.pop("model.name", "") or noted.get("model") or _default_model(task)
    settings |= {f"chosen.{k}": v for k, v in _chosen(outcome).items()}
    return RunRecord(
        path=path,
        task=task,
        model=str(model),
        seed=seed,
        network=str(noted.get("network_fingerprint", "")),
        network_path=noted.get("network"),
        settings=settings,
        results=dict(results["test"]),
        events=events,
        seconds=outcome.get("seconds"),
        device=str(outcome.get("device", "")),
    )


def _standing(path: Path, settings: Mapping[str, Any], events: list[dict[str, Any]]) -> str:
    """How far a run came, and why it stopped where that is known."""
    failure = path.with_name(f"{path.name}.failed")
    if failure.is_file():
        return f"it failed: {failure.read_text(encoding='utf-8').strip()}"
    done = sum(event.get("kind") == "val" for event in events)
    total = settings.get("train.epochs")
    return (
        f"it is not finished: {done} of {total} epochs are done" if total else "it has no results"
    )


def _default_model(task: str) -> str:
    return next(model for known, model in DEFAULT_MODELS.items() if known == task)


def _chosen(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The settings a simple baseline chose by itself."""
    found = outcome.get("chosen", {}).get("setting") or {}
    return dict(found) if isinstance(found, Mapping) else {"setting": found}


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names, without the task."""
    return {name: value for name, value in flatten(config).items() if name != "task"}


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found
