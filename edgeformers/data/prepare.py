"""`prepare`: from files, data frames, raw public dumps or named datasets to a network on disk."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, get_type_hints

import pyarrow as pa

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.readers.amazon import metadata_error, read_amazon_metadata
from edgeformers.data.readers.detect import FOLDER_FORMATS, RAW_READERS, detect_raw_format
from edgeformers.data.readers.dtgb import read_dtgb_entities
from edgeformers.data.readers.files import PathOrGlob, expand_paths
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.stackexchange import read_stackexchange_questions
from edgeformers.data.readers.tables import TABLE_FORMATS, read_edges, read_nodes
from edgeformers.data.recipes import load_recipe, prepare_recipe, recipe_names
from edgeformers.data.simulate import Simulation, simulate
from edgeformers.data.splits import DEFAULT_SPLITS, SplitConfig
from edgeformers.data.table import EdgeTable, LabelKind, NodeTable, OnError
from edgeformers.data.tokenize import checked_tokenizer
from edgeformers.decode import decode
from edgeformers.errors import ConfigError, InputError, suggest

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    Frame: TypeAlias = pd.DataFrame | pl.DataFrame | pl.LazyFrame | pa.Table

SIMULATED = "simulated"  # the name of the built-in network

NODE_READERS: Mapping[str, Callable[..., NodeTable]] = {
    "amazon-metadata": read_amazon_metadata,
    "dtgb": read_dtgb_entities,
    "stackexchange-posts": read_stackexchange_questions,
}


class PrepareOptions(TypedDict, total=False):
    """Less common keyword arguments of `prepare`."""

    split: str  # column with train, val or test; other splits: `splits`
    edge_type: str  # column
    weight: str  # column
    keep: Sequence[str]  # further columns to keep
    classes: Sequence[object]  # the labels that are allowed
    label_kind: LabelKind  # "class", "multi" or "number"
    label_separator: str  # between several labels of an edge
    format: str  # csv, tsv, jsonl, parquet or a raw format, if it is not recognized
    delimiter: str
    quote: str
    keep_isolated: bool  # keep nodes of `nodes` that have no edge
    progress: bool  # show progress bars
    num_edges: int  # of "simulated"
    seed: int  # of "simulated"


def prepare(
    data: "PathOrGlob | Sequence[PathOrGlob] | Frame | EdgeTable",
    out: str | PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    text: str | None = None,
    label: str | None = None,
    time: str | None = None,
    bipartite: bool = True,
    directed: bool = True,
    nodes: "PathOrGlob | Frame | NodeTable | Sequence[PathOrGlob | Frame | NodeTable]" = (),
    splits: Sequence[SplitConfig | str] | None = None,
    tokenizer: str | None = "auto",
    positive_labels: Sequence[str] = (),
    min_degree: int = 1,
    drop_repeats: bool = False,
    add: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    config: PrepareConfig | None = None,
    on_error: OnError = "stop",
    overwrite: bool = False,
    **options: Unpack[PrepareOptions],
) -> EdgeTextGraph:
    """Prepare a network from a table of edges, a raw public dump or a dataset of the paper.

    `data` is a path, a folder of shards, a glob, several of these, a pandas, polars or pyarrow
    frame, or an `EdgeTable`; or ["amazon-apps", "RAW.json.gz"] for a dataset of the paper; or
    "simulated" for the built-in network (with `num_edges` and `seed`).

    `source`, `target`, `text`, `label` and `time` name columns (the first three default to their
    own names). A raw public format, whose columns are known, is recognized by its contents. With
    `bipartite=False` sources and targets are nodes of one type. `nodes` are tables with labels
    and texts of nodes; use `read_nodes` to name their columns. The Amazon datasets of the paper
    take their node classes from the metadata file.

    `splits` are `SplitConfig`s or descriptions such as "link=per-source+new-pairs". `tokenizer`
    is "minilm", a folder, a name on the Hugging Face hub, "train:8000", or None to tokenize
    later. `positive_labels` are the labels of edges that count as links (default: all edges).
    `min_degree` keeps the k-core; `drop_repeats` keeps the first of identical edges. `add` are
    stores of a server: their edges follow those of `data`, from which nodes whose edges were
    removed are left out. A `config` is an alternative to these; arguments that differ from their
    defaults override it.

    `on_error="skip"` skips and counts unusable rows. See `PrepareOptions` for more arguments.
    """
    check_options(options)
    named = {"source": source, "target": target, "text": text, "label": label, "time": time}
    check_types(str, **named)
    check_types(bool, bipartite=bipartite, directed=directed, drop_repeats=drop_repeats)
    check_types(int, min_degree=min_degree)
    config = _override(
        config or PrepareConfig(),
        splits=_parse_splits(splits),
        tokenizer=tokenizer,
        positive_labels=[positive_labels] if isinstance(positive_labels, str) else positive_labels,
        min_degree=min_degree,
        drop_repeats=drop_repeats,
        add=[add] if isinstance(add, str | PathLike) else tuple(add),
        keep_isolated=options.pop("keep_isolated", False),
        progress=options.pop("progress", True),
    )
    checked_tokenizer(config.tokenizer)
    columns: dict[str, Any] = {name: column for name, column in named.items() if column is not None}
    columns |= {} if bipartite else {"bipartite": False}
    columns |= {} if directed else {"directed": False}
    columns |= options
    dataset, *raw_files = _dataset(data)
    if dataset is None:
        table = open_edges(data, on_error=on_error, **columns)
        tables = [open_nodes(node_data, on_error=on_error) for node_data in _as_list(nodes)]
        return write_network(table, out, nodes=tables, config=config, overwrite=overwrite)
    if dataset == SIMULATED:
        simulation = {name: columns.pop(name) for name in ("num_edges", "seed") if name in columns}
        _refuse_columns("the dataset simulated", **columns, nodes=_as_list(nodes))
        return prepare_simulated(out, config=config, overwrite=overwrite, **simulation)
    _refuse_columns(f"the dataset {dataset}", **columns)
    if config.add:
        raise InputError(
            f"the dataset {dataset} is prepared as it was published; leave out `add=`, or name the "
            "columns of its table"
        )
    recipe = load_recipe(dataset)
    tables = [
        open_nodes(node_data, on_error=on_error, classes=recipe.node_classes)
        for node_data in _as_list(nodes)
    ]
    return prepare_recipe(
        recipe, raw_files, out, config, nodes=tables, on_error=on_error, overwrite=overwrite
    )


def prepare_simulated(
    out: str | PathLike[str],
    *,
    num_edges: int = 20_000,
    seed: int = 0,
    config: PrepareConfig | None = None,
    overwrite: bool = False,
) -> EdgeTextGraph:
    """Prepare the built-in network of reviews; its notes contain the best achievable scores."""
    simulation = simulate(num_edges=num_edges, seed=seed)
    return write_simulation(simulation, out, config or PrepareConfig(), overwrite=overwrite)


def write_simulation(
    simulation: Simulation,
    out: str | PathLike[str],
    config: PrepareConfig,
    *,
    overwrite: bool = False,
) -> EdgeTextGraph:
    """Prepare a simulated network; its notes contain the best achievable scores.

    Its links do not change with time, so its default splits are random.
    """
    splits = DEFAULT_SPLITS if config.splits is None else config.splits
    config = replace(
        config, splits=splits, notes=[*config.notes, *str(simulation.best_scores()).splitlines()]
    )
    nodes = [simulation.nodes]
    return write_network(simulation.table, out, nodes=nodes, config=config, overwrite=overwrite)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise a ConfigError if an argument is unknown, with the closest match, or of a wrong type."""
    known = PrepareOptions.__annotations__
    for name in options.keys() - known.keys():
        explicit = [p for p in inspect.signature(prepare).parameters if p != "options"]
        raise ConfigError(f"prepare has no argument '{name}'; {suggest(name, [*explicit, *known])}")
    for name, kind in get_type_hints(PrepareOptions).items():
        check_types(str if kind is LabelKind else kind, **{name: options.get(name)})


