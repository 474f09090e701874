"""Inference for whole tables: predictions for a file of edges, recommendations for all sources."""

import json
from collections.abc import Callable, Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from tqdm.auto import tqdm

from edgeformers.data.prepare import read_raw_edges
from edgeformers.data.readers.tables import open_sources, read_edges
from edgeformers.errors import InputError
from edgeformers.files import atomic_file
from edgeformers.inference.fitted import fitted_model
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.locks import single_writer

ROWS = 8_192  # edges read, predicted and written together
CELLS = 1 << 24  # scores in memory at once: 64 MB


def predict_edges(
    classifier: Any,
    data: Any,
    *,
    source: str | None = None,
    target: str | None = None,
    text: str | None = None,
    format: str | None = None,
) -> Iterator[pa.Table]:
    """The rows of a table of edges with `prediction` and probabilities as additional columns.

    `classifier` is an EdgeClassifier. `data` is a table, or a raw public format as `prepare` reads
    it. `source`, `target` and `text` name columns of a table, by default those of these names;
    edges of unknown nodes are classified by their text. Each label has a column
    `probability_LABEL`; a model of numbers has none.
    """
    fitted = fitted_model(classifier, FittedEdgeClassifier)
    given = {"source": source, "target": target, "text": text}
    names: dict[str, Any] = {role: name for role, name in given.items() if name is not None}
    table = read_raw_edges(data, format=format, **names)
    if table is None:
        names = {role: name or role for role, name in given.items()}
        existing = open_sources(data, format=format)[0].types()
        others = [name for name in existing if name not in names.values()]
        kept = {f"input {name}": name for name in others}  # also those with names such as `label`
        table = read_edges(data, **names, keep=kept, format=format)
        names |= kept
    added = {"prediction", *(f"probability_{label}" for label in fitted.label_names)}
    if taken := added & {names.get(name, name) for name in table.schema.names}:
        raise InputError(f"the table already has a column '{min(taken)}'; rename it")
    for batch in table.batches():
        for start in range(0, batch.num_rows, ROWS):
            yield _with_predictions(fitted, batch.slice(start, ROWS), names)


def recommend_all(
    predictor: Any,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    cells: int = CELLS,
    show: bool = True,
) -> Iterator[pa.Table]:
    """The k best targets of every source, block by block: source, rank from 1, target, score.

    `predictor` is a LinkPredictor. Scores are those of `LinkPredictor.recommend`; a source has
    fewer rows if fewer targets are left.
    """
    if k < 1:
        raise InputError(f"k must be at least 1 (got {k})")
    fitted = fitted_model(predictor, FittedLinkPredictor)
    scorer, sources = fitted.scorer, np.arange(fitted.network.graph.num_sources)
    size = max(1, cells // max(1, len(scorer.candidates)))
    with tqdm(total=len(sources), desc="recommending", unit=" sources", disable=not show) as bar:
        for start in range(0, len(sources), size):
            block = sources[start : start + size]
            ranking = scorer.rank(block, k, exclude=fitted.seen(block) if exclude_seen else None)
            yield pa.table(
                {
                    "source": pa.array(fitted.nodes.ids_of(block[ranking.row]), pa.string()),
                    "rank": pa.array(ranking.rank, pa.int32()),
                    "target": pa.array(fitted.nodes.ids_of(ranking.node), pa.string()),
                    "score": pa.array(ranking.score, pa.float32()),
                }
            )
            bar.update(len(block))


def write_rows(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write tables to one .parquet, .csv or .jsonl file; returns the number of rows."""
    writers: dict[str, Callable[[Path, pa.Schema], Any]] = {
        ".parquet": pq.ParquetWriter,
        ".csv": pa_csv.CSVWriter,
        ".jsonl": _JsonLines,
    }
    if path.suffix not in writers:
        raise InputError(f"{path}: the name must end in .parquet, .csv or .jsonl")
    writer, count = None, 0
    with single_writer(path), atomic_file(path) as temporary:
        for table in tables:
            flat = _joined_lists(table) if path.suffix == ".csv" else table
            writer = writer or writers[path.suffix](temporary, flat.schema)
            writer.write_table(flat)
            count += len(table)
        if writer is None:
            raise InputError(f"nothing to write to {path}: the table has no rows")
        writer.close()
    return count


class _JsonLines(TextIOWrapper):
    """Writes one JSON object per row."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path.open("wb"), encoding="utf-8")

    def write_table(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            self.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


def _with_predictions(
    fitted: FittedEdgeClassifier, batch: pa.RecordBatch, names: dict[str, str]
) -> pa.Table:
    columns = (batch.column(name).to_pylist() for name in ("source", "target", "text"))
    predictions = fitted.predictions(list(zip(*columns, strict=True)))
    table = pa.Table.from_batches([batch])
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    table = table.append_column("prediction", pa.array(fitted.label_values(predictions)))
    if predictions.probs is not None:
        for label, column in zip(fitted.label_names, predictions.probs.numpy().T, strict=True):
            table = table.append_column(f"probability_{label}", pa.array(column, pa.float32()))
    return table


def _joined_lists(table: pa.Table) -> pa.Table:
    """CSV has no lists: several labels are joined with |."""
    for place, column in enumerate(table.schema):
        if pa.types.is_list(column.type):
            joined = ["|".join(map(str, cell or ())) for cell in table.column(place).to_pylist()]
            table = table.set_column(place, column.name, pa.array(joined, pa.string()))
    return table
