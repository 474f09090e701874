"""The files of a run folder, and which settings and network it belongs to.

A folder is claimed by its first checkpoint. Before that, another run may replace its settings.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgeformers import distributed
from edgeformers.config import RunConfig, matches_file
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.storage import fingerprint
from edgeformers.errors import InputError
from edgeformers.files import json_values, read_json_object, write_atomic
from edgeformers.inference.fitted import network_fingerprint
from edgeformers.inference.model_card import CONFIG as MODEL_CONFIG
from edgeformers.inference.model_card import RESULTS
from edgeformers.inference.saved_model import MODEL, model_folder
from edgeformers.training.callbacks import TENSORBOARD
from edgeformers.training.checkpoint import latest_checkpoint, remove_checkpoints
from edgeformers.training.runlog import LOG

CONFIG, RECORD = "config.toml", "run.json"
CHECKPOINTS = "checkpoints"


def is_complete(folder: Path) -> bool:
    """Whether a run folder has a trained model."""
    return (folder / RESULTS).is_file() or (folder / MODEL).is_dir()


def is_claimed(folder: Path) -> bool:
    """Whether a run folder has anything that another run must not replace."""
    return is_complete(folder) or latest_checkpoint(folder / CHECKPOINTS) is not None


def check_owner(folder: Path, config: RunConfig, graph: EdgeTextGraph) -> None:
    """Raise an InputError unless the folder is new or belongs to this run."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    visible = {name for name in names if not name.startswith(".")}
    if visible and not visible & {CONFIG, RECORD}:
        raise InputError(f"{folder} contains files but is not a run; choose another run folder")
    if not is_claimed(folder):
        return
    recorded = read_run_record(folder)
    # before the settings, some of which follow from the network
    if recorded.get("network_fingerprint") not in (None, network_fingerprint(graph)):
        if recorded.get("network") == str(graph.path.resolve()):
            raise InputError(
                f"{graph.path} has changed since the run {folder} was trained on it; train into a "
                "new run folder"
            )
        raise InputError(
            f"{folder} is a run on another network ({recorded.get('network')}); choose another "
            "run folder or remove it"
        )
    if (folder / CONFIG).exists() and not matches_file(folder / CONFIG, config):
        raise InputError(
            f"{folder / CONFIG} belongs to a run with other settings; choose another run folder or "
            "remove it"
        )
    parent = recorded.get("start_from")
    if parent and not is_complete(folder) and parent != describe_parent(config):
        raise InputError(
            f"{folder} started from {parent.get('run')}, which has changed since; choose another "
            "run folder or remove it"
        )


def describe_parent(config: RunConfig) -> dict[str, Any]:
    """Which model a run starts from: its folder, and the checksum of its config.json."""
    folder = Path(config.train.start_from)
    config_file = model_folder(folder) / MODEL_CONFIG
    return {
        "run": str(folder),
        "model": fingerprint(config_file) if config_file.is_file() else None,
    }


@contextmanager
def owned_folder(folder: Path, config: RunConfig, graph: EdgeTextGraph) -> Iterator[None]:
    """Lock a run folder and write its settings; a run that fails at once leaves nothing."""
    distributed.run_on_main(lambda: check_owner(folder, config, graph))
    with distributed.locked_output(folder, folder=True):
        distributed.run_on_main(lambda: _write_settings(folder, config, graph))
        try:
            yield
        except BaseException:
            if distributed.is_main() and not is_claimed(folder) and not (folder / LOG).exists():
                for name in (CONFIG, RECORD):
                    (folder / name).unlink(missing_ok=True)
                shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
            raise


def drop_checkpoints(folder: Path) -> None:
    """Delete the checkpoints of a run whose model is saved."""
    distributed.run_on_main(lambda: remove_checkpoints(folder / CHECKPOINTS))


def read_run_record(folder: Path) -> dict[str, Any]:
    """The contents of run.json; empty if there is none."""
    path = folder / RECORD
    return read_json_object(path, "remove it and train again") if path.is_file() else {}


def write_run_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Write results.json, which marks a run as finished."""
    write_atomic(folder / RESULTS, json.dumps(json_values(results), indent=1))


def _write_settings(folder: Path, config: RunConfig, graph: EdgeTextGraph) -> None:
    check_owner(folder, config, graph)
    record: dict[str, Any] = {"task": config.task, "network": str(graph.path.resolve())}
    record["network_fingerprint"] = network_fingerprint(graph)
    if config.train.start_from:
        record["start_from"] = describe_parent(config)
    write_atomic(folder / RECORD, json.dumps(record, indent=1) + "\n")
    if not is_claimed(folder) or not (folder / CONFIG).exists():
        write_atomic(folder / CONFIG, config.to_toml())
