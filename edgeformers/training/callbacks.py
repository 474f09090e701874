"""Callbacks that follow training: TensorBoard, Weights & Biases, MLflow, or one of your own."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from edgeformers.config import flatten
from edgeformers.errors import InputError, require, suggest

TENSORBOARD = "tensorboard"  # the folder in a run


class Callback:
    """Follows a training run; override what you need.

    Events are those of metrics.jsonl. Their kinds: "train" (the loss of a step), "val" (the
    validation metrics of an epoch), "speed", "memory" and "estimate".
    """

    def on_start(self, config: Mapping[str, Any], folder: Path | None, step: int) -> None:
        """Training starts, with these settings; `step` is above 0 if it is resumed."""

    def on_event(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """An event with plain values was logged."""

    def on_end(self) -> None:
        """Training ended, or stopped with an error."""


class TensorBoard(Callback):
    """Writes scalars for TensorBoard, by default to RUN/tensorboard."""

    def __init__(self, folder: str | PathLike[str] | None = None) -> None:
        require("tensorboard", "tensorboard")
        self.folder = folder
        self._writer: Any = None

    def on_start(self, config: Mapping[str, Any], folder: Path | None, step: int) -> None:
        if self.folder is None and folder is None:
            raise InputError("TensorBoard needs a folder; pass one, or fit in a run folder")
        writers = require("torch.utils.tensorboard", "tensorboard")
        path = Path(self.folder or Path(folder or ".") / TENSORBOARD).expanduser()
        self._writer = writers.SummaryWriter(str(path), purge_step=step + 1)

    def on_event(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        for name, value in scalars(kind, values).items():
            self._writer.add_scalar(name, value, step)

    def on_end(self) -> None:
        if self._writer is not None:
            self._writer.close()


class WandB(Callback):
    """Logs to Weights & Biases; arguments are those of `wandb.init`, such as project and mode."""

    def __init__(self, **init: Any) -> None:
        self._wandb = require("wandb", "wandb")
        self.init = init
        self._run: Any = None

    def on_start(self, config: Mapping[str, Any], folder: Path | None, step: int) -> None:
        own = {} if folder is None else {"dir": str(folder), "name": folder.resolve().name}
        self._run = self._wandb.init(**{**own, "config": flatten(dict(config)), **self.init})

    def on_event(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        self._run.log(scalars(kind, values), step=step)

    def on_end(self) -> None:
        if self._run is not None:
            self._run.finish()


class MLflow(Callback):
    """Logs to MLflow, by default to the tracking server that MLflow is configured with."""

    BATCH = 500  # metrics sent at once; MLflow accepts 1,000

    def __init__(
        self,
        experiment: str = "edgeformers",
        *,
        tracking_uri: str | None = None,
        run_name: str | None = None,
    ) -> None:
        self._mlflow = require("mlflow", "mlflow")
        self.experiment, self.tracking_uri, self.run_name = experiment, tracking_uri, run_name
        self._client: Any = None
        self._run_id = ""
        self._metrics: list[Any] = []

    def on_start(self, config: Mapping[str, Any], folder: Path | None, step: int) -> None:
        self._client = self._mlflow.MlflowClient(self.tracking_uri)
        found = self._client.get_experiment_by_name(self.experiment)
        number = found.experiment_id if found else self._client.create_experiment(self.experiment)
        name = self.run_name or (None if folder is None else folder.resolve().name)
        self._run_id = self._client.create_run(number, run_name=name).info.run_id
        for setting, value in flatten(dict(config)).items():
            self._client.log_param(self._run_id, setting, value)

    def on_event(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        from time import time

        metric, now = self._mlflow.entities.Metric, int(time() * 1000)
        self._metrics += [metric(n, v, now, step) for n, v in scalars(kind, values).items()]
        if kind != "train" or len(self._metrics) >= self.BATCH:
            self._send()

    def on_end(self) -> None:
        if self._run_id:
            self._send()
            self._client.set_terminated(self._run_id)

    def _send(self) -> None:
        metrics, self._metrics = self._metrics, []
        self._client.log_batch(self._run_id, metrics=metrics)


CALLBACKS: Mapping[str, Callable[[], Callback]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": MLflow,
}


def make_callback(name: str) -> Callback:
    """The callback of a name, with its defaults."""
    if name not in CALLBACKS:
        raise InputError(f"unknown callback '{name}'; {suggest(name, CALLBACKS)}")
    return CALLBACKS[name]()


def scalars(kind: str, values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an event, by names such as val/macro_f1."""
    return {
        f"{kind}/{name}": value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
