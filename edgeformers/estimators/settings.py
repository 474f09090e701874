"""Which model a run trains, and what that model wants of the run's settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeformers.config import RunConfig, Task, make_config
from edgeformers.errors import ConfigError
from edgeformers.registry import MODELS, ModelEntry, find_entry

#: The model of a task where none is named.
DEFAULT_MODELS: Mapping[Task, str] = {
    "edge-classification": "edgeformer-e",
    "link-prediction": "edgeformer-n",
}
ENCODED: Mapping[Task, str] = {"edge-classification": "edges", "link-prediction": "nodes"}


def run_config(
    task: Task,
    recipe: str | None = None,
    *,
    file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> RunConfig:
    """A recipe, what the model named in `model.name` wants, a TOML file, and single settings.

    Each stands over those before it; the result says all that a run needs.
    """
    asked = make_config(task, recipe, file=file, settings=settings)
    entry = find_model(asked)
    wants = {**entry.settings, **({} if asked.recipe == "paper" else entry.tuned)}
    return make_config(task, recipe, file=file, settings=settings, model_settings=wants)


def chosen_name(config: RunConfig) -> str:
    """The name of the model of a run."""
    return config.model.name or DEFAULT_MODELS[config.task]


def find_model(config: RunConfig) -> ModelEntry:
    """The entry of the model of a run; one that encodes something else is refused."""
    name, wanted = chosen_name(config), ENCODED[config.task]
    entry = find_entry(name)
    if entry.encodes != wanted:
        others = ", ".join(other for other, one in MODELS.items() if one.encodes == wanted)
        raise ConfigError(
            f"{config.task} needs a model of {wanted}, and '{name}' is a model of "
            f"{entry.encodes}; available: {others}"
        )
    return entry
