"""Whole tables at once: the predictions of a file of edges, recommendations for every source."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tqdm.auto import tqdm

from edgeformers.data.readers.tables import open_sources, read_edges
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import InnerProductScorer
from edgeformers.evaluation.network_links import candidate_nodes, seen_nodes
from edgeformers.files import atomic_file

ROWS = 8_192  # edges read, predicted and written together
CELLS = 1 << 24  # scores held at once while recommending: 64 MB
ROLES = ("source", "target", "text")


def predict_edges(
    classifier: EdgeClassifier,
    data: Any,
    *,
    source: str = "source",
    target: str = "target",
    text: str = "text",
    format: str | None = None,
) -> Iterator[pa.Table]:
    """The rows of a table of edges, all its columns, with `prediction` and probabilities beside.

    `source`, `target` and `text` name columns as for `read_edges`; nodes never met are read from
    the text alone. Each label has a column `probability_LABEL`; a model of numbers has none.
    """
    names = {"source": source, "target": target, "text": text}
    found = open_sources(data, format=format)[0].types()
    taken = {"prediction", *map(_probability, classifier.label_names)} & set(found)
    if taken:
        raise InputError(
            f"the table has a column '{min(taken)}' already; rename it, for it would be hidden"
        )
    keep = [name for name in found if name not in names.values()]
    table = read_edges(data, source=source, target=target, text=text, keep=keep, format=format)
    for batch in table.batches():
        for start in range(0, batch.num_rows, ROWS):
            yield _with_predictions(classifier, batch.slice(start, ROWS), names)


def recommend_all(
    predictor: LinkPredictor,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    cells: int = CELLS,
    show: bool = True,
) -> Iterator[pa.Table]:
    """The k best targets of every source, block by block: source, rank from 1, target, score.

    Scores are those of `LinkPredictor.recommend`; a source has fewer rows where fewer targets
    are left.
    """
    if k < 1:
        raise InputError(f"k must be at least 1 (got {k})")
    objective = predictor.objective
    graph = objective.loader.graph
    candidates = candidate_nodes(graph)
    keys = objective.factors("key", candidates, show=show)  # [C, D]
    sources = np.arange(graph.num_sources if graph.is_bipartite else graph.num_nodes)
    size = max(1, cells // max(1, len(candidates)))
    bar = tqdm(total=len(sources), desc="recommending", unit=" sources", disable=not show)
    with bar:
        for start in range(0, len(sources), size):
            block = sources[start : start + size].astype(np.int64)
            products = InnerProductScorer(objective.factors("query", block), keys)
            whole = objective.task.whole(products, block, candidates)
            scores = whole.scores(np.arange(len(block)))  # [b, C]
            if exclude_seen:
                for row, node in enumerate(block.tolist()):
                    scores[row, seen_nodes(graph, node) - candidates[0]] = -np.inf
            yield _best_rows(predictor, block, candidates, scores, k)
            bar.update(len(block))


def write_rows(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write tables as one .parquet, .csv or .jsonl file, which appears when complete: its rows."""
    writers: dict[str, Callable[[Path, pa.Schema], Any]] = {
        ".parquet": pq.ParquetWriter,
        ".csv": pa_csv.CSVWriter,
        ".jsonl": _JsonLines,
    }
    if path.suffix not in writers:
        raise InputError(f"{path}: write to a file ending in .parquet, .csv or .jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    writer, count = None, 0
    with atomic_file(path) as temporary:
        for table in tables:
            flat = _joined_lists(table) if path.suffix == ".csv" else table
            writer = writer or writers[path.suffix](temporary, flat.schema)
            writer.write_table(flat)
            count += len(table)
        if writer is None:
            raise InputError(f"there is nothing to write to {path}: the table has no rows")
        writer.close()
    return count


class _JsonLines:
    """A JSON object per row."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.file = path.open("w", encoding="utf-8")

    def write_table(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            self.file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")

    def close(self) -> None:
        self.file.close()


def _with_predictions(
    classifier: EdgeClassifier, batch: pa.RecordBatch, names: dict[str, str]
) -> pa.Table:
    rows = list(zip(*(batch.column(role).to_pylist() for role in ROLES), strict=True))
    found = classifier.predictions(rows)
    table = pa.Table.from_batches([batch])
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    table = table.append_column("prediction", pa.array(classifier._names_of(found)))
    if found.probs is not None:
        for place, label in enumerate(classifier.label_names):
            table = table.append_column(
                _probability(label), pa.array(found.probs[:, place].numpy(), pa.float32())
            )
    return table


def _probability(label: str) -> str:
    return f"probability_{label}"


def _best_rows(
    predictor: LinkPredictor, sources: Ids, candidates: Ids, scores: NDArray[np.float32], k: int
) -> pa.Table:
    k = min(k, scores.shape[1])
    best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, 1)
    values = np.take_along_axis(scores, best, 1)
    real = np.isfinite(values)
    row, place = np.nonzero(real)
    return pa.table(
        {
            "source": pa.array(predictor.names.ids_of(sources[row]), pa.string()),
            "rank": pa.array(place + 1, pa.int32()),
            "target": pa.array(predictor.names.ids_of(candidates[best[real]]), pa.string()),
            "score": pa.array(values[real], pa.float32()),
        }
    )


def _joined_lists(table: pa.Table) -> pa.Table:
    """CSV has no lists: several labels stand in one cell, a | between them."""
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            joined = ["|".join(map(str, one or ())) for one in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(joined, pa.string()))
    return table
