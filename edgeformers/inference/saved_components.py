"""The components that are saved with a model."""

from collections.abc import Mapping

from torch import Tensor

from edgeformers.errors import FormatError
from edgeformers.inference.components import (
    ActivityComponent,
    ALSComponent,
    EASEComponent,
    LightGCNComponent,
    ReciprocityComponent,
    ScoreComponent,
)
from edgeformers.inference.temporal_components import (
    NoveltyComponent,
    RecentHistoryComponent,
    RecentPopularityComponent,
)

_FITTED = (
    LightGCNComponent,
    ALSComponent,
    EASEComponent,
    ActivityComponent,
    ReciprocityComponent,
    RecentHistoryComponent,
    RecentPopularityComponent,
    NoveltyComponent,
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
