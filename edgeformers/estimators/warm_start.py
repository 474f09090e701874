"""Warm starts: a run continues from an earlier one, on a network that has changed since.

Nodes keep their vectors by id and type, whatever their numbers are now. New nodes start as the
unknown node. Training reads the new examples and a sample of the earlier ones.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from edgeformers.config import RunConfig, flatten
from edgeformers.data.random import hash_keys
from edgeformers.data.splits import PROFILE, TEST, TRAIN, VAL
from edgeformers.data.types import Ids
from edgeformers.decode import decode
from edgeformers.errors import ConfigError, InputError
from edgeformers.evaluation.rolling import can_roll
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.load import load_fitted
from edgeformers.inference.saved_model import MODEL, check_model, model_folder, naming_file
from edgeformers.progress import print_message
from edgeformers.training.objective import Objective
from edgeformers.training.run_folder import CONFIG

Trained = TypeVar("Trained", bound=Objective)
Parent = FittedEdgeClassifier | FittedLinkPredictor

#: Settings in place of those of the earlier run, unless they are given.
SETTINGS: Mapping[str, Any] = {"train.epochs": 1}
#: Settings of the model that do not change what its parameters mean.
CHANGEABLE = frozenset({"model.node_dropout", "model.node_shrinkage", "model.node_init"})
#: Parameters with a row per node: the table is copied by id; the popularity of targets is counted
#: anew, since what was learned yesterday is old (docs/decisions.md).
PER_NODE = frozenset({"model.nodes.table", "head.bias"})
REPLAY = 0x5EED  # random stream


def continued_config(
    config: RunConfig, given: Mapping[str, Any], recipe: str | None = None
) -> RunConfig:
    """The settings of the run that `train.start_from` names, with those that are given changed."""
    folder = Path(config.train.start_from).expanduser().resolve()
    facts = _read_facts(folder)
    with naming_file(folder):
        before = RunConfig.from_dict(facts["extra"]["config"])
    if before.task != config.task:
        raise ConfigError(
            f"{folder} is a run of {before.task}; it cannot start one of {config.task}"
        )
    if recipe not in (None, before.recipe):
        raise ConfigError(
            f"{folder} has the recipe '{before.recipe}', and a run that starts from it keeps its "
            f"settings (got '{recipe}'); leave the recipe out, or train from scratch"
        )
    values, own = flatten(before.to_dict()), {**given, "train.start_from": str(folder)}
    for name in sorted(own.keys() - CHANGEABLE):
        if name.startswith("model.") and own[name] != values[name]:
            raise ConfigError(
                f"{folder} was trained with {name}={values[name]!r}, and a run that starts from it "
                f"keeps its model (got {own[name]!r}); leave the setting out, or train from scratch"
            )
    return before.with_settings({**SETTINGS, **own})


def open_parent(config: RunConfig) -> Parent | None:
    """The trained model that a run starts from, on the CPU; None if it starts from scratch."""
    if not config.train.start_from:
        return None
    folder = Path(config.train.start_from)
    _read_facts(folder)
    return load_fitted(folder, device="cpu", show=False)


def _read_facts(folder: Path) -> dict[str, Any]:
    """The contents of config.json of a run's model, or of a saved model."""
    if (folder / CONFIG).is_file() and not (folder / MODEL).is_dir():
        raise InputError(
            f"{folder} is not finished, so no run can start from it; finish it with: "
            "edgeformers train"
        )
    facts = check_model(model_folder(folder))
    if "config" not in facts["extra"]:
        raise InputError(f"{folder} contains a model without a task; no run can start from it")
    return facts


def continued(objective: Trained, parent: Parent | None) -> Trained:
    """An untrained objective with the parameters of a trained model, if any, and its examples."""
    if parent is None:
        return objective
    fitted = objective.fitted
    _check_categories(fitted, parent)
    _check_parts(fitted, parent)
    lookup: Any = parent.model.get_submodule("nodes")
    numbers = torch.from_numpy(fitted.nodes.numbers_in(parent.nodes))  # [N]
    numbers = torch.where((numbers >= 0) & lookup.is_seen[numbers], numbers, -1)
    rows = torch.cat([lookup.table[numbers], lookup.table[-1:]])  # -1: the unknown node
    objective.model.get_submodule("nodes").set_rows(rows)  # type: ignore[operator]
    _copy_parameters(objective, parent)
    earlier, new = choose_examples(objective, parent)
    objective.examples = np.sort(np.concatenate([earlier, new]))
    known = int((numbers >= 0).sum())
    print_message(
        f"starts from {fitted.config.train.start_from}, which knows {known:,} of {len(numbers):,} "
        f"nodes; trains on {len(new):,} new edges and {len(earlier):,} earlier ones",
        show=fitted.options.show,
    )
    return objective


