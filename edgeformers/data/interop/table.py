"""A prepared network as an edge table, read in batches."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from edgeformers.data.table import EdgeTable, rebatch

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph

SEPARATORS = "|;,/\t\x1f"  # of several labels; the first that occurs in no label is used


def graph_table(graph: "EdgeTextGraph") -> EdgeTable:
    """The edges of a prepared network as a table: ids, texts and columns as they were read.

    The split column is left out, since a network stores its splits separately. Several labels of
    an edge are joined in the order of `graph.label_names`.
    """
    separator = None
    if graph.label_kind == "multi":
        used = set().union(*graph.label_names)
        separator = next(sign for sign in SEPARATORS if sign not in used)
    stored = pq.read_schema(graph.path / "edges.parquet")
    columns = [name for name in stored.names[2:] if name != "split"]  # the first two: node numbers
    strings = [(name, pa.string()) for name in ("source", "target", "text")]
    schema = pa.schema([*strings, *(stored.field(name) for name in columns)])
    return EdgeTable(
        schema=schema,
        open=lambda: _batches(graph, schema, separator),
        origin=str(graph.path),
        bipartite=graph.is_bipartite,
        directed=graph.is_directed,
        label_kind=graph.label_kind or "class",
        label_separator=separator,
    )


def _batches(
    graph: "EdgeTextGraph", schema: pa.Schema, separator: str | None
) -> Iterator[pa.RecordBatch]:
    with (
        pq.ParquetFile(graph.path / "edges.parquet") as edges,
        pq.ParquetFile(graph.path / "texts.parquet") as texts,
    ):
        start = 0
        pairs = zip(rebatch(edges.iter_batches()), rebatch(texts.iter_batches()), strict=True)
        for rows, text in pairs:
            ends = [pa.array(graph.node_names(rows.column(end)), pa.string()) for end in (0, 1)]
            columns = [*ends, text.column(0), *(rows.column(name) for name in schema.names[3:])]
            if separator is not None and graph.labels is not None:
                has_label = np.asarray(graph.labels[start : start + rows.num_rows])
                joined = _join_labels(has_label, graph.label_names, separator)
                columns[schema.get_field_index("label")] = joined
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            start += rows.num_rows


def _join_labels(has_label: NDArray[Any], names: Sequence[str], separator: str) -> pa.Array:
    """The labels of each edge [b, C] as one string; null if it has none."""
    labels = ([names[code] for code in np.flatnonzero(row).tolist()] for row in has_label)
    return pa.array([separator.join(edge_labels) or None for edge_labels in labels], pa.string())
