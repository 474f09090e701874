"""Experiment records: the results of an experiment in one small file, without any data."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeformers import aliases
from edgeformers.decode import decode_json
from edgeformers.errors import FormatError
from edgeformers.files import write_atomic

VERSION = aliases.RECORD_VERSION
RECORD = "record.json"
DIGITS = 6  # of a metric


@dataclass(frozen=True, kw_only=True)
class RowInfo:
    """A row of the tables."""

    name: str
    title: str
    group: str
    task: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The results of one run: metrics by part, settings and cost."""

    row: str
    seed: int
    metrics: dict[str, dict[str, float]]
    settings: dict[str, Any] = field(default_factory=dict)  # those that differ from the recipe
    seconds: float = 0.0
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A paired comparison of two rows on the same examples by one metric of one table.

    Several rows joined by + are averaged. Times are compared by their ratio minus 1.
    """

    table: str
    metric: str
    best: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    examples: int
    seeds: int = 0  # runs per row; 0: seeds were averaged, the interval does not cover them


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number measured on trained models, with a 95 % interval if it has one."""

    name: str
    value: float
    what: str = ""  # in words
    low: float | None = None
    high: float | None = None
    examples: int = 0
    seeds: int = 1


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything that tables, claims and documents need."""

    experiment: str
    network: dict[str, Any]  # name, origin, nodes, edges, fingerprint
    dataset: str | None  # of the paper, if the network has its counts: for published numbers
    recipe: str
    backbone: str
    rows: list[RowInfo]  # in the order of the tables
    entries: list[Entry]
    comparisons: list[Comparison] = field(default_factory=list)  # of the best two rows
    claim_tests: list[Comparison] = field(default_factory=list)  # of rows that claims compare
    measurements: list[Measurement] = field(default_factory=list)  # of attention and embeddings
    failures: list[str] = field(default_factory=list)  # what failed or was left out, and why
    trials: list[dict[str, Any]] = field(default_factory=list)
    reference: str | None = None  # dataset of the paper whose leads are noted
    version: int = VERSION

    def row_names(self, task: str | None = None) -> list[str]:
        """The rows of a task, or all rows."""
        return [row.name for row in self.rows if task in (None, row.task)]

    @property
    def titles(self) -> dict[str, str]:
        return {row.name: row.title for row in self.rows}

    def write(self, path: Path) -> None:
        """Save as JSON, atomically."""
        write_atomic(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Load a saved record, also one with the names of earlier versions."""
        if not path.is_file():
            raise FormatError(f"{path}: no such file (expected the record of an experiment)")
        return decode_json(
            cls,
            aliases.current_names(path.read_text(encoding="utf-8")),
            source=str(path),
            version=VERSION,
            remedy="write it again with: edgeformers reproduce tables FOLDER",
        )
