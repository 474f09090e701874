"""Estimator: settings, `fit`, and delegation to the fitted model; shared by both estimators."""

import json
import shutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Generic, Self, TypeVar

import torch
from torch import nn

from edgeformers import distributed
from edgeformers.config import RunConfig, Task, matches_file
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.errors import ConfigError, InputError
from edgeformers.estimators.settings import find_model, run_config
from edgeformers.files import json_values, write_atomic
from edgeformers.inference.encode import EncodeOptions
from edgeformers.inference.fitted import make_options
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.network import open_network
from edgeformers.nn.encoder import TextEncoder
from edgeformers.training.initialization import merge_lora
from edgeformers.training.trainer import Trainer, TrainingState

CONFIG, RESULTS = "config.toml", "results.json"  # of a run folder

Network = EdgeTextGraph | str | PathLike[str] | Any  # or a data frame, with column names
Fitted = TypeVar("Fitted", FittedEdgeClassifier, FittedLinkPredictor)


class NotFittedError(InputError, AttributeError):
    """The estimator has not been fitted."""


class Estimator(ABC, Generic[Fitted]):
    """A model that learns from a network: `fit` it, then use it and `save` it.

    `settings` override single settings of the recipe by dotted name, like `--set` on the command
    line: {"train.epochs": 3, "model.backbone": "bert-base-uncased"}.
    """

    task: Task

    def __init__(
        self,
        backbone: str | None = None,
        *,
        recipe: str = "default",
        settings: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
        device: str | torch.device | None = None,
        seed: int | None = None,
        show: bool = True,
    ) -> None:
        changes = dict(settings or {})
        changes |= {"model.backbone": backbone} if backbone is not None else {}
        changes |= {"train.seed": seed} if seed is not None else {}
        if config is not None and config.task != self.task:
            raise ConfigError(f"{type(self).__name__} is for {self.task}, not for {config.task}")
        self._changes = (
            changes if config is None else None
        )  # of the recipe, until it meets a network
        if config is None:
            self.config = run_config(self.task, recipe, settings=changes)
        else:
            self.config = config.with_settings(changes)
        find_model(self.config)  # raises if it is not a model of this task
        self.options: EncodeOptions = make_options(self.config, device, show=show)
        self.progress: TrainingState | None = None  # of the last training
        self._fitted: Fitted | None = None

    def __repr__(self) -> str:
        state = "fitted" if self.is_fitted else "not fitted"
        model, recipe = self.config.model, self.config.recipe
        return f"{type(self).__name__}({model.backbone!r}, recipe={recipe!r}), {state}"

    @property
    def fitted_(self) -> Fitted:
        """What `fit` produced: the model with all it needs to be used."""
        if self._fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit first")
        return self._fitted

    @property
    def is_fitted(self) -> bool:
        return self._fitted is not None

    @property
    def device(self) -> torch.device:
        return self.options.device

    @property
    def show(self) -> bool:
        """Whether progress is shown."""
        return self.options.show

    @show.setter
    def show(self, value: bool) -> None:
        self.options.show = value

    @property
    def model(self) -> nn.Module:
        """The trained model."""
        return self.fitted_.model

    @property
    def label_names(self) -> list[str]:
        """The labels, in the order of the classes."""
        return self.fitted_.label_names

    @property
    def results(self) -> dict[str, Any]:
        """What `evaluate` returned for each part so far."""
        return self.fitted_.results

    @classmethod
    def from_fitted(cls, fitted: Fitted) -> Self:
        """The estimator of a fitted model."""
        estimator = cls(config=fitted.config, device=fitted.device, show=fitted.options.show)
        estimator.options, estimator._fitted = fitted.options, fitted
        return estimator

    def fit(
        self, network: Network, *, run: str | PathLike[str] | None = None, **columns: Any
    ) -> Self:
        """Learn from a prepared network, its path, or a data frame whose `columns` are named.

        With `run`, a folder, training is logged and checkpointed there, and an interrupted run
        resumes where it stopped.
        """
        objective = self.make_objective(network, **columns)
        folder = None if run is None else Path(run).expanduser()
        if folder is not None:
            with distributed.main_first():
                _write_config(folder, self.config)
        trainer = Trainer(
            objective, self.config.train, device=self.device, folder=folder, show=self.show
        )
        self.progress = trainer.fit()
        encoder = objective.modules.get_submodule("model.encoder")
        if self.config.train.lora_rank and isinstance(encoder, TextEncoder):
            merge_lora(encoder)
        objective.modules.eval()
        self._fitted = self._finish(objective)
        if folder is not None:
            self.save(folder / "model")
        return self

    @abstractmethod
    def make_objective(self, network: Network, **columns: Any) -> Any:
        """What `fit` trains: the untrained model with the batches and the loss of its task."""

    @abstractmethod
    def _finish(self, objective: Any) -> Fitted:
        """The fitted model, after what is chosen on validation once training has ended."""

    def attach(self, network: EdgeTextGraph | str | PathLike[str] | None = None) -> Self:
        """Give a loaded model the network it was trained on, to evaluate and embed.

        Without `network` it is taken from where it was, or from the folder of the model.
        """
        self._fitted = self.fitted_.attach(network)
        return self

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the model as one folder that `edgeformers.load` reads.

        The network of a model fitted on a data frame is saved with it; otherwise its path is.
        """
        return self.fitted_.save(folder)

    def write_results(self, run: str | PathLike[str]) -> None:
        """Write what `evaluate` returned to RUN/results.json."""
        folder = Path(run).expanduser()
        distributed.run_on_main(lambda: write_run_results(folder, self.results))

    def _open(self, network: Network, columns: Mapping[str, Any]) -> tuple[EdgeTextGraph, bool]:
        """A prepared network, and whether it was prepared here, from a data frame.

        The settings are completed by those that the recipe takes from the network.
        """
        graph, from_frame = self._open_network(network, columns)
        if self._changes is not None:
            recipe, changes = self.config.recipe, self._changes
            self.config = run_config(self.task, recipe, settings=changes, graph=graph)
        return graph, from_frame

    def _open_network(
        self, network: Network, columns: Mapping[str, Any]
    ) -> tuple[EdgeTextGraph, bool]:
        if is_frame(network):
            folder = Path(mkdtemp(prefix="edgeformers-"))
            config = PrepareConfig(tokenizer=None, progress=self.show)
            graph = write_network(read_edges(network, **columns), folder / "network", config=config)
            weakref.finalize(graph, shutil.rmtree, folder, ignore_errors=True)
            return graph, True
        if columns:
            raise InputError(
                f"{', '.join(columns)}: columns can be named for data frames only; a prepared "
                "network has its columns already"
            )
        return open_network(network), False


def check_config(folder: Path, config: RunConfig) -> None:
    """Raise an InputError if a run folder belongs to a run with other settings."""
    path = folder / CONFIG
    if path.exists() and not matches_file(path, config):
        raise InputError(
            f"{path} belongs to a run with other settings; choose another run folder or remove it"
        )


def _write_config(folder: Path, config: RunConfig) -> None:
    """Write config.toml of a run folder."""
    check_config(folder, config)
    if not (folder / CONFIG).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CONFIG, config.to_toml())


def write_run_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Write results.json of a run."""
    write_atomic(folder / RESULTS, json.dumps(json_values(results), indent=1))
