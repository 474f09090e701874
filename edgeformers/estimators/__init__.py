"""The product in two estimators: EdgeClassifier and LinkPredictor, and how they are loaded."""

from os import PathLike
from pathlib import Path
from typing import Any

import torch

from edgeformers.errors import FormatError
from edgeformers.estimators.base import NotFittedError
from edgeformers.estimators.edges import EdgeClassifier
from edgeformers.estimators.links import LinkPredictor, Reason, Recommendation
from edgeformers.estimators.settings import run_config
from edgeformers.inference.saved_model import load_model

__all__ = [
    "EdgeClassifier",
    "LinkPredictor",
    "NotFittedError",
    "Reason",
    "Recommendation",
    "load",
    "run_config",
]


def load(
    folder: str | PathLike[str],
    *,
    network: Any = None,
    device: str | torch.device | None = None,
) -> EdgeClassifier | LinkPredictor:
    """The estimator saved in a folder, or the one a run folder holds.

    A link predictor reads neighborhoods from its network, and a classifier evaluates on its own:
    `network`, or the one it was trained on where it is still there. A model that was fitted on a
    data frame has it in its folder.
    """
    path = Path(folder).expanduser()
    saved = load_model(path / "model" if (path / "model").is_dir() else path)
    task = saved.extra.get("task")
    if task == "edge-classification":
        return EdgeClassifier.from_saved(saved, device=device, network=network)
    if task == "link-prediction":
        return LinkPredictor.from_saved(saved, device=device, network=network)
    raise FormatError(f"{path} holds a model without a task; it was not saved by an estimator")
