"""Numbering nodes in order of first appearance, out of core, with DuckDB."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.data.adjacency import small_int
from edgeformers.data.arrays import save_array
from edgeformers.data.table import BATCH_ROWS, NODE_FIELDS, NodeTable
from edgeformers.data.types import IntArray
from edgeformers.errors import InputError, require

MEMORY = "1200MB"  # for DuckDB; it spills the rest to disk
THREADS = 8  # at most, because each one needs memory

_NUMBER_SIDES = """
CREATE TABLE nodes AS
SELECT name, side, row_number() OVER (ORDER BY side, first) - 1 AS number FROM (
    SELECT source AS name, 'source' AS side, min(row) AS first FROM edges GROUP BY source
    UNION ALL
    SELECT target AS name, 'target' AS side, min(row) AS first FROM edges GROUP BY target
)
"""
_NUMBER_BOTH = """
CREATE TABLE nodes AS
SELECT name, NULL::VARCHAR AS side, row_number() OVER (ORDER BY min(first)) - 1 AS number FROM (
    SELECT source AS name, min(2 * row) AS first FROM edges GROUP BY source
    UNION ALL
    SELECT target AS name, min(2 * row + 1) AS first FROM edges GROUP BY target
) GROUP BY name
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
        self.connection = require("duckdb", "data").connect()
        self.connection.execute(f"SET memory_limit = '{MEMORY}'")
        self.connection.execute(f"SET threads = {min(THREADS, os.cpu_count() or 1)}")
        self.connection.execute(f"SET temp_directory = '{_quote(scratch)}'")
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute(
            f"CREATE VIEW edges AS SELECT source, target, {_ROW} FROM {_parquet(edges)}"
        )
        self.connection.execute(_NUMBER_SIDES if bipartite else _NUMBER_BOTH)
        self._count()

    def ends(self, num_edges: int) -> tuple[IntArray, IntArray]:
        """The source and target numbers of every edge."""
        return self._end("source", num_edges), self._end("target", num_edges)

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

    def write_hashes(self, texts: Path, out: Path) -> None:
        """Write a hash of every text, by edge number."""
        hashes = np.empty(pq.read_metadata(texts).num_rows, np.uint64)
        for batch in self._stream(f"SELECT {_ROW}, hash(text) FROM {_parquet(texts)}"):
            hashes[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
        save_array(out, hashes)

    def _end(self, column: str, num_edges: int) -> IntArray:
        side = f"n.side = '{column}'" if self.bipartite else "n.side IS NULL"
        joined = f"edges e JOIN nodes n ON e.{column} = n.name AND {side}"
        end = np.empty(num_edges, small_int(self.num_nodes))
        rows = 0
        for batch in self._stream(f"SELECT e.row, n.number FROM {joined}"):
            end[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
            rows += batch.num_rows
        assert rows == num_edges, f"{rows} of {num_edges} edges found their {column}"
        return end

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
        side = "coalesce(t.side, 'target')" if self.bipartite else "NULL"
        before = self.num_nodes
        self._add_nodes(
            f"SELECT t.id AS name, {side} AS side, min(t.row) AS first {isolated} GROUP BY ALL"
        )
        return [f"{self.num_nodes - before:,} nodes in {table.origin} have no edge and were kept"]

    def _add_nodes(self, nodes: str) -> None:
        """Append nodes without edges to those of their side, and number all nodes again."""
        self.connection.execute(
            "CREATE OR REPLACE TABLE nodes AS SELECT name, side, row_number() OVER "
            "(ORDER BY side, number NULLS LAST, first) - 1 AS number FROM "
            "(SELECT name, side, number, NULL AS first FROM nodes UNION ALL "
            f"SELECT name, side, NULL AS number, first FROM ({nodes}))"
        )
        self._count()

    def _count(self) -> None:
        sources = "count(*) FILTER (side IS DISTINCT FROM 'target')"
        counts = self._fetch_row(f"SELECT {sources}, count(*) FROM nodes")
        self.num_sources, self.num_nodes = counts

    def _fetch_row(self, sql: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self.connection.sql(sql).fetchall()[0]
        return row

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        return iter(self.connection.sql(sql).to_arrow_reader(BATCH_ROWS))

    def __enter__(self) -> "NodeNumbering":
        return self

    def __exit__(self, *_: object) -> None:
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
    return f"read_parquet('{_quote(path)}', file_row_number = true)"


def _quote(path: Path) -> str:
    return str(path).replace("'", "''")
