"""The paper's five datasets as named recipes: from published raw files to networks."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from os import PathLike
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.readers.detect import RAW_READERS
from edgeformers.data.readers.files import PathOrGlob
from edgeformers.data.splits import TRAIN, SplitConfig
from edgeformers.data.table import BATCH_ROWS, EdgeTable, NodeTable, OnError, edge_schema
from edgeformers.data.types import Side
from edgeformers.errors import InputError, suggest

NEAR = 0.01  # by which counts of another draw of the splits may differ, relatively

_JOIN_SQL = """
SELECT source, target, string_agg(text, ' ' ORDER BY time, row) AS text, min(time) AS time
FROM comments SEMI JOIN (
    SELECT target FROM comments GROUP BY target HAVING count(DISTINCT source) >= ?
) USING (target)
GROUP BY source, target
ORDER BY min(row)
"""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a dataset of the paper is made, and the counts published for it.

    The raw file and the rules determine `counts`. Those in `near` were published for one random
    draw of the splits; another draw gives similar numbers.
    """

    name: str
    title: str
    file: str  # the published name of the raw file
    about: str
    reader: str
    labels: tuple[str, ...]  # classes of edge classification, in order
    positive_labels: tuple[str, ...]  # labels of positive links; empty: all edges
    neighbors: Mapping[Side, tuple[int, ...]]  # sampled per side: positive, then negative edges
    splits: tuple[SplitConfig, ...]
    counts: Mapping[str, int]
    near: Mapping[str, int | str]
    node_file: str = ""  # the published name of the file with node labels
    node_classes: tuple[str, ...] = ()  # classes of node classification
    join_texts: bool = False
    min_sources_per_target: int = 1

    def read(
        self, paths: PathOrGlob | Iterable[PathOrGlob], on_error: OnError = "stop"
    ) -> EdgeTable:
        """The edges of the dataset from its raw file, in the order of the file."""
        table = RAW_READERS[self.reader](paths, on_error=on_error)
        if self.join_texts:
            table = join_texts(table, self.min_sources_per_target)
        return replace(table, open=lambda: map(_one_line_texts, table.open()))

    def check(self, counts: Mapping[str, int]) -> list[str]:
        """Compare counts with the published ones; returns notes on differences.

        Nothing is compared if the number of edges differs, as for another raw file. Otherwise a
        difference in `counts` is an InputError.
        """
        expected = self.counts["edges"]
        num_edges = counts.get("edges")
        if num_edges != expected:
            size = "of unknown size" if num_edges is None else f"of {num_edges:,} edges"
            return [
                f"{self.name}: the published counts were not checked: they are for {expected:,} "
                f"edges from {self.file}, and this is a network {size}"
            ]
        wrong = [
            f"{key} should be {self.counts[key]:,} and is {count:,}"
            for key, count in counts.items()
            if key in self.counts and count != self.counts[key]
        ]
        if wrong:
            raise InputError(
                f"{self.name}: {'; '.join(wrong)}. The number of edges is as published, so the "
                f"raw file was changed or read by other rules; download {self.file} again"
            )
        return [
            f"{self.name}: {key} is {counts[key]:,}; published for another draw of the "
            f"split: {published if isinstance(published, str) else format(published, ',')}"
            for key, published in self.near.items()
            if key in counts and counts[key] != published
        ]

    def matches(self, counts: Mapping[str, int]) -> bool:
        """Whether a network has all the published counts; those in `near` may differ by 1 %."""
        near = {key: count for key, count in self.near.items() if isinstance(count, int)}
        return all(
            abs(counts.get(key, -1) - count) <= (NEAR * count if key in near else 0)
            for key, count in {**self.counts, **near}.items()
        )


def prepare_recipe(
    recipe: Recipe,
    paths: Sequence[PathOrGlob],
    out: str | PathLike[str],
    config: PrepareConfig,
    *,
    nodes: Sequence[NodeTable] = (),
    on_error: OnError = "stop",
    overwrite: bool = False,
) -> EdgeTextGraph:
    """Prepare a dataset of the paper from its raw file and check the published counts."""
    if not paths:
        raise InputError(
            f"the recipe {recipe.name} needs its raw file {recipe.file} ({recipe.about}): "
            f"edgeformers prepare {recipe.name} RAW -o {out}"
        )
    notes = [f"the paper's dataset {recipe.title}: {recipe.about}"]
    if recipe.node_file and not nodes:
        notes.append(f"no node labels; for node classification add --nodes {recipe.node_file}")
    own_splits = config.splits is not None  # nothing was published for these
    config = replace(
        config,
        splits=config.splits if own_splits else recipe.splits,
        positive_labels=recipe.positive_labels,
        neighbors={side: list(sizes) for side, sizes in recipe.neighbors.items()},
        notes=[*config.notes, *notes],
        check=lambda graph: recipe.check(published_counts(graph, splits=not own_splits)),
    )
    table = recipe.read(paths, on_error)
    return write_network(table, out, nodes=nodes, config=config, overwrite=overwrite)


