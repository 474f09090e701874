"""The components that are saved with a model, and their weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.types import Ids
from edgeformers.errors import FormatError
from edgeformers.evaluation import DEGREES
from edgeformers.inference.audience import AudienceComponent
from edgeformers.inference.components import (
    ActivityComponent,
    ALSComponent,
    EASEComponent,
    LightGCNComponent,
    ReciprocityComponent,
    ScoreComponent,
)
from edgeformers.inference.novelty_preference import NoveltyPreferenceComponent
from edgeformers.inference.temporal_components import (
    FlatPopularityComponent,
    NoveltyComponent,
    RecentHistoryComponent,
    RecentPopularityComponent,
)
from edgeformers.inference.topics import TopicsComponent

#: Sources are weighted by their number of edges, in the groups of the evaluation report.
BOUNDS = tuple(low for low, _ in DEGREES.values() if low > 1)  # (4, 11)
GROUPS = len(BOUNDS) + 1
GROUP_NAMES = (
    *(f"{low} to {high - 1} edges" for low, high in pairwise((0, *BOUNDS))),
    f"{BOUNDS[-1]} edges or more",
)

_FITTED = (
    LightGCNComponent,
    ALSComponent,
    EASEComponent,
    ActivityComponent,
    ReciprocityComponent,
    RecentHistoryComponent,
    AudienceComponent,
    TopicsComponent,
    RecentPopularityComponent,
    FlatPopularityComponent,
    NoveltyComponent,
    NoveltyPreferenceComponent,
)
#: The components that are saved with a model, by name, in the order in which they are fitted.
COMPONENTS: Mapping[str, type[ScoreComponent]] = {
    component.name: component for component in _FITTED
}


def restore_component(name: str, tensors: Mapping[str, Tensor]) -> ScoreComponent:
    """The component that `tensors()` was saved from."""
    try:
        return COMPONENTS[name](**tensors)
    except (KeyError, TypeError) as error:
        raise FormatError(f"the saved model has an unknown score component '{name}'") from error


def degree_group(degrees: Ids) -> Ids:
    """Numbers of edges [n] -> degree groups [n], from 0 (few) to GROUPS - 1 (many)."""
    return np.digitize(degrees, BOUNDS)


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Components fitted next to a trained score, and the weights of both per degree group.

    Weights are chosen for a score that stays as it is fitted. If validation comes after training,
    there are also weights for a score that takes in edges as they come.

    Shapes: N nodes, P components, G degree groups.
    """

    components: Sequence[ScoreComponent]
    weights: Tensor  # [G, 1 + P], the trained score first
    group: Tensor  # [N], the degree group of each node
    rolling_weights: Tensor | None = None  # [G, 1 + P]

    def used(self, *, rolling: bool) -> "Ensemble":
        """Only the components that count with the weights of one kind, which become `weights`."""
        weights = self.weights
        if rolling and self.rolling_weights is not None:
            weights = self.rolling_weights
        used = [at for at in range(len(self.components)) if weights[:, at + 1].any()]
        return Ensemble(
            components=[self.components[at] for at in used],
            weights=weights[:, [0, *(at + 1 for at in used)]],
            group=self.group,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Named tensors, such as `ensemble.als.query`; `from_tensors` reads them."""
        saved = {"group": self.group, "text.weights": self.weights[:, 0]}
        if self.rolling_weights is not None:
            saved["text.rolling_weights"] = self.rolling_weights[:, 0]
        for at, component in enumerate(self.components, 1):
            saved[f"{component.name}.weights"] = self.weights[:, at]
            if self.rolling_weights is not None:
                saved[f"{component.name}.rolling_weights"] = self.rolling_weights[:, at]
            saved |= {f"{component.name}.{name}": t for name, t in component.tensors().items()}
        return {f"ensemble.{name}": tensor.clone() for name, tensor in saved.items()}

    @classmethod
    def from_tensors(cls, state: Mapping[str, Tensor], num_nodes: int) -> "Ensemble | None":
        """The ensemble of a saved head; None if it has none."""
        named = _starting_with("ensemble.", state)
        if not named:
            return None
        if "query" in named:
            named = _from_version_0_1(named)
        if "group" not in named or "text.weights" not in named:
            raise FormatError("the ensemble of the saved model is incomplete; train it again")
        weights, components = [named["text.weights"]], []
        rolling = [named["text.rolling_weights"]] if "text.rolling_weights" in named else []
        for name in COMPONENTS:
            if own := _starting_with(f"{name}.", named):
                weights.append(own.pop("weights"))
                if rolling:
                    rolling.append(own.pop("rolling_weights"))
                components.append(restore_component(name, own))
                components[-1].check(num_nodes)
        stacked, group = torch.stack(weights, 1).float(), named["group"].long()
        rolled = torch.stack(rolling, 1).float() if rolling else None
        has_shape = all(w is None or w.shape == (GROUPS, len(weights)) for w in (stacked, rolled))
        if not has_shape or group.shape != (num_nodes,):
            raise FormatError("the weights of the ensemble do not fit the network; train it again")
        if num_nodes and not 0 <= int(group.min()) <= int(group.max()) < GROUPS:
            raise FormatError("the ensemble has an unknown group of sources; train it again")
        return cls(components=components, weights=stacked, group=group, rolling_weights=rolled)


def _starting_with(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _from_version_0_1(old: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of an ensemble saved by version 0.1, under their current names.

    It kept the vectors of all components side by side, scaled, and named components by how they
    fold in a new source: `new.0_averaged.left`. Here the scale is part of the weights.
    """
    kinds: dict[str, dict[str, Tensor]] = {}
    for name, tensor in sorted(_starting_with("new.", old).items()):
        place, buffer = name.split(".")
        kinds.setdefault(place, {})[buffer] = tensor
    missing = {"key", "weights", "group"} - old.keys()
    if missing:
        raise FormatError(f"the saved ensemble lacks {', '.join(sorted(missing))}; train it again")
    named = {"group": old["group"], "text.weights": old["weights"][:, 0]}
    start = 0
    for at, (place, own) in enumerate(kinds.items(), 1):
        stop, scale = start + own["left"].size(1), own["scale"].double()
        name = _component_of_0_1(place.partition("_")[2], own["left"])
        named[f"{name}.weights"] = (old["weights"][:, at] * scale).float()
        named[f"{name}.query"] = (old["query"][:, start:stop] / scale).float()
        named[f"{name}.key"] = old["key"][:, start:stop]
        kept = {"als": ("gram", "alpha"), "ease": ("left",)}.get(name, ())
        named |= {f"{name}.{buffer}": own[buffer] for buffer in kept}
        start = stop
    if "returned.amount" in old:
        named["reciprocity.weights"] = old["returned.amount"]
        named |= {f"reciprocity.{part}": old[f"returned.{part}"] for part in ("offsets", "nodes")}
    return named


def _component_of_0_1(fold_in: str, left: Tensor) -> str:
    if fold_in == "averaged":  # activity profiles are shares; vectors of LightGCN have any sign
        return "activity_profiles" if (left >= 0).all() else "lightgcn"
    return {"solved": "als", "summed": "ease"}[fold_in]
