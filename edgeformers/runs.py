"""A run: the folder in which a model is trained once, resumed if need be, and used later."""

import hashlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from edgeformers import distributed
from edgeformers.config import RunConfig, Task, matches_file, read_toml
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import FormatError, InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, load
from edgeformers.files import write_atomic

CONFIG, RECORD, RESULTS, MODEL = "config.toml", "run.json", "results.json", "model"
ESTIMATORS: dict[Task, type[EdgeClassifier] | type[LinkPredictor]] = {
    "edge-classification": EdgeClassifier,
    "link-prediction": LinkPredictor,
}


def train_run(
    network: EdgeTextGraph | str | PathLike[str],
    run: str | PathLike[str],
    config: RunConfig,
    *,
    device: str | None = None,
    show: bool = True,
) -> dict[str, Any]:
    """Train in a folder, score on the test part, and give what results.json then says.

    A run that was interrupted goes on where it stopped; one that is finished is left as it is.
    A folder that belongs to other settings or another network is refused.
    """
    graph = network if isinstance(network, EdgeTextGraph) else EdgeTextGraph.open(network)
    folder = Path(run).expanduser()
    made = _begin(folder, graph, config, device, show)
    if distributed.broadcast((folder / RESULTS).is_file()):
        return read_results(folder)
    made = _finish(made, folder, graph, device)
    if len(made.objective.parts["test"]):
        made.evaluate("test")
    made.write_results(folder)
    return read_results(folder)


def fit_run(
    graph: EdgeTextGraph,
    run: str | PathLike[str],
    config: RunConfig,
    *,
    device: str | None = None,
    show: bool = True,
) -> EdgeClassifier | LinkPredictor:
    """The trained model of a folder, to be scored: trained to the end, or loaded if it was."""
    folder = Path(run).expanduser()
    return _finish(_begin(folder, graph, config, device, show), folder, graph, device)


def open_run(
    run: str | PathLike[str],
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    *,
    device: str | None = None,
    show: bool = True,
) -> EdgeClassifier | LinkPredictor:
    """The estimator of a run with its network: the one it was trained on, or the one named."""
    made = load(run, network=network, device=check_device(device))
    made.show = show and made.show
    if not hasattr(made, "objective"):
        if made.trained_on is None or not Path(made.trained_on).is_dir():
            where = f"no longer at {made.trained_on}" if made.trained_on else "not saved with it"
            raise InputError(f"the network {run} was trained on is {where}; name it with --network")
        made.attach()
    return made


def read_results(run: str | PathLike[str]) -> dict[str, Any]:
    """What results.json of a finished run says."""
    path = Path(run).expanduser() / RESULTS
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{run} has no {RESULTS}; finish it with: edgeformers train") from None
    except ValueError as error:
        raise FormatError(f"{path} is damaged ({error}); remove it and train again") from error
    return found


def read_config(run: str | PathLike[str]) -> RunConfig:
    """The settings of a run, old names replaced by current ones."""
    return RunConfig.from_dict(read_toml(Path(run).expanduser() / CONFIG))


def is_finished(run: str | PathLike[str]) -> bool:
    """Whether a run was trained to the end and scored."""
    return (Path(run).expanduser() / RESULTS).is_file()


def network_fingerprint(graph: EdgeTextGraph) -> str:
    """SHA-256 over the checksums of a network's files."""
    return hashlib.sha256(json.dumps(graph.meta.files, sort_keys=True).encode()).hexdigest()


def check_device(device: str | None) -> str | None:
    """A device that there is; another is refused before any work is done."""
    if device is None:
        return None
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch built without a backend asserts
        here = "cpu, cuda" if torch.cuda.is_available() else "cpu"
        raise InputError(f"there is no device '{device}' here; available: {here}") from error
    return device


def _begin(
    folder: Path, graph: EdgeTextGraph, config: RunConfig, device: str | None, show: bool
) -> EdgeClassifier | LinkPredictor:
    """An untrained estimator, and a folder that is its own."""
    graph.verify()  # before there is a folder
    made = ESTIMATORS[config.task](config=config, device=check_device(device), show=show)
    _claim(folder, graph, config)
    distributed.barrier()
    return made


def _finish(
    made: EdgeClassifier | LinkPredictor, folder: Path, graph: EdgeTextGraph, device: str | None
) -> EdgeClassifier | LinkPredictor:
    if distributed.broadcast((folder / MODEL).is_dir()):
        return open_run(folder, graph, device=device, show=made.show)
    return made.fit(graph, run=folder)


def _claim(folder: Path, graph: EdgeTextGraph, config: RunConfig) -> None:
    """Note in the folder what it is for, or compare with what it says."""
    if not distributed.is_main():
        return
    config_file, record_file = folder / CONFIG, folder / RECORD
    for left_over in folder.glob(f".{RECORD}.*"):  # of a process killed while it wrote its record
        left_over.unlink(missing_ok=True)
    if config_file.exists() and not matches_file(config_file, config):
        raise InputError(
            f"{config_file} belongs to a run with other settings; choose another run folder, or "
            "remove it"
        )
    record = {"task": config.task, "network": str(graph.path.resolve())}
    record["network_fingerprint"] = network_fingerprint(graph)
    if record_file.exists():
        noted = json.loads(record_file.read_text(encoding="utf-8"))
        if noted.get("network_fingerprint") != record["network_fingerprint"]:
            raise InputError(
                f"{folder} is a run on another network ({noted.get('network')}); choose another "
                "run folder, or remove it"
            )
    elif folder.is_dir() and any(folder.iterdir()) and not config_file.exists():
        raise InputError(f"{folder} has files that are no run; choose another run folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(record_file, json.dumps(record, indent=1) + "\n")
