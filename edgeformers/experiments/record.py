"""A record: what runs of an experiment gave, as one small file of numbers that tables come from."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeformers.aliases import current_experiment
from edgeformers.errors import FormatError
from edgeformers.files import write_atomic

VERSION = 1
RECORD = "record.json"
DIGITS = 6  # that are kept of a metric


@dataclass(frozen=True, kw_only=True)
class RowInfo:
    """A row of the tables, in their order."""

    name: str
    title: str
    group: str
    task: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one run gave: its metrics by part, and how it came to them."""

    row: str
    seed: int
    metrics: dict[str, dict[str, float]]
    settings: dict[str, Any] = field(default_factory=dict)  # that differ from the recipe's
    seconds: float = 0.0
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two rows on the same examples by one metric, in a table's order or in that of a claim."""

    table: str
    metric: str
    best: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    examples: int


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything that tables, claims and documents need of an experiment; no data is in it."""

    experiment: str
    network: dict[str, Any]  # name, origin, nodes, edges, fingerprint
    dataset: str | None  # of the paper
    recipe: str
    backbone: str
    rows: list[RowInfo]
    entries: list[Entry]
    comparisons: list[Comparison] = field(default_factory=list)
    claim_tests: list[Comparison] = field(default_factory=list)  # of rows that claims are about
    failures: list[str] = field(default_factory=list)  # what failed or was left out, and why
    trials: list[dict[str, Any]] = field(default_factory=list)
    version: int = VERSION

    def write(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Record":
        """The record that `write` wrote."""
        try:
            values = current_experiment(json.loads(path.read_text(encoding="utf-8")))
            if values["version"] != VERSION:
                raise FormatError(
                    f"{path}: version {VERSION} expected (got {values['version']}); make it again "
                    "with: edgeformers reproduce tables FOLDER"
                )
            kinds = {"rows": RowInfo, "entries": Entry, "comparisons": Comparison}
            made = {name: [kind(**one) for one in values[name]] for name, kind in kinds.items()}
            made["claim_tests"] = [Comparison(**one) for one in values.get("claim_tests", [])]
            return cls(**{**values, **made})
        except FileNotFoundError:
            raise FormatError(f"{path}: no such file; there should be a record of runs") from None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(
                f"{path} is no record of runs ({error}); make it again with: edgeformers "
                "reproduce tables FOLDER"
            ) from error