def check_types(kind: Any, **arguments: Any) -> None:
    """Raise a ConfigError if an argument is neither of a type nor None."""
    for name, value in arguments.items():
        plain = list(value) if isinstance(value, Iterable) and hasattr(value, "tolist") else value
        decode(kind | None, plain, path=f"`{name}=`", raises=ConfigError)


def open_edges(
    data: Any, *, format: str | None = None, on_error: OnError = "stop", **columns: Any
) -> EdgeTable:
    """Edges from a table whose columns are named, or from a raw public format."""
    if isinstance(data, EdgeTable):
        _refuse_columns("an EdgeTable", format=format, **columns)
        return data
    for name in columns.keys() & {"num_edges", "seed"}:
        raise ConfigError(f"`{name}=` is an argument for '{SIMULATED}' only")
    raw = read_raw_edges(data, format=format, on_error=on_error, **columns)
    return raw or read_edges(data, format=format, on_error=on_error, **columns)


def read_raw_edges(
    data: Any, *, format: str | None = None, on_error: OnError = "stop", **columns: Any
) -> EdgeTable | None:
    """Edges from a raw public format, given or recognized; None for a table.

    Data whose columns are named is a table.
    """
    if format is not None and format in RAW_READERS:
        _refuse_columns(f"the format {format}", **columns)
        if is_frame(data):
            raise InputError(f"the format {format} is read from files (got a data frame)")
        return _read_raw(format, expand_paths(data), on_error)
    if format is not None and format not in TABLE_FORMATS:
        formats = [*TABLE_FORMATS, *RAW_READERS]
        raise InputError(f"unknown format '{format}'; {suggest(format, formats)}")
    if format is not None or columns.keys() & {"source", "target", "text"} or is_frame(data):
        return None
    paths = expand_paths(data)
    raw = detect_raw_format(paths[0])
    if raw == "amazon-metadata":
        raise metadata_error(paths[0])
    if raw is None:
        return None
    _refuse_columns(f"{paths[0]}, recognized as {raw},", **columns)
    return _read_raw(raw, paths, on_error)


