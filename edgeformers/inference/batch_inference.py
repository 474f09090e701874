"""Inference for whole tables: predictions for a file of edges, recommendations for all sources."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from hashlib import sha256
from io import TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from edgeformers import distributed
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.prepare import read_raw_edges
from edgeformers.data.readers.tables import open_sources, read_edges
from edgeformers.errors import InputError
from edgeformers.files import atomic_file
from edgeformers.inference.candidate_filter import CandidateFilter
from edgeformers.inference.chunks import (
    Engine,
    RemoteJob,
    is_ray,
    read_chunks,
    remove_chunks,
    shared_paths,
    write_chunks,
)
from edgeformers.inference.fitted import fitted_model, network_fingerprint
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.load import load_fitted
from edgeformers.inference.saved_model import model_fingerprint, tensors_fingerprint
from edgeformers.locks import single_writer
from edgeformers.progress import progress_bar

ROWS = 8_192  # edges read, predicted and written together
CELLS = 1 << 24  # scores in memory at once: 64 MB
CHUNK = 16_384  # sources whose recommendations are written together


def predict_edges(
    classifier: Any,
    data: Any,
    *,
    source: str | None = None,
    target: str | None = None,
    text: str | None = None,
    format: str | None = None,
    show: bool = True,
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
    with progress_bar(desc="predicting", unit="edges", show=show) as bar:
        for batch in table.batches():
            for start in range(0, batch.num_rows, ROWS):
                rows = batch.slice(start, ROWS)
                yield _with_predictions(fitted, rows, names)
                bar.update(rows.num_rows)


def recommend_all(
    predictor: Any,
    k: int = 10,
    *,
    exclude_seen: bool = True,
    candidates: CandidateFilter | None = None,
    cells: int = CELLS,
    show: bool = True,
) -> Iterator[pa.Table]:
    """The k best targets of every source, block by block: source, rank from 1, target, score.

    `predictor` is a LinkPredictor. Scores are those of `LinkPredictor.recommend`; a source has
    fewer rows if fewer targets are left.
    """
    fitted = fitted_model(predictor, FittedLinkPredictor)
    recommender = _Recommender(
        fitted, k, exclude_seen=exclude_seen, candidates=candidates, cells=cells
    )
    sources = range(fitted.network.graph.num_sources)
    with progress_bar(len(sources), desc="recommending", unit="sources", show=show) as bar:
        for block in recommender.blocks(sources):
            yield recommender.rank(block)
            bar.update(len(block))


def write_recommendations(
    run: str | PathLike[str],
    out: str | PathLike[str],
    k: int = 10,
    *,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    exclude_seen: bool = True,
    candidates: CandidateFilter | None = None,
    all_edges: bool = False,
    chunk: int = CHUNK,
    engine: Engine = "local",
    device: str | None = None,
    show: bool = True,
) -> int:
    """Write the k best targets of every source to a file; returns the number of rows.

    `run` is the folder of a run, and the rows are those of `recommend_all`. With `all_edges`,
    scores also read validation and test edges (see `read_all_edges`). After an interruption,
    call it again: finished chunks are kept. With `engine="ray"` a Ray cluster computes the chunks,
    and the file is the same; all its machines must be able to read the run and the network.
    """
    path, on_ray = Path(out).expanduser(), None
    _row_writer(path)  # raises if the name has another suffix
    open_job = partial(
        _open_recommender,
        k=k,
        exclude_seen=exclude_seen,
        candidates=candidates,
        all_edges=all_edges,
        chunk=chunk,
    )
    if is_ray(engine):
        run, network = shared_paths(run, network)
        on_ray = RemoteJob(open=partial(open_job, run, network, device), device=device)
        device = "cpu"  # of this process, which only writes
    job = open_job(run, network, device, show=show)
    count = 0
    with distributed.locked_output(path):
        files = write_chunks(job, path, on_ray=on_ray, show=show)
        if distributed.is_main():
            count = write_rows(path, read_chunks(files, show=show))
            remove_chunks(path)
        return int(distributed.broadcast(count))


class _Recommender:
    """Recommendations to ranges of sources; a `ChunkedJob`."""

    unit = "sources"

    def __init__(
        self,
        fitted: FittedLinkPredictor,
        k: int,
        *,
        exclude_seen: bool,
        candidates: CandidateFilter | None = None,
        all_edges: bool = False,
        cells: int = CELLS,
        chunk: int = CHUNK,
        show: bool = False,
    ) -> None:
        if k < 1:
            raise InputError(f"k must be at least 1 (got {k})")
        self.all_edges, self.show = all_edges, show
        self.loaded, self.k, self.exclude_seen = fitted, k, exclude_seen
        self.allowed = fitted.allowed(candidates)
        self.block = max(1, cells // max(1, len(fitted.scorer.candidates)))
        total = fitted.network.graph.num_sources
        self.chunk = chunk
        self.chunks = [range(at, min(at + chunk, total)) for at in range(0, total, chunk)]

    @cached_property
    def fitted(self) -> FittedLinkPredictor:
        """The model with all edges that it is to read; not needed where chunks are only written."""
        if self.all_edges:
            self.loaded.read_all_edges(show=self.show)
        return self.loaded

    @cached_property
    def identity(self) -> str:
        facts = {
            "model": model_fingerprint(self.loaded.model),
            "head": tensors_fingerprint(self.loaded.head_tensors()),
            "network": network_fingerprint(self.loaded.network.graph),
            "settings": self.loaded.config.to_dict(),
            "k": self.k,
            "exclude_seen": self.exclude_seen,
            **({"all_edges": True} if self.all_edges else {}),
            **(
                {}
                if self.allowed is None
                else {"allowed": sha256(self.allowed.tobytes()).hexdigest()}
            ),
            "block": self.block,
            "chunk": self.chunk,
        }
        return json.dumps(facts, sort_keys=True)

    def compute(self, number: int, *, show: bool = False) -> pa.Table:
        sources = self.chunks[number]
        desc = f"recommending, chunk {number + 1} of {len(self.chunks)}"
        with progress_bar(len(sources), desc=desc, unit="sources", show=show) as bar:
            tables = []
            for block in self.blocks(sources):
                tables.append(self.rank(block))
                bar.update(len(block))
        return pa.concat_tables(tables)

    def blocks(self, sources: range) -> Iterator[range]:
        """Sources whose scores fit in memory together."""
        return (sources[at : at + self.block] for at in range(0, len(sources), self.block))

    def rank(self, sources: range) -> pa.Table:
        """The best targets of some sources: source, rank from 1, target, score."""
        fitted, block = self.fitted, np.array(sources)
        exclude = fitted.seen(block) if self.exclude_seen else None
        ranking = fitted.scorer.rank(block, self.k, exclude=exclude, allowed=self.allowed)
        return pa.table(
            {
                "source": pa.array(fitted.nodes.ids_of(block[ranking.row]), pa.string()),
                "rank": pa.array(ranking.rank, pa.int32()),
                "target": pa.array(fitted.nodes.ids_of(ranking.node), pa.string()),
                "score": pa.array(ranking.score, pa.float32()),
            }
        )


def _open_recommender(
    run: str | PathLike[str],
    network: Any,
    device: str | None,
    *,
    k: int,
    exclude_seen: bool,
    candidates: CandidateFilter | None,
    all_edges: bool,
    chunk: int,
    show: bool = False,
) -> _Recommender:
    fitted = load_fitted(Path(run), network=network, device=device, show=show)
    if not isinstance(fitted, FittedLinkPredictor):
        raise InputError(f"{run} classifies edges; recommend with a link-prediction run")
    return _Recommender(
        fitted,
        k,
        exclude_seen=exclude_seen,
        candidates=candidates,
        all_edges=all_edges,
        chunk=chunk,
        show=show,
    )


def write_rows(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write tables to one .parquet, .csv or .jsonl file; returns the number of rows."""
    open_writer, writer, count = _row_writer(path), None, 0
    with single_writer(path), atomic_file(path) as temporary:
        for table in tables:
            flat = _joined_lists(table) if path.suffix == ".csv" else table
            writer = writer or open_writer(temporary, flat.schema)
            writer.write_table(flat)
            count += len(table)
        if writer is None:
            raise InputError(f"nothing to write to {path}: the table has no rows")
        writer.close()
    return count


def _row_writer(path: Path) -> Callable[[Path, pa.Schema], Any]:
    """The writer for the suffix of a file."""
    writers: dict[str, Callable[[Path, pa.Schema], Any]] = {
        ".parquet": pq.ParquetWriter,
        ".csv": pa_csv.CSVWriter,
        ".jsonl": _JsonLines,
    }
    if path.suffix not in writers:
        raise InputError(f"{path}: the name must end in .parquet, .csv or .jsonl")
    return writers[path.suffix]


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
