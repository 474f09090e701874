"""Numbering nodes in order of first appearance, out of core, with DuckDB."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from edgeformers.data.adjacency import small_int
from edgeformers.data.table import BATCH_ROWS, NODE_FIELDS, NodeTable
from edgeformers.data.types import IntArray
from edgeformers.errors import InputError, require
from edgeformers.threads import num_threads

MEMORY = "1200MB"  # for DuckDB; it spills the rest to disk
THREADS = 8  # at most, because each one needs memory

_NUMBER = """
CREATE TABLE nodes AS
SELECT name, side, row_number() OVER (ORDER BY side, min(first)) - 1 AS number FROM (
    SELECT source AS name, {0} AS side, min(2 * row) AS first FROM edges GROUP BY source
    UNION ALL
    SELECT target AS name, {1} AS side, min(2 * row + 1) AS first FROM edges GROUP BY target
) GROUP BY name, side
"""
_ROW = "file_row_number AS row"
_IS_NODE = "n.name = t.id AND (t.side IS NULL OR n.side IS NULL OR n.side = t.side)"


class NodeNumbering:
    """Node numbers for edges stored in a Parquet file, and the node table in that order.

    In a bipartite network sources are numbered first, then targets; otherwise all nodes share
    one numbering. The row number in the file is the edge number.
    """

    def __init__(self, edges: Path, *, bipartite: bool, scratch: Path) -> None:
        self.bipartite = bipartite
        self.scratch = scratch
        settings = {
            "memory_limit": MEMORY,
            "threads": min(THREADS, num_threads()),
            "temp_directory": str(scratch),
            "preserve_insertion_order": False,
        }
        self.connection = require("duckdb", "data").connect(config=settings)
        self.connection.execute(
            f"CREATE VIEW edges AS SELECT source, target, {_ROW} FROM {_parquet(edges)}"
        )
        self.connection.execute(_NUMBER.format(*map(self._side, ("source", "target"))))
        self._count()

    def ends(self, num_edges: int) -> tuple[IntArray, IntArray]:
        """The source and target numbers of every edge."""
        src, dst = np.empty((2, num_edges), small_int(self.num_nodes))
        for end, numbers in (("source", src), ("target", dst)):
            is_end = f"e.{end} = n.name AND n.side IS NOT DISTINCT FROM {self._side(end)}"
            self._fill(f"SELECT e.row, n.number FROM edges e JOIN nodes n ON {is_end}", numbers)
        return src, dst

    def add_tables(self, tables: Sequence[NodeTable], *, keep_isolated: bool) -> list[str]:
        """Match the rows of node tables with nodes; returns notes on nodes without edges.

        If an id has several rows, the first one counts.
        """
        notes: list[str] = []
        for i, table in enumerate(tables):
            path = self.scratch / f"nodes-{i}.parquet"
            _write_parquet(table, path)
            self.connection.execute(
                f"CREATE VIEW table_{i} AS SELECT *, {_ROW} FROM {_parquet(path)}"
            )
            notes += self._check_table(f"table_{i}", table, keep_isolated=keep_isolated)
        for i in range(len(tables)):  # only now is every node numbered
            self.connection.execute(
                f"CREATE TABLE match_{i} AS SELECT n.number, min(t.row) AS row "
                f"FROM table_{i} t JOIN nodes n ON {_IS_NODE} GROUP BY n.number"
            )
        return notes

    def node_batches(
        self, tables: Sequence[NodeTable]
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows of the node table by number: id, side, labels, text and extra columns."""
        types = dict(NODE_FIELDS)
        for table in tables:
            for field in list(table.schema)[len(NODE_FIELDS) :]:
                types.setdefault(field.name, field.type)
        schema = pa.schema(types)
        columns = ", ".join(_coalesce(name, tables) for name in list(types)[2:])
        joins = " ".join(
            f"LEFT JOIN match_{i} ON n.number = match_{i}.number "
            f"LEFT JOIN table_{i} ON table_{i}.row = match_{i}.row"
            for i in range(len(tables))
        )
        sql = f"SELECT n.name, n.side, {columns} FROM nodes n {joins} ORDER BY n.number"
        return schema, (
            batch.rename_columns(schema.names).cast(schema) for batch in self._stream(sql)
        )

    def write_text_arrays(self, folder: Path, num_edges: int) -> None:
        """Write a hash and the number of characters of every text, by edge number."""
        hashes, lengths = np.empty(num_edges, np.uint64), np.empty(num_edges, np.int32)
        texts = _parquet(folder / "texts.parquet")
        self._fill(f"SELECT {_ROW}, hash(text), length(text) FROM {texts}", hashes, lengths)
        np.save(folder / "text_hashes.npy", hashes)
        np.save(folder / "text_lengths.npy", lengths)

    def _check_table(self, view: str, table: NodeTable, *, keep_isolated: bool) -> list[str]:
        isolated = f"FROM {view} t WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE {_IS_NODE})"
        (count,) = self._fetch_row(f"SELECT count(DISTINCT (id, side)) {isolated}")
        (total,) = self._fetch_row(f"SELECT count(DISTINCT (id, side)) FROM {view}")
        if total and count == total:
            (example,) = self._fetch_row(f"SELECT id FROM {view} ORDER BY row LIMIT 1")
            raise InputError(
                f"{table.origin}: none of its {total:,} ids (such as '{example}') occurs in the "
                "edges; check the id column and the side"
            )
        if not count:
            return []
        if not keep_isolated:
            return [
                f"{count:,} of the {total:,} nodes in {table.origin} have no edge and were "
                "dropped; keep them with --keep-isolated"
            ]
        # Append them to the nodes of their side, and number all nodes again.
        before = self.num_nodes
        side = "coalesce(t.side, 'target')" if self.bipartite else "NULL"
        self.connection.execute(
            "CREATE OR REPLACE TABLE nodes AS SELECT name, side, row_number() OVER "
            "(ORDER BY side, number NULLS LAST, first) - 1 AS number FROM "
            "(SELECT name, side, number, NULL AS first FROM nodes UNION ALL "
            f"SELECT t.id, {side}, NULL, min(t.row) {isolated} GROUP BY ALL)"
        )
        self._count()
        return [f"{self.num_nodes - before:,} nodes in {table.origin} have no edge and were kept"]

    def _side(self, end: str) -> str:
        return f"'{end}'" if self.bipartite else "NULL::VARCHAR"

    def _count(self) -> None:
        sources = "count(*) FILTER (side IS DISTINCT FROM 'target')"
        counts = self._fetch_row(f"SELECT {sources}, count(*) FROM nodes")
        self.num_sources, self.num_nodes = counts

    def _fetch_row(self, sql: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self.connection.sql(sql).fetchall()[0]
        return row

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        return iter(self.connection.sql(sql).to_arrow_reader(BATCH_ROWS))

    def _fill(self, sql: str, *arrays: NDArray[Any]) -> None:
        """Fill arrays with the columns of a query; its first column is the position."""
        for batch in self._stream(sql):
            rows, *columns = (column.to_numpy() for column in batch.columns)
            for array, values in zip(arrays, columns, strict=True):
                array[rows] = values

    def close(self) -> None:
        self.connection.close()


def _write_parquet(table: NodeTable, path: Path) -> None:
    """Write a node table for DuckDB, with extra columns renamed: its names ignore case."""
    names = [*NODE_FIELDS, *(f"c{i}" for i in range(len(NODE_FIELDS), len(table.schema)))]
    schema = pa.schema(list(zip(names, table.schema.types, strict=True)))
    with pq.ParquetWriter(path, schema) as writer:
        for batch in table.batches():
            writer.write_batch(batch.rename_columns(names).cast(schema))


def _coalesce(name: str, tables: Sequence[NodeTable]) -> str:
    """SQL for the value of a column in the first table that has one."""
    columns = [
        f"table_{i}.{name if name in NODE_FIELDS else f'c{table.schema.get_field_index(name)}'}"
        for i, table in enumerate(tables)
        if name in table.schema.names
    ]
    null = "NULL::VARCHAR[]" if name == "labels" else "NULL"
    return f"coalesce({', '.join([*columns, null, null])})"


def _parquet(path: Path) -> str:
    quoted = str(path).replace("'", "''")
    return f"read_parquet('{quoted}', file_row_number = true)"
