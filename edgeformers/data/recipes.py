"""The paper's five datasets as named recipes: from the published raw files to edges and splits."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.detect import RAW_READERS
from edgeformers.data.readers.files import PathOrGlob
from edgeformers.data.splits import SplitConfig
from edgeformers.data.table import BATCH_ROWS, EdgeTable, OnError, edge_schema
from edgeformers.errors import InputError, require, suggest

Side = Literal["source", "target"]

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
    """How one dataset of the paper is made, and the counts published for it.

    `counts` follow from the raw file and the rules; those in `near` were published for one draw
    of the splits, and another comes near them without being equal.
    """

    name: str
    title: str
    file: str  # the published name of the raw file
    about: str
    reader: str
    labels: tuple[str, ...]  # classes of edge classification, in order
    positive_labels: tuple[str, ...]  # edges that are positive links; empty: every edge is
    neighbors: Mapping[Side, tuple[int, ...]]  # sampled per side: positive, then negative edges
    splits: tuple[SplitConfig, ...]
    counts: Mapping[str, int]
    near: Mapping[str, int | str]
    join_texts: bool = False
    min_sources_per_target: int = 1

    def read(
        self, paths: PathOrGlob | Iterable[PathOrGlob], on_error: OnError = "stop"
    ) -> EdgeTable:
        """The dataset's edges from its raw file, in the order of the file."""
        table = RAW_READERS[self.reader](paths, on_error=on_error)
        if self.join_texts:
            table = join_texts(table, self.min_sources_per_target)
        return replace(table, open=lambda: map(_one_line_texts, table.open()))

    def check(self, counts: Mapping[str, int]) -> list[str]:
        """Compare counts of what was read with the published ones; what is worth saying of it.

        A count that the raw file settles and that differs is an InputError. Where the raw file
        has another size than the published one, nothing is compared.
        """
        expected = self.counts["edges"]
        got = counts.get("edges")
        if got != expected:
            met = "of unknown size" if got is None else f"of {got:,} edges"
            return [
                f"{self.name}: the published counts were not checked: they belong to {expected:,} "
                f"edges made from {self.file}, and this is a network {met}"
            ]
        wrong = [
            f"{key} should be {self.counts[key]:,} and is {count:,}"
            for key, count in counts.items()
            if key in self.counts and count != self.counts[key]
        ]
        if wrong:
            raise InputError(
                f"{self.name}: {'; '.join(wrong)}. The number of edges is the published one, so "
                f"the raw file was changed or read by other rules; fetch {self.file} again"
            )
        return [
            f"{self.name}: {key} is {counts[key]:,}; published for another draw of the "
            f"split: {published if isinstance(published, str) else format(published, ',')}"
            for key, published in self.near.items()
            if key in counts and counts[key] != published
        ]


def recipe_names() -> list[str]:
    """The names `load_recipe` knows, in the order of the paper."""
    return list(_recipes())


def load_recipe(name: str) -> Recipe:
    """The recipe of one of the paper's datasets."""
    recipes = _recipes()
    if name not in recipes:
        raise InputError(f"there is no recipe '{name}'; {suggest(name, recipes)}")
    return recipes[name]


def join_texts(table: EdgeTable, min_sources: int = 1) -> EdgeTable:
    """One edge per source and target: its texts joined in time order, at the first one's time.

    Only targets with at least `min_sources` distinct sources are kept. An edge stands where the
    first of its rows stood. The rows are laid down on disk, so they need not fit in memory.
    """
    schema = edge_schema(("time",))

    def batches() -> Iterator[pa.RecordBatch]:
        with TemporaryDirectory(prefix="edgeformers-") as folder:
            yield from _joined(table, min_sources, schema, Path(folder))

    return replace(table, schema=schema, open=batches)


def _joined(
    table: EdgeTable, min_sources: int, schema: pa.Schema, folder: Path
) -> Iterator[pa.RecordBatch]:
    connection = require("duckdb", "data").connect(str(folder / "comments.duckdb"))
    with connection:
        connection.execute(
            "CREATE TABLE comments "
            "(row BIGINT, source VARCHAR, target VARCHAR, text VARCHAR, time TIMESTAMP)"
        )
        rows = 0
        for batch in table.open():
            numbers = pa.array(np.arange(rows, rows + batch.num_rows))
            columns = [batch.column(name) for name in schema.names]
            arrow = pa.table([numbers, *columns], names=["row", *schema.names])
            connection.register("arriving", arrow)
            connection.execute("INSERT INTO comments SELECT * FROM arriving")
            rows += batch.num_rows
        joined = connection.sql(_JOIN_SQL, params=[min_sources]).to_arrow_reader(BATCH_ROWS)
        for batch in joined:
            yield batch.cast(schema)


def _one_line_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Line breaks and tabs become blanks."""
    at = batch.schema.get_field_index("text")
    texts = pc.replace_substring_regex(batch.column(at), r"[\r\n\t]", " ")
    return batch.set_column(at, batch.schema.field(at), texts)


@cache
def _recipes() -> dict[str, Recipe]:
    text = files("edgeformers.data").joinpath("paper_datasets.toml").read_text("utf-8")
    return {name: _recipe(name, given) for name, given in tomllib.loads(text).items()}


def _recipe(name: str, given: dict[str, Any]) -> Recipe:
    splits = (
        SplitConfig(name=split, **rule | {"fractions": tuple(rule["fractions"])})
        for split, rule in given.pop("splits").items()
    )
    neighbors = {side: tuple(numbers) for side, numbers in given.pop("neighbors").items()}
    labels, positive = tuple(given.pop("labels")), tuple(given.pop("positive"))
    return Recipe(
        name=name,
        labels=labels,
        positive_labels=positive,
        neighbors=neighbors,
        splits=tuple(splits),
        **given,
    )
