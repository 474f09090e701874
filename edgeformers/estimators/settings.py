"""The settings of a run: recipe, defaults of its model, a file, single settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeformers.config import PAPER_RECIPES, RunConfig, Task, make_config
from edgeformers.errors import ConfigError
from edgeformers.registry import MODELS, ModelEntry, find_entry

#: The default model of each task.
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
    """Settings from a recipe, the model named in `model.name`, a TOML file and single settings.

    Later ones override earlier ones.
    """
    config = make_config(task, recipe, file=file, settings=settings)
    entry = find_model(config)
    defaults = {**entry.settings, **({} if config.recipe in PAPER_RECIPES else entry.tuned)}
    return make_config(task, recipe, file=file, settings=settings, model_settings=defaults)


def chosen_name(config: RunConfig) -> str:
    """The name of the model of a run."""
    return config.model.name or DEFAULT_MODELS[config.task]


def find_model(config: RunConfig) -> ModelEntry:
    """The registry entry of a run's model, which must encode what the task needs."""
    name, encoded = chosen_name(config), ENCODED[config.task]
    entry = find_entry(name)
    if entry.encodes != encoded:
        others = ", ".join(other for other, e in MODELS.items() if e.encodes == encoded)
        raise ConfigError(
            f"{config.task} needs a model of {encoded}, but '{name}' is a model of "
            f"{entry.encodes}; available: {others}"
        )
    return entry
