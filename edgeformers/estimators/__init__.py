"""The estimators EdgeClassifier and LinkPredictor, and `load`."""

from os import PathLike
from pathlib import Path
from typing import Any

import torch

from edgeformers.estimators.build import run_config
from edgeformers.estimators.estimators import EdgeClassifier, LinkPredictor, NotFittedError
from edgeformers.inference.explain import Reason, Recommendation
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import WhatIf
from edgeformers.inference.load import load_fitted
from edgeformers.inference.word_attention import AttendedText

__all__ = [
    "AttendedText",
    "EdgeClassifier",
    "LinkPredictor",
    "NotFittedError",
    "Reason",
    "Recommendation",
    "WhatIf",
    "load",
    "run_config",
]


def load(
    folder: str | PathLike[str],
    *,
    network: Any = None,
    device: str | torch.device | None = None,
) -> EdgeClassifier | LinkPredictor:
    """The estimator saved in a folder or in a run folder.

    It reads its network when it first needs it: `network`, or the one it was trained on. A model
    that was fitted on a data frame has its network in its folder.
    """
    fitted = load_fitted(Path(folder), network=network, device=device)
    if isinstance(fitted, FittedEdgeClassifier):
        return EdgeClassifier.from_fitted(fitted)
    return LinkPredictor.from_fitted(fitted)