def _read_raw(raw: str, paths: Sequence[Path], on_error: OnError) -> EdgeTable:
    """Edges from the files of a raw format, or from its folder."""
    if len(paths) > 1 and raw in FOLDER_FORMATS:
        raise InputError(
            f"{paths[0]} and {paths[1]}: a network of the format {raw} is a single folder; prepare "
            "each folder separately"
        )
    return RAW_READERS[raw](paths[0] if len(paths) == 1 else paths, on_error=on_error)


def open_nodes(
    data: Any, *, on_error: OnError = "stop", classes: Collection[str] = (), **columns: Any
) -> NodeTable:
    """A node table from a file or frame whose columns are named, or from a raw public format.

    `classes` are the labels to take from Amazon metadata.
    """
    if isinstance(data, NodeTable):
        return data
    if columns.keys() <= {"side"} and not is_frame(data):
        raw = detect_raw_format(expand_paths(data)[0])
        if raw is not None and raw in NODE_READERS:
            chosen = {"classes": classes} if classes and raw == "amazon-metadata" else {}
            return NODE_READERS[raw](data, on_error=on_error, **chosen)
    return read_nodes(data, on_error=on_error, **columns)


def _override(config: PrepareConfig, **settings: Any) -> PrepareConfig:
    """The config with those settings that differ from their defaults."""
    defaults = PrepareConfig()
    changed = {name: v for name, v in settings.items() if v != getattr(defaults, name)}
    return replace(config, **changed)


def _parse_splits(splits: Sequence[SplitConfig | str] | None) -> list[SplitConfig] | None:
    if splits is None:
        return None
    several: list[Any] = list(splits) if isinstance(splits, list | tuple) else [splits]
    if not all(isinstance(split, str | SplitConfig) for split in several):
        raise ConfigError(
            f"`splits=` lists SplitConfigs or descriptions such as 'per-source' (got {splits!r})"
        )
    return [SplitConfig.parse(split) if isinstance(split, str) else split for split in several]


def _as_list(nodes: Any) -> list[Any]:
    return list(nodes) if isinstance(nodes, list | tuple) else [nodes]


def _dataset(data: Any) -> tuple[str | None, *tuple[PathOrGlob, ...]]:
    """The name of a dataset and its raw files, or (None,) for files and tables of the user."""
    if isinstance(data, EdgeTable) or is_frame(data):
        return (None,)
    paths = [data] if isinstance(data, str | PathLike) else data
    if not isinstance(paths, list | tuple) or not all(isinstance(p, str | PathLike) for p in paths):
        raise InputError(
            "prepare reads files, pandas, polars and pyarrow frames, and EdgeTables "
            f"(got {type(data).__name__})"
        )
    datasets = [SIMULATED, *recipe_names()]
    first = paths[0] if paths else None
    if not isinstance(first, str):
        return (None,)
    if first in datasets:
        return first, *paths[1:]
    matches = get_close_matches(first, datasets, n=1)
    if matches and not Path(first).exists():
        raise InputError(
            f"{first}: no such file or dataset; did you mean '{matches[0]}'? "
            f"The datasets are {', '.join(datasets)}"
        )
    return (None,)


def _refuse_columns(what: str, **arguments: Any) -> None:
    """Raise an error if arguments are given that would have no effect."""
    unused = [
        f"`{name}={'' if value is not False else value}`"
        for name, value in arguments.items()
        if value not in (None, [])
    ]
    if unused:
        raise InputError(
            f"{what} has its own columns; leave out {', '.join(unused)} "
            "(for a table, also name its source, target and text columns)"
        )
