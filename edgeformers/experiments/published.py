"""Every number of the paper's tables, to stand beside ours."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.recipes import load_recipe, recipe_names
from edgeformers.errors import InputError, suggest

Unit = Literal["percent", "share", "ms"]
Mark = Literal["", "bold", "italic"]


@dataclass(frozen=True)
class PublishedCell:
    """A number as the paper prints it, how it is set, and its deviation where one is given."""

    value: float
    deviation: float | None = None
    mark: Mark = ""


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """One table of the paper: `cells[dataset][row][metric]`, rows under our names."""

    name: str
    caption: str
    tables: tuple[int, ...]  # its numbers in the paper
    part: str
    unit: Unit
    metrics: tuple[str, ...]
    cells: Mapping[str, Mapping[str, Mapping[str, PublishedCell]]]
    gains: Mapping[str, tuple[float, ...]]  # over the best baseline in percent, where printed

    def cell(self, dataset: str | None, row: str, metric: str) -> PublishedCell | None:
        """What was published for a row on a dataset, if anything."""
        return self.cells.get(dataset or "", {}).get(row, {}).get(metric)

    def in_our_units(self, cell: PublishedCell) -> tuple[float, float | None]:
        """Value and deviation as our runs give them: shares of one instead of percents."""
        size = 100.0 if self.unit == "percent" else 1.0
        return cell.value / size, None if cell.deviation is None else cell.deviation / size


def published_names() -> list[str]:
    """The tables that `published_table` knows."""
    return list(_tables())


def published_table(name: str) -> PublishedTable:
    """One table of the paper by its name."""
    if name not in _tables():
        raise InputError(f"the paper has no table '{name}'; {suggest(name, _tables())}")
    return _tables()[name]


def published_dataset(graph: EdgeTextGraph, named: str | None = None) -> str | None:
    """The paper's dataset a network is: the one named, or the one it was prepared as."""
    if named is not None:
        if named not in recipe_names():
            raise InputError(
                f"the paper has no dataset '{named}'; {suggest(named, recipe_names())}"
            )
        return named
    for name in recipe_names():
        title = load_recipe(name).title
        if any(note.startswith(f"the paper's dataset {title}:") for note in graph.notes):
            return name
    return None


@cache
def _tables() -> dict[str, PublishedTable]:
    text = files("edgeformers.experiments").joinpath("published.toml").read_text("utf-8")
    return {name: _table(name, given) for name, given in tomllib.loads(text).items()}


def _table(name: str, given: dict[str, Any]) -> PublishedTable:
    metrics = tuple(given["metrics"])
    cells = {
        dataset: {row: _cells(given, dataset, row, values) for row, values in rows.items()}
        for dataset, rows in given["rows"].items()
    }
    return PublishedTable(
        name=name,
        caption=given["caption"],
        tables=tuple(given["tables"]),
        part=given["part"],
        unit=given["unit"],
        metrics=metrics,
        cells=cells,
        gains={dataset: tuple(gains) for dataset, gains in given.get("gain", {}).items()},
    )


def _cells(
    given: dict[str, Any], dataset: str, row: str, values: list[Any]
) -> dict[str, PublishedCell]:
    found = {}
    for place, (metric, value) in enumerate(zip(given["metrics"], values, strict=True)):
        kinds: tuple[Mark, ...] = ("bold", "italic")
        set_so = [
            kind for kind in kinds if given.get(kind, {}).get(dataset, {place: ""})[place] == row
        ]
        number, deviation = value if isinstance(value, list) else (value, None)
        found[metric] = PublishedCell(number, deviation, set_so[0] if set_so else "")
    return found
