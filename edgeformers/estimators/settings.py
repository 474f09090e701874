"""The settings of a run: recipe, defaults of its model, a file, single settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeformers.config import PAPER_RECIPES, RunConfig, Task, make_config
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import ConfigError
from edgeformers.registry import MODELS, ModelEntry, find_entry

#: The default model of each task.
DEFAULT_MODELS: Mapping[Task, str] = {
    "edge-classification": "edgeformer-e",
    "link-prediction": "edgeformer-n",
}
#: Positive and negative edges sampled around a node by the paper's recipes, unless the network has
#: numbers of its own: those of the paper's largest network, Amazon-Movie.
PAPER_NEIGHBORS: Mapping[str, list[int]] = {"source": [8, 8], "target": [10, 10]}
ENCODED: Mapping[Task, str] = {"edge-classification": "edges", "link-prediction": "nodes"}


def run_config(
    task: Task,
    recipe: str | None = None,
    *,
    file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    graph: EdgeTextGraph | None = None,
) -> RunConfig:
    """Settings from a recipe, a network, the model in `model.name`, a TOML file, single settings.

    Later ones override earlier ones.
    """
    config = make_config(task, recipe, file=file, settings=settings)
    entry = find_model(config)
    defaults = {} if graph is None else network_settings(config, graph)
    defaults |= {**entry.settings, **({} if config.recipe in PAPER_RECIPES else entry.tuned)}
    return make_config(task, recipe, file=file, settings=settings, model_settings=defaults)


def network_settings(config: RunConfig, graph: EdgeTextGraph) -> dict[str, Any]:
    """What the paper's recipes take from a network for links: strata and numbers of neighbors.

    Positive and negative edges are sampled separately if only some labels count as links.
    """
    sizes = graph.meta.neighbors or (PAPER_NEIGHBORS if graph.meta.positive_labels else {})
    if config.recipe not in PAPER_RECIPES or config.task != "link-prediction" or not sizes:
        return {}
    settings: dict[str, Any] = {f"data.{side}_neighbors": sizes[side] for side in sizes}
    return settings | {"data.strata": "positive" if len(sizes["source"]) == 2 else "none"}


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