@torch.no_grad()
def _copy_parameters(objective: Objective, parent: Parent) -> None:
    """Copy what does not belong to single nodes; the encoder is the parent's already."""
    trained: dict[str, Tensor] = {}
    for part in ("model", "head"):
        named = getattr(parent, part).named_parameters()
        trained |= {f"{part}.{name}": parameter for name, parameter in named}
    for name, parameter in objective.modules.named_parameters():
        if name in PER_NODE or name.startswith("model.encoder.") or name not in trained:
            continue
        if parameter.shape != trained[name].shape:
            raise InputError(
                f"{name} of the earlier model has the shape {list(trained[name].shape)}, but this "
                f"network needs {list(parameter.shape)}; train from scratch"
            )
        parameter.copy_(trained[name])


def _check_categories(fitted: Any, parent: Any) -> None:
    """Raise an InputError if the labels of edges, or the number of edge types, have changed."""
    now, before = (getattr(each.model.config, "edge_types", 1) for each in (fitted, parent))
    if now != before:
        raise InputError(
            f"{fitted.network.graph.path} has {now} edge types, but the earlier run was trained on "
            f"{before}; train from scratch"
        )
    if not isinstance(parent, FittedEdgeClassifier):
        return
    if parent.head.kind != fitted.head.kind or parent.label_names != fitted.label_names:
        raise InputError(
            f"{fitted.network.graph.path} has the labels {', '.join(fitted.label_names)} "
            f"({fitted.head.kind}), but the earlier run was trained on "
            f"{', '.join(parent.label_names)} ({parent.head.kind}); train from scratch"
        )


def _check_parts(fitted: Any, parent: Parent) -> None:
    """Raise an InputError if the earlier run was trained on edges that are now held out."""
    graph, split = fitted.network.graph, fitted.network.split
    facts, path = parent.network_facts, parent.network_path
    before, is_held_out = str(facts.get("split", split)), np.isin(graph.split(split), (VAL, TEST))
    is_same = path is not None and path.resolve() == graph.path.resolve()
    if is_same and facts.get("edges") == graph.num_edges and graph.has_split(before):
        was_trained = np.isin(graph.split(before), (TRAIN, PROFILE))
        if count := int((was_trained & is_held_out).sum()):
            raise InputError(
                f"the earlier run was trained with the split '{before}' on {count:,} of the "
                f"validation and test edges of the split '{split}', so scores would be inflated; "
                f"keep the split '{before}', or train from scratch"
            )
    is_later = any(can_roll(graph, split, part) for part in ("val", "test"))
    if not is_held_out.any() or not (is_later or facts.get("split_by_time")):
        return
    last = facts.get("last_training_time")
    if graph.times is None or not isinstance(last, int):
        untimed = f"{graph.path} has no times" if graph.times is None else "it recorded no times"
        raise InputError(
            f"the earlier run may have been trained on validation and test edges of the split "
            f"'{split}', since {untimed}; train from scratch"
        )
    if count := int((graph.times[is_held_out] < last).sum()):
        day = np.datetime64(last, "us").astype("datetime64[D]")
        raise InputError(
            f"the earlier run was trained on edges until {day}, and {count:,} of the "
            f"validation and test edges of the split '{split}' are earlier, so scores would be "
            "inflated; prepare a chronological split with a longer training part, or train from "
            "scratch"
        )


def choose_examples(objective: Objective, parent: Parent) -> tuple[Ids, Ids]:
    """A sample of the earlier training examples, and those that are new.

    The latest ones are new or, without times, the last of the table.
    """
    config, graph = objective.fitted.config.train, objective.fitted.network.graph
    train = objective.parts["train"]
    times = None if graph.times is None else graph.times[train]
    count = _count_new(times, len(train), parent.network_facts)
    ordered = train if times is None else train[np.argsort(times, kind="stable")]
    earlier, new = np.split(ordered, [len(train) - count])
    keys = hash_keys(config.seed, REPLAY, len(train), earlier)
    repeated = max(objective.batch_size, round(config.replay * count))
    return earlier[np.argsort(keys)[:repeated]], new


def _count_new(times: Ids | None, size: int, before: Mapping[str, Any]) -> int:
    """How many training examples are new: the growth of the training part, in most cases.

    If more are later than the earlier training, old ones were removed. Those of its last moment
    are then new too: it may have ended within a day.
    """
    parts = decode(dict[str, int], before.get("parts", {}), path="parts")
    growth = min(max(size - parts.get("train", 0), 0), size)
    last = before.get("last_training_time")
    if times is None or not isinstance(last, int) or (times > last).sum() <= growth:
        return growth
    return int((times >= last).sum())