def published_counts(graph: EdgeTextGraph, *, splits: bool = True) -> dict[str, int]:
    """Counts of a network and its splits, under the names used in recipes."""
    counts = {
        "edges": graph.num_edges,
        "sources": graph.num_sources,
        "targets": graph.num_targets,
    }
    if graph.label_kind == "class" and graph.labels is not None:
        per_class = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.label_names))
        pairs = zip(graph.label_names, per_class, strict=True)
        counts |= {f"label:{name}": int(count) for name, count in pairs}
    for name, split in graph.meta.splits.items() if splits else ():
        kept = {part: split["counts"][part] for part in ("train", "val", "test")}
        counts |= {f"{name}:{part}": split["counts_before_drop"][part] for part in kept}
        counts |= {f"{name}:{part}:kept": count for part, count in kept.items()}
        counts[f"{name}:kept"] = sum(kept.values())
        training = graph.split(name) == TRAIN
        for side, ends in (("sources", graph.src), ("targets", graph.dst)):
            counts[f"{name}:train:{side}"] = len(np.unique(ends[training]))
    if splits and "link" in graph.meta.splits:
        drops_sources = graph.meta.splits["link"]["config"]["unseen"] == "drop_source"
        # The paper counts all nodes of one side, and those with a training edge of the other.
        kept_side, cut_side = ("targets", "sources") if drops_sources else ("sources", "targets")
        counts["nodes"] = counts[kept_side] + counts[f"link:train:{cut_side}"]
    return counts


def recipe_names() -> list[str]:
    """The names of all recipes, in the order of the paper."""
    return list(_recipes())


def load_recipe(name: str) -> Recipe:
    """The recipe of a dataset of the paper."""
    recipes = _recipes()
    if name not in recipes:
        raise InputError(f"unknown recipe '{name}'; {suggest(name, recipes)}")
    return recipes[name]


def join_texts(table: EdgeTable, min_sources: int = 1) -> EdgeTable:
    """One edge per source and target, with its texts joined in time order and the first time.

    Targets with fewer than `min_sources` distinct sources are dropped. Edges are in the order of
    their first rows. Rows are stored in a temporary file, so they need not fit in memory.
    """
    schema = edge_schema(("time",))

    def batches() -> Iterator[pa.RecordBatch]:
        import duckdb

        with (
            TemporaryDirectory(prefix="edgeformers-") as folder,
            duckdb.connect(f"{folder}/comments.duckdb") as connection,
        ):
            connection.execute(
                "CREATE TABLE comments "
                "(row BIGINT, source VARCHAR, target VARCHAR, text VARCHAR, time TIMESTAMP)"
            )
            rows = 0
            for batch in table.open():
                numbers = pa.array(np.arange(rows, rows + batch.num_rows))
                numbered = batch.select(schema.names).add_column(0, "row", numbers)
                connection.register("batch", pa.table(numbered))
                connection.execute("INSERT INTO comments SELECT * FROM batch")
                rows += batch.num_rows
            joined = connection.sql(_JOIN_SQL, params=[min_sources]).to_arrow_reader(BATCH_ROWS)
            yield from (batch.cast(schema) for batch in joined)

    return replace(table, schema=schema, open=batches, place=None)


def _one_line_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace line breaks and tabs by spaces."""
    column = batch.schema.get_field_index("text")
    texts = pc.replace_substring_regex(batch.column(column), r"[\r\n\t]", " ")
    return batch.set_column(column, batch.schema.field(column), texts)


@cache
def _recipes() -> dict[str, Recipe]:
    text = files("edgeformers.data").joinpath("paper_datasets.toml").read_text("utf-8")
    return {name: _parse_recipe(name, **values) for name, values in tomllib.loads(text).items()}


def _parse_recipe(
    name: str, splits: Mapping[str, dict[str, Any]], neighbors: Any, positive: Any, **values: Any
) -> Recipe:
    return Recipe(
        name=name,
        labels=tuple(values.pop("labels")),
        node_classes=tuple(values.pop("node_classes", ())),
        positive_labels=tuple(positive),
        neighbors={side: tuple(numbers) for side, numbers in neighbors.items()},
        splits=tuple(SplitConfig.from_dict({"name": n, **rule}) for n, rule in splits.items()),
        **values,
    )
