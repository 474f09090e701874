"""From whatever the user has to a network on disk: recognise it, read it, write it, check it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.readers.amazon import read_amazon_metadata
from edgeformers.data.readers.detect import RAW_READERS, detect_raw_format
from edgeformers.data.readers.files import PathOrGlob, expand_paths
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.stackexchange import read_stackexchange_questions
from edgeformers.data.readers.tables import TABLE_FORMATS, read_edges, read_nodes
from edgeformers.data.recipes import Recipe, load_recipe, recipe_names
from edgeformers.data.simulate import simulate
from edgeformers.data.splits import TRAIN
from edgeformers.data.table import EdgeTable, NodeTable, OnError
from edgeformers.data.tokenize import checked_tokenizer
from edgeformers.errors import InputError, suggest

SIMULATED = "simulated"  # the built-in network, by the name a dataset would have

NODE_READERS: Mapping[str, Callable[..., NodeTable]] = {
    "amazon-metadata": read_amazon_metadata,
    "stackexchange-posts": read_stackexchange_questions,
}


@dataclass(frozen=True, kw_only=True)
class NodeSource:
    """A table that tells more of nodes: a raw public format, or columns named here."""

    path: str
    columns: Mapping[str, Any]  # arguments of read_nodes


def prepare(
    data: Any,
    out: str | PathLike[str],
    *,
    format: str | None = None,
    nodes: Sequence[NodeSource] = (),
    config: PrepareConfig | None = None,
    on_error: OnError = "stop",
    overwrite: bool = False,
    **columns: Any,
) -> EdgeTextGraph:
    """Prepare a network from files, a frame, a raw public dump or a dataset of the paper.

    `data` is a path, a glob, several, or a data frame; or ["amazon-apps", "RAW.json.gz"] for a
    recipe of the paper; or "simulated" for the built-in network. `columns` are the arguments of
    `read_edges`; without any, a raw public format is recognised by its contents.
    """
    config = config or PrepareConfig()
    checked_tokenizer(config.tokenizer)
    name = _dataset_name(data)
    if name is not None:
        own = {"num_edges", "seed"} if name == SIMULATED else set()
        others = {key: value for key, value in columns.items() if key not in own}
        _refuse(f"the dataset {name}", nodes=nodes, format=format, **others)
    if name == SIMULATED:
        return prepare_simulated(out, config=config, overwrite=overwrite, **columns)
    if name is not None:
        raw = [] if isinstance(data, str) else list(data)[1:]
        return _prepare_recipe(load_recipe(name), raw, out, config, on_error, overwrite)
    table = open_edges(data, format=format, on_error=on_error, **columns)
    tables = [open_nodes(one, on_error=on_error) for one in nodes]
    return write_network(table, out, nodes=tables, config=config, overwrite=overwrite)


def prepare_simulated(
    out: str | PathLike[str],
    *,
    num_edges: int = 20_000,
    seed: int = 0,
    config: PrepareConfig | None = None,
    overwrite: bool = False,
) -> EdgeTextGraph:
    """Prepare the built-in network, whose best achievable scores are known and noted."""
    simulation = simulate(num_edges=num_edges, seed=seed)
    config = config or PrepareConfig()
    config = replace(config, notes=[*config.notes, *str(simulation.best_scores()).splitlines()])
    nodes = [simulation.nodes]
    return write_network(simulation.table, out, nodes=nodes, config=config, overwrite=overwrite)


def open_edges(
    data: Any, *, format: str | None = None, on_error: OnError = "stop", **columns: Any
) -> EdgeTable:
    """Edges from a table whose columns are named, or from a raw public format."""
    if format is not None and format in RAW_READERS:
        _refuse(f"the format {format}", **columns)
        return RAW_READERS[format](data, on_error=on_error)
    if format is not None and format not in TABLE_FORMATS:
        known = [*TABLE_FORMATS, *RAW_READERS]
        raise InputError(f"there is no format '{format}'; {suggest(format, known)}")
    named = columns.keys() & {"source", "target", "text"}
    if format is None and not named and not is_frame(data):
        paths = expand_paths(data)
        raw = detect_raw_format(paths[0])
        if raw is not None and raw in RAW_READERS:
            _refuse(f"{paths[0]}, recognised as {raw},", **columns)
            return RAW_READERS[raw](paths[0] if len(paths) == 1 else paths, on_error=on_error)
        if raw is not None:
            raise InputError(f"{paths[0]} is {raw}, which tells of nodes; give it with --nodes")
    return read_edges(data, format=format, on_error=on_error, **columns)


def open_nodes(source: NodeSource, *, on_error: OnError = "stop") -> NodeTable:
    """What is known of nodes, from a table whose columns are named or a raw public format."""
    named = {name: value for name, value in source.columns.items() if name != "side"}
    raw = None if named else detect_raw_format(expand_paths(source.path)[0])
    if raw is not None and raw in NODE_READERS:
        return NODE_READERS[raw](source.path, on_error=on_error)
    return read_nodes(source.path, on_error=on_error, **source.columns)


def _dataset_name(data: Any) -> str | None:
    """The dataset that `data` begins with, if it is one; a misspelt one is named."""
    if is_frame(data):
        return None
    first = data if isinstance(data, str | PathLike) else next(iter(data), None)
    known = [SIMULATED, *recipe_names()]
    if not isinstance(first, str):
        return None
    if first in known:
        return first
    close = get_close_matches(first, known, n=1)
    if close and not Path(first).exists():
        raise InputError(
            f"{first}: there is no such dataset or file; did you mean '{close[0]}'? "
            f"The datasets are {', '.join(known)}"
        )
    return None


def _refuse(what: str, **given: Any) -> None:
    """What names its own columns takes no others: say so instead of passing over them."""
    if named := [f"--{name.replace('_', '-')}" for name, value in given.items() if value]:
        raise InputError(
            f"{what} has columns of its own; leave out {', '.join(named)}, "
            "or name --source, --target and --text of a table too"
        )


def published_counts(graph: EdgeTextGraph, *, splits: bool = True) -> dict[str, int]:
    """Counts of a network, and of its splits, under the names that a recipe has for them."""
    counts = {
        "edges": graph.num_edges,
        "sources": graph.num_sources,
        "targets": graph.num_targets,
    }
    if graph.label_kind == "class" and graph.labels is not None:
        per_class = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.label_names))
        pairs = zip(graph.label_names, per_class, strict=True)
        counts |= {f"label:{name}": int(count) for name, count in pairs}
    for name, described in graph.meta.splits.items() if splits else ():
        kept = {part: described["counts"][part] for part in ("train", "val", "test")}
        counts |= {f"{name}:{part}": described["counts_before_drop"][part] for part in kept}
        counts |= {f"{name}:{part}:kept": count for part, count in kept.items()}
        counts[f"{name}:kept"] = sum(kept.values())
        training = graph.split(name) == TRAIN
        for side, ends in (("sources", graph.src), ("targets", graph.dst)):
            counts[f"{name}:train:{side}"] = len(np.unique(ends[training]))
    if splits and "link" in graph.meta.splits:
        counts["nodes"] = _paper_nodes(graph, counts)
    return counts


def _paper_nodes(graph: EdgeTextGraph, counts: Mapping[str, int]) -> int:
    """Nodes as the paper counts them: one side whole, of the other those seen in training."""
    if graph.meta.splits["link"]["config"]["unseen"] == "drop_source":
        return counts["targets"] + counts["link:train:sources"]
    return counts["sources"] + counts["link:train:targets"]


def _prepare_recipe(
    recipe: Recipe,
    paths: Sequence[PathOrGlob],
    out: str | PathLike[str],
    config: PrepareConfig,
    on_error: OnError,
    overwrite: bool,
) -> EdgeTextGraph:
    if not paths:
        raise InputError(
            f"the recipe {recipe.name} needs its raw file {recipe.file} ({recipe.about}); "
            f"name it: edgeformers prepare {recipe.name} RAW -o {out}"
        )
    own_splits = config.splits is not None  # nothing was published for these

    def check(graph: EdgeTextGraph) -> list[str]:
        return recipe.check(published_counts(graph, splits=not own_splits))

    config = replace(
        config,
        splits=config.splits if own_splits else recipe.splits,
        positive_labels=recipe.positive_labels,
        neighbors={side: list(sizes) for side, sizes in recipe.neighbors.items()},
        notes=[*config.notes, f"the paper's dataset {recipe.title}: {recipe.about}"],
        check=check,
    )
    return write_network(recipe.read(paths, on_error), out, config=config, overwrite=overwrite)
