"""Numbering nodes in the order they first appear, out of core, with DuckDB."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.data.adjacency import small_int
from edgeformers.data.arrays import ArrayWriter
from edgeformers.data.table import BATCH_ROWS, NODE_FIELDS, NodeTable
from edgeformers.data.types import IntArray
from edgeformers.errors import InputError, require

MEMORY = "1200MB"  # for DuckDB; what does not fit is spilled beside the network
THREADS = 8  # at most: each takes a part of the memory


class NodeNumbering:
    """Node numbers of a staged table of edges, and the table of nodes in that order.

    Sources are numbered first in a bipartite network, then targets; otherwise both ends share
    one numbering. Staged edges stand in a Parquet file whose row number is the edge number.
    """

    def __init__(self, staged: Path, *, bipartite: bool, scratch: Path) -> None:
        self.bipartite = bipartite
        self.scratch = scratch
        self.connection = require("duckdb", "data").connect()
        self.connection.execute(f"SET memory_limit = '{MEMORY}'")
        self.connection.execute(f"SET threads = {min(THREADS, os.cpu_count() or 1)}")
        self.connection.execute(f"SET temp_directory = '{_quote(scratch)}'")
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute(
            f"CREATE VIEW edges AS SELECT source, target, {_ROW} FROM {_parquet(staged)}"
        )
        self.connection.execute(_NUMBER_BOTH if not bipartite else _NUMBER_SIDES)
        self._count()

    def ends(self, num_edges: int) -> tuple[IntArray, IntArray]:
        """The node numbers of both ends of every edge."""
        return self._end("source", num_edges), self._end("target", num_edges)

    def add_tables(self, tables: Sequence[NodeTable], *, isolated: bool) -> list[str]:
        """Join what is known of nodes, the first row of an id; gives notes on what was left out."""
        notes: list[str] = []
        for i, table in enumerate(tables):
            path = self.scratch / f"nodes-{i}.parquet"
            _stage(table, path)
            self.connection.execute(
                f"CREATE VIEW given_{i} AS SELECT *, {_ROW} FROM {_parquet(path)}"
            )
            notes += self._check_given(f"given_{i}", table, isolated=isolated)
        for i in range(len(tables)):  # only now all nodes have their number
            self.connection.execute(
                f"CREATE TABLE match_{i} AS SELECT n.number, min(g.row) AS row "
                f"FROM given_{i} g JOIN nodes n ON {_IS_NODE} GROUP BY n.number"
            )
        return notes

    def node_batches(self, tables: Sequence[NodeTable]) -> tuple[pa.Schema, Iterator[Any]]:
        """Rows of the table of nodes, by number: id, side, labels, text and extra columns."""
        types = dict(NODE_FIELDS)
        for table in tables:
            for field in list(table.schema)[len(NODE_FIELDS) :]:
                types.setdefault(field.name, field.type)
        schema = pa.schema(types)
        chosen = ", ".join(_first_known(name, tables) for name in list(types)[2:])
        joins = " ".join(
            f"LEFT JOIN match_{i} ON n.number = match_{i}.number "
            f"LEFT JOIN given_{i} ON given_{i}.row = match_{i}.row"
            for i in range(len(tables))
        )
        sql = f"SELECT n.name, n.side, {chosen} FROM nodes n {joins} ORDER BY n.number"
        return schema, (
            batch.rename_columns(schema.names).cast(schema) for batch in self._stream(sql)
        )

    def write_hashes(self, texts: Path, out: Path) -> None:
        """A hash of every text, by edge number."""
        hashes = np.empty(pq.read_metadata(texts).num_rows, np.uint64)
        for batch in self._stream(f"SELECT {_ROW}, hash(text) FROM {_parquet(texts)}"):
            hashes[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
        with ArrayWriter(out, np.uint64) as writer:
            writer.append(hashes)

    def close(self) -> None:
        self.connection.close()

    def _end(self, column: str, num_edges: int) -> IntArray:
        side = f"n.side = '{column}'" if self.bipartite else "n.side IS NULL"
        joined = f"edges e JOIN nodes n ON e.{column} = n.name AND {side}"
        end = np.empty(num_edges, small_int(self.num_nodes))
        found = 0
        for batch in self._stream(f"SELECT e.row, n.number FROM {joined}"):
            end[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
            found += batch.num_rows
        assert found == num_edges, f"{found} of {num_edges} edges found their {column}"
        return end

    def _check_given(self, view: str, table: NodeTable, *, isolated: bool) -> list[str]:
        lone = f"FROM {view} g WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE {_IS_NODE})"
        (count,) = self._one(f"SELECT count(DISTINCT (id, side)) {lone}")
        (total,) = self._one(f"SELECT count(DISTINCT (id, side)) FROM {view}")
        if total and count == total:
            example = self._one(f"SELECT id FROM {view} ORDER BY row LIMIT 1")[0]
            raise InputError(
                f"{table.origin}: none of its {total:,} ids (such as '{example}') is a node of the "
                "edges; check the id column and the side"
            )
        if not count:
            return []
        if not isolated:
            return [
                f"{count:,} of the {total:,} nodes in {table.origin} have no edge and were left "
                "out; keep them with --keep-isolated"
            ]
        side = "coalesce(g.side, 'target')" if self.bipartite else "NULL"
        before = self.num_nodes
        self._append(
            f"SELECT g.id AS name, {side} AS side, min(g.row) AS first {lone} GROUP BY ALL"
        )
        return [f"{self.num_nodes - before:,} nodes in {table.origin} have no edge and were kept"]

    def _append(self, nodes: str) -> None:
        """Add nodes without edges behind those of their side, as they appear; number again."""
        self.connection.execute(
            "CREATE OR REPLACE TABLE nodes AS SELECT name, side, row_number() OVER "
            "(ORDER BY side, number NULLS LAST, first) - 1 AS number FROM "
            "(SELECT name, side, number, NULL AS first FROM nodes UNION ALL "
            f"SELECT name, side, NULL AS number, first FROM ({nodes}))"
        )
        self._count()

    def _count(self) -> None:
        sources = "count(*) FILTER (side IS DISTINCT FROM 'target')"
        self.num_sources, self.num_nodes = self._one(f"SELECT {sources}, count(*) FROM nodes")

    def _one(self, sql: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self.connection.sql(sql).fetchall()[0]
        return row

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        return iter(self.connection.sql(sql).to_arrow_reader(BATCH_ROWS))

    def __enter__(self) -> "NodeNumbering":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
_IS_NODE = "n.name = g.id AND (g.side IS NULL OR n.side IS NULL OR n.side = g.side)"


def _stage(table: NodeTable, path: Path) -> None:
    """A table as a file for DuckDB. To DuckDB, Year and year are one name; so extra columns get
    numbers for names.
    """
    names = [*NODE_FIELDS, *(f"c{i}" for i in range(len(NODE_FIELDS), len(table.schema)))]
    schema = pa.schema(list(zip(names, table.schema.types, strict=True)))
    with pq.ParquetWriter(path, schema) as writer:
        for batch in table.batches():
            writer.write_batch(batch.rename_columns(names).cast(schema))


def _first_known(name: str, tables: Sequence[NodeTable]) -> str:
    """The value of a column in the first table that has one for a node."""
    known = [
        f"given_{i}.{name if name in NODE_FIELDS else f'c{table.schema.get_field_index(name)}'}"
        for i, table in enumerate(tables)
        if name in table.schema.names
    ]
    null = "NULL::VARCHAR[]" if name == "labels" else "NULL"
    return f"coalesce({', '.join([*known, null, null])})"


def _parquet(path: Path) -> str:
    return f"read_parquet('{_quote(path)}', file_row_number = true)"


def _quote(path: Path) -> str:
    return str(path).replace("'", "''")
