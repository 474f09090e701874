"""Load a fitted model from the folder it was saved to."""

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from edgeformers.config import RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.decode import decode
from edgeformers.errors import FormatError, InputError
from edgeformers.hub import download_folder, is_hub_name
from edgeformers.inference.fitted import FittedModel, fitted_model, make_options
from edgeformers.inference.fitted_edges import FittedEdgeClassifier, head_settings
from edgeformers.inference.fitted_links import FittedLinkPredictor, make_link_head
from edgeformers.inference.index import FOLDER as INDEX
from edgeformers.inference.saved_components import Ensemble
from edgeformers.inference.saved_model import (
    CONFIG,
    FILES,
    HEAD,
    NETWORK,
    SavedModel,
    load_model,
    max_token,
    model_folder,
    naming_file,
)
from edgeformers.models.edge_head import EdgeHead
from edgeformers.models.linear_edge_model import LinearEdgeModel
from edgeformers.registry import model_name


def load_fitted(
    folder: Path,
    *,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    device: str | torch.device | None = None,
    show: bool = True,
) -> FittedEdgeClassifier | FittedLinkPredictor:
    """The fitted model in a folder or in a run folder, optionally attached to a network."""
    path = folder.expanduser()
    saved = load_model(model_folder(path))
    if saved.extra.get("task") not in ("edge-classification", "link-prediction"):
        raise FormatError(f"{path} contains a model without a task; no estimator saved it")
    with naming_file(path / CONFIG):
        config = RunConfig.from_dict(saved.extra["config"])
        if config.task != saved.extra["task"]:
            raise ValueError(f"the task is {saved.extra['task']} and {config.task}")
        if config.model.name:  # an old name may have become another model's
            config = config.with_settings({"model.name": model_name(saved.model)})
        results = decode(dict[str, dict[str, Any]], saved.extra.get("results", {}), path="results")
        network_facts = decode(
            dict[str, Any], saved.extra.get("network_facts", {}), path="network_facts"
        )
        network_path = saved.network or saved.extra.get("network")
        if not isinstance(network_path, str | Path | None):
            raise ValueError(f"the network is {network_path!r}")
    options = make_options(config, device, show=show)
    fields: dict[str, Any] = {
        "config": config,
        "options": options,
        "model": saved.model.to(options.device),
        "tokenizer": saved.tokenizer,
        "nodes": saved.nodes,
        "label_names": saved.label_names,
        "results": results,
        "network_facts": network_facts,
        "network_path": None if network_path is None else Path(network_path),
        "carries_network": saved.network is not None,
    }
    fitted: FittedEdgeClassifier | FittedLinkPredictor
    with naming_file(path / HEAD):
        if config.task == "edge-classification":
            edge_head = _edge_head(saved, config).to(options.device)
            fitted = FittedEdgeClassifier(head=edge_head, **fields)
        else:
            head = make_link_head(config.links, len(saved.nodes))
            head.load_state_dict({name: saved.head[name] for name in head.state_dict()})
            ensemble = Ensemble.from_tensors(saved.head, len(saved.nodes))
            head = head.to(options.device).eval()
            index = path / INDEX if (path / INDEX).is_dir() else None
            fitted = FittedLinkPredictor(head=head, ensemble=ensemble, index_folder=index, **fields)
    return fitted if network is None else fitted.attach(network)


def open_fitted(
    model: Any,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    *,
    device: str | torch.device | None = None,
    show: bool = True,
) -> FittedModel[Any]:
    """A fitted model, that of an estimator, or the one in a folder; `device` is for the latter."""
    if isinstance(model, str | PathLike):
        return load_fitted(Path(model), network=network, device=device, show=show)
    fitted = fitted_model(model, FittedModel)  # type: ignore[type-abstract]
    return fitted if network is None else fitted.attach(network)


def load_pretrained(
    name: str | PathLike[str], *, revision: str | None = None, **options: Any
) -> FittedEdgeClassifier | FittedLinkPredictor:
    """The fitted model in a folder or, by its name, on the Hugging Face Hub."""
    path = Path(name).expanduser()
    if path.is_dir():
        return load_fitted(path, **options)
    if not is_hub_name(str(name)):
        raise InputError(f"{name}: no such folder; use a folder, or a name such as user/model")
    remedy = "check the name, the network and, for a private model, your login (hf auth login)"
    patterns = [*FILES, f"{NETWORK}/*"]
    folder = download_folder(str(name), patterns, revision=revision, remedy=remedy)
    fitted = load_fitted(folder, **options)
    # A stranger's model does not choose which folder of this machine is read.
    return fitted if fitted.carries_network else replace(fitted, network_path=None)


def _edge_head(saved: SavedModel, config: RunConfig) -> EdgeHead:
    kind, width = saved.extra["kind"], int(saved.model.width)  # type: ignore[arg-type]
    classes = 1 if kind == "number" else len(saved.label_names)
    head = EdgeHead(width, classes, kind=kind, **head_settings(config.edges, kind))
    head.ensemble = LinearEdgeModel.from_tensors(saved.head)
    head.load_state_dict(saved.head)
    if head.ensemble is not None:
        head.ensemble.check(len(saved.nodes), classes, 1 + max_token(saved.tokenizer))
    return head.eval()
