"""Every number of the paper's result tables, to be shown next to ours."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.recipes import load_recipe, published_counts, recipe_names
from edgeformers.errors import InputError, suggest

Mark = Literal["", "bold", "italic"]
EDGEFORMERS = ("edgeformer-e", "edgeformer-n")


@dataclass(frozen=True)
class TableCell:
    """A number of a table, its deviation if known, and how it is set."""

    value: float
    deviation: float | None = None
    mark: Mark = ""

    def scaled(self, factor: float) -> "TableCell":
        """The number in another unit."""
        deviation = None if self.deviation is None else self.deviation * factor
        return TableCell(self.value * factor, deviation, self.mark)


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A table of the paper: `cells[dataset][row][metric]` as printed, with our row names."""

    name: str
    tables: tuple[int, ...]  # its numbers in the paper
    part: str
    unit: Literal["percent", "share", "ms"]
    metrics: tuple[str, ...]
    cells: Mapping[str, Mapping[str, Mapping[str, TableCell]]]
    gains: Mapping[str, tuple[float, ...]]  # over the best baseline in percent, where printed

    @property
    def scale(self) -> float:
        """The factor by which the numbers are larger than those of a record."""
        return 100.0 if self.unit == "percent" else 1.0

    def cell(self, dataset: str | None, row: str, metric: str) -> TableCell | None:
        """The published number of a row on a dataset, if any."""
        return self.cells.get(dataset or "", {}).get(row, {}).get(metric)

    def lead(self, dataset: str, metric: str) -> tuple[str, str, float] | None:
        """Edgeformer's row, the best baseline, and by how much the former is higher, if printed."""
        values = {row: cells[metric].value for row, cells in self.cells.get(dataset, {}).items()}
        ours = next((row for row in EDGEFORMERS if row in values), None)
        baselines = [row for row in values if not row.startswith("edgeformer")]
        if ours is None or not baselines or self.unit == "ms":
            return None
        best = max(baselines, key=values.__getitem__)
        return ours, best, values[ours] - values[best]


def published_table(name: str) -> PublishedTable:
    """A table of the paper by name: edge-classification, link-prediction, ablation, ..."""
    if name not in published_tables():
        raise InputError(f"the paper has no table '{name}'; {suggest(name, published_tables())}")
    return published_tables()[name]


@cache
def published_tables() -> dict[str, PublishedTable]:
    """All tables by name."""
    text = files("edgeformers.experiments").joinpath("published.toml").read_text("utf-8")
    return {name: _table(name, values) for name, values in tomllib.loads(text).items()}


def published_dataset(graph: EdgeTextGraph, name: str | None = None) -> str | None:
    """The paper's dataset that a network is, if it has all the counts that were published."""
    dataset = named_dataset(graph, name)
    is_known = dataset is not None and load_recipe(dataset).matches(published_counts(graph))
    return dataset if is_known else None


def named_dataset(graph: EdgeTextGraph, name: str | None = None) -> str | None:
    """The given dataset of the paper, or the one that a network was prepared as."""
    if name is not None and name not in recipe_names():
        raise InputError(f"the paper has no dataset '{name}'; {suggest(name, recipe_names())}")
    if name is not None:
        return name
    for recipe in recipe_names():
        title = load_recipe(recipe).title
        if any(note.startswith(f"the paper's dataset {title}:") for note in graph.notes):
            return recipe
    return None


def _table(name: str, values: Mapping[str, Any]) -> PublishedTable:
    return PublishedTable(
        name=name,
        tables=tuple(values["tables"]),
        part=values["part"],
        unit=values["unit"],
        metrics=tuple(values["metrics"]),
        cells={
            dataset: {row: _cells(values, dataset, row) for row in rows}
            for dataset, rows in values["rows"].items()
        },
        gains={dataset: tuple(gains) for dataset, gains in values.get("gain", {}).items()},
    )


def _cells(values: Mapping[str, Any], dataset: str, row: str) -> dict[str, TableCell]:
    cells, marks = {}, {kind: values.get(kind, {}).get(dataset) for kind in ("bold", "italic")}
    printed = values["rows"][dataset][row]
    for column, (metric, number) in enumerate(zip(values["metrics"], printed, strict=True)):
        mark: Any = next((kind for kind, rows in marks.items() if rows and rows[column] == row), "")
        value, deviation = number if isinstance(number, list) else (number, None)
        cells[metric] = TableCell(value, deviation, mark)
    return cells
