"""Load a fitted model from the folder it was saved to."""

from os import PathLike
from pathlib import Path

import torch

from edgeformers.config import RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import FormatError
from edgeformers.inference.fitted import make_options
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.saved_model import load_model


def load_fitted(
    folder: Path,
    *,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    device: str | torch.device | None = None,
    show: bool = True,
) -> FittedEdgeClassifier | FittedLinkPredictor:
    """The fitted model in a folder or in a run folder, optionally attached to a network."""
    path = folder.expanduser()
    saved = load_model(path / "model" if (path / "model").is_dir() else path)
    if saved.extra.get("task") not in ("edge-classification", "link-prediction"):
        raise FormatError(f"{path} contains a model without a task; no estimator saved it")
    config = RunConfig.from_dict(saved.extra["config"])
    if config.model.name:  # an old name may have become another model's
        config = config.with_settings({"model.name": saved.name})
    options = make_options(config, device, show=show)
    fitted: FittedEdgeClassifier | FittedLinkPredictor
    if config.task == "edge-classification":
        fitted = FittedEdgeClassifier.from_saved(saved, config, options)
    else:
        fitted = FittedLinkPredictor.from_saved(saved, config, options)
    return fitted if network is None else fitted.attach(network)
