"""A prepared network back as a table of edges, a batch at a time."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from edgeformers.data.table import EdgeTable, rebatch

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph

SEPARATORS = "|;,/\t\x1f"  # between several labels; the first that no label's name contains


def graph_table(graph: "EdgeTextGraph") -> EdgeTable:
    """The edges of a prepared network as a table: ids, texts and columns as they were read.

    The split column is left out: a network has its splits apart. Where an edge has several labels
    they are joined anew, in the order of `graph.label_names`.
    """
    several = graph.label_kind == "multi"
    separator = _separator(graph.label_names) if several else None
    schema = _schema(graph)
    return EdgeTable(
        schema=schema,
        open=lambda: _batches(graph, schema, separator),
        origin=str(graph.path),
        bipartite=graph.is_bipartite,
        directed=graph.is_directed,
        label_kind=graph.label_kind or "class",
        label_separator=separator,
    )


def _schema(graph: "EdgeTextGraph") -> pa.Schema:
    written = pq.read_schema(graph.path / "edges.parquet")
    ends = [(name, pa.string()) for name in ("source", "target", "text")]
    return pa.schema([*ends, *(written.field(i) for i in _kept(written))])


def _kept(written: pa.Schema) -> list[int]:
    """Where the columns beside the two node numbers stand, which come first."""
    return [i for i in range(2, len(written)) if written.names[i] != "split"]


def _batches(
    graph: "EdgeTextGraph", schema: pa.Schema, separator: str | None
) -> Iterator[pa.RecordBatch]:
    with (
        pq.ParquetFile(graph.path / "edges.parquet") as edges,
        pq.ParquetFile(graph.path / "texts.parquet") as texts,
    ):
        kept, start = _kept(edges.schema_arrow), 0
        parts = zip(rebatch(edges.iter_batches()), rebatch(texts.iter_batches()), strict=True)
        for rows, words in parts:
            ends = [pa.array(graph.node_names(rows.column(end)), pa.string()) for end in (0, 1)]
            columns = [*ends, words.column(0), *(rows.column(i) for i in kept)]
            if separator is not None and graph.labels is not None:
                member = np.asarray(graph.labels[start : start + rows.num_rows])
                place = schema.get_field_index("label")
                columns[place] = _joined(member, graph.label_names, separator)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            start += rows.num_rows


def _separator(names: Sequence[str]) -> str:
    """One that no label contains: joined labels come apart again as they were."""
    used = set().union(*names)
    return next(one for one in SEPARATORS if one not in used)


def _joined(member: NDArray[Any], names: Sequence[str], separator: str) -> pa.Array:
    """Which labels each edge has [b, C] as words; null where it has none."""
    labels = ([names[code] for code in np.flatnonzero(row).tolist()] for row in member)
    return pa.array([separator.join(one) or None for one in labels], pa.string())
