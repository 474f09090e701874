"""Runs: folders in which a model is trained, resumed after an interruption, and used later."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from edgeformers import distributed
from edgeformers.config import RunConfig, Task, read_toml
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, load
from edgeformers.files import json_values, read_json_object
from edgeformers.inference.index import FOLDER as INDEX
from edgeformers.inference.index import index_if_encoded
from edgeformers.inference.model_card import RESULTS, write_model_card
from edgeformers.inference.saved_model import MODEL, check_model
from edgeformers.locks import remove_stale_lock
from edgeformers.training.callbacks import Callback
from edgeformers.training.checkpoint import remove_checkpoints
from edgeformers.training.run_folder import (
    CHECKPOINTS,
    CONFIG,
    check_owner,
    drop_checkpoints,
    owned_folder,
)

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
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Train in a folder, evaluate on the test part, and return the contents of results.json.

    An interrupted run resumes where it stopped; a finished one is left as it is. A folder that
    belongs to other settings or to another network is rejected.
    """
    trained_run(network, run, config, device=device, show=show, callbacks=callbacks)
    return read_results(run)


def trained_run(
    network: EdgeTextGraph | str | PathLike[str],
    run: str | PathLike[str],
    config: RunConfig,
    *,
    device: str | None = None,
    show: bool = True,
    callbacks: Sequence[Callback] = (),
) -> EdgeClassifier | LinkPredictor | None:
    """`train_run` with the estimator, which remembers what it encoded; None if it was finished."""
    graph = network if isinstance(network, EdgeTextGraph) else EdgeTextGraph.open(network)
    folder = Path(run).expanduser()
    distributed.initialize()
    if distributed.broadcast(is_finished(folder)):
        distributed.run_on_main(lambda: _check_finished(folder, config, graph))
        return None
    with distributed.locked_output(folder, folder=True):
        estimator = fit_run(graph, folder, config, device=device, show=show, callbacks=callbacks)
        if len(estimator.fitted_.network.parts["test"]):
            estimator.evaluate("test")
        results = json_values(estimator.results)
        distributed.run_on_main(lambda: write_model_card(folder / MODEL, results))
        if isinstance(estimator, LinkPredictor):
            index_if_encoded(estimator.fitted_, folder / INDEX)
        estimator.write_results(folder)  # last: it marks the run as finished
    return estimator


def fit_run(
    graph: EdgeTextGraph,
    run: str | PathLike[str],
    config: RunConfig,
    *,
    device: str | None = None,
    show: bool = True,
    callbacks: Sequence[Callback] = (),
) -> EdgeClassifier | LinkPredictor:
    """The trained estimator of a run folder: loaded if it is there, otherwise trained."""
    folder = Path(run).expanduser()
    graph.verify()  # before the folder is created
    estimator = ESTIMATORS[config.task](config=config, device=device, show=show)
    if not distributed.broadcast((folder / MODEL).is_dir()):
        distributed.run_on_main(lambda: check_owner(folder, config, graph))
        return estimator.fit(graph, run=folder, callbacks=callbacks)
    with owned_folder(folder, config, graph):
        opened = open_run(folder, graph, device=device, show=show)
        drop_checkpoints(folder)
    return opened


def open_run(
    run: str | PathLike[str],
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    *,
    device: str | None = None,
    show: bool = True,
) -> EdgeClassifier | LinkPredictor:
    """The estimator of a run with its network: the given one, or the one it was trained on."""
    estimator = load(run, network=network, device=device)
    estimator.show = show and estimator.show
    _ = estimator.fitted_.network  # raises if the network cannot be found
    return estimator


def read_results(run: str | PathLike[str]) -> dict[str, Any]:
    """The contents of results.json of a finished run."""
    path = Path(run).expanduser() / RESULTS
    if not path.is_file():
        raise InputError(f"{run} has no {RESULTS}; finish it with: edgeformers train")
    return read_json_object(path, "remove it and train again")


def read_config(run: str | PathLike[str]) -> RunConfig:
    """The settings of a run, with old names replaced by current ones."""
    return RunConfig.from_dict(read_toml(Path(run).expanduser() / CONFIG))


def is_finished(run: str | PathLike[str]) -> bool:
    """Whether a run was trained to the end and evaluated."""
    return (Path(run).expanduser() / RESULTS).is_file()


def _check_finished(folder: Path, config: RunConfig, graph: EdgeTextGraph) -> None:
    """Check that a finished run is this one, and that no file of its network or model changed."""
    check_owner(folder, config, graph)
    graph.verify()
    if (folder / MODEL).is_dir():
        check_model(folder / MODEL)
    remove_checkpoints(folder / CHECKPOINTS)  # of a version that kept them
    remove_stale_lock(folder, folder=True)
