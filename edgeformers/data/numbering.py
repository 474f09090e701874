"""Numbering nodes in order of first appearance, and joining node tables by bucket."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from edgeformers.data.id_table import IdTable
from edgeformers.data.table import BATCH_ROWS, NODE_FIELDS, NodeTable, read_parquet
from edgeformers.data.types import Ids, IntArray, Side
from edgeformers.errors import InputError

BUCKET_NODES = 2**18  # nodes whose rows of the node tables are joined at a time
MAX_BUCKETS = 64  # each is an open file


class NodeNumbering:
    """Node numbers for the edges of a table, and the table of nodes in that order.

    In a bipartite network sources are numbered first, then targets; otherwise all nodes share
    one numbering. Ids are held in memory (see `IdTable`), node tables in files.
    """

    def __init__(self, *, bipartite: bool, scratch: Path) -> None:
        self.bipartite = bipartite
        self.scratch = scratch
        self._sources = IdTable()
        self._targets = IdTable() if bipartite else self._sources

    @property
    def num_sources(self) -> int:
        return len(self._sources)

    @property
    def num_nodes(self) -> int:
        return self.first_target + len(self._targets)

    @property
    def first_target(self) -> int:
        """The number of the first target: what to add to the target numbers of `add_edges`."""
        return len(self._sources) if self.bipartite else 0

    def add_edges(self, sources: pa.Array, targets: pa.Array) -> tuple[IntArray, IntArray]:
        """The source and target numbers of the next edges; targets are counted from the first."""
        if self.bipartite:
            return self._sources.add(sources), self._targets.add(targets)
        order = np.arange(2 * len(sources)).reshape(2, -1).T.ravel()  # source, target, source, ...
        numbers = self._sources.add(pa.concat_arrays([sources, targets]).take(pa.array(order)))
        return numbers[::2], numbers[1::2]

    def add_tables(self, tables: Sequence[NodeTable], *, keep_isolated: bool) -> list[str]:
        """Read node tables; returns notes on nodes without edges.

        If an id has several rows, the first one counts.
        """
        notes: list[str] = []
        for i, table in enumerate(tables):
            notes += self._add_table(table, self._path(i), keep_isolated=keep_isolated)
        for i in range(len(tables)):  # only now is every node numbered
            self._sort_into_buckets(i)
        return notes

    def node_batches(
        self, tables: Sequence[NodeTable]
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows of the table of nodes by number: id, side, labels, text and extra columns."""
        types = dict(NODE_FIELDS)
        for table in tables:
            for field in list(table.schema)[len(NODE_FIELDS) :]:
                types.setdefault(field.name, field.type)
        schema = pa.schema(types)
        return schema, self._node_batches(tables, schema)

    def _add_table(self, table: NodeTable, path: Path, *, keep_isolated: bool) -> list[str]:
        """Copy a node table to a file, and find or number its nodes without edges."""
        example, before = None, (len(self._sources), len(self._targets))
        known, isolated = _SidedIds(), _SidedIds()
        with pq.ParquetWriter(path, _numbered_names(table.schema)) as writer:
            for batch in table.batches():
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=writer.schema))
                ids, sides = batch.column("id"), batch.column("side")
                example = ids[0] if example is None and len(ids) else example
                found = zip(self._find(ids, sides), before, strict=False)
                is_isolated = np.all([(n < 0) | (n >= count) for n, count in found], axis=0)
                known.add(ids, sides)
                ids, sides = ids.filter(pa.array(is_isolated)), sides.filter(pa.array(is_isolated))
                isolated.add(ids, sides)
                if keep_isolated:
                    self._add_isolated(ids, sides)
        count, total = len(isolated), len(known)
        if total and count == total:
            raise InputError(
                f"{table.origin}: none of its {total:,} ids (such as '{example}') occurs in the "
                "edges; check the id column and the side"
            )
        if count and keep_isolated:
            added = self.num_nodes - (sum(before) if self.bipartite else before[0])
            return [f"{added:,} nodes in {table.origin} have no edge and were kept"]
        return [
            f"{count:,} of the {total:,} nodes in {table.origin} have no edge and were dropped; "
            "keep them with --keep-isolated"
        ][: bool(count)]

    def _add_isolated(self, ids: pa.Array, sides: pa.Array) -> None:
        is_source = pc.fill_null(pc.equal(sides, "source"), False)
        self._sources.add(ids.filter(is_source))
        self._targets.add(ids.filter(pc.invert(is_source)))

    def _find(self, ids: pa.Array, sides: pa.Array) -> list[IntArray]:
        """The numbers of rows of a node table on each side; -1 if unknown or of the other side."""
        if not self.bipartite:
            return [self._sources.find(ids)]
        found = []
        for side, table in zip(get_args(Side), (self._sources, self._targets), strict=True):
            applies = pc.fill_null(pc.equal(sides, side), True).to_numpy(zero_copy_only=False)
            found.append(np.where(applies, table.find(ids), -1))
        return found

    def _sort_into_buckets(self, place: int) -> None:
        """Divide the rows of a node table into files by ranges of node numbers."""
        with ExitStack() as stack, pq.ParquetFile(self._path(place), memory_map=True) as staged:
            schema = staged.schema_arrow.append(pa.field("number", pa.int64()))
            writers: dict[int, pq.ParquetWriter] = {}
            for batch in staged.iter_batches(BATCH_ROWS):
                found = self._find(batch.column(0), batch.column(1))
                for first, numbers in zip((0, self.first_target), found, strict=False):
                    nodes = np.where(numbers >= 0, numbers + np.int64(first), -1)
                    rows = batch.append_column("number", pa.array(nodes))
                    buckets = nodes // self._bucket_size  # -1: unknown
                    for bucket in np.unique(buckets[buckets >= 0]).tolist():
                        if bucket not in writers:
                            writer = pq.ParquetWriter(self._path(place, bucket), schema)
                            writers[bucket] = stack.enter_context(writer)
                        writers[bucket].write_batch(rows.filter(pa.array(buckets == bucket)))

    def _node_batches(
        self, tables: Sequence[NodeTable], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        for bucket in range(-(-self.num_nodes // self._bucket_size)):
            first = bucket * self._bucket_size
            nodes = np.arange(first, min(first + self._bucket_size, self.num_nodes))
            joined = [self._bucket_rows(i, bucket, nodes) for i in range(len(tables))]
            for start in range(0, len(nodes), BATCH_ROWS):
                part = nodes[start : start + BATCH_ROWS]
                yield pa.RecordBatch.from_arrays(
                    [self._ids(part), self._sides(part)]
                    + [
                        _coalesce(field, tables, joined, slice(start, start + len(part)))
                        for field in list(schema)[2:]
                    ],
                    schema=schema,
                )

    def _bucket_rows(self, place: int, bucket: int, nodes: Ids) -> tuple[pa.Table, pa.Array] | None:
        """The rows of a node table in a bucket, and the first row of each node (null: none)."""
        path = self._path(place, bucket)
        if not path.exists():
            return None
        table = read_parquet(path)
        numbers, rows = np.unique(table.column("number").to_numpy(), return_index=True)
        first = np.full(len(nodes), -1)
        first[numbers - nodes[0]] = rows
        return table, pa.array(first, mask=first < 0)

    def _ids(self, nodes: Ids) -> pa.Array:
        """The ids of consecutive nodes."""
        ends = np.array([nodes[0], nodes[-1] + 1])
        ids = [self._sources.strings(*np.minimum(ends, self.num_sources))]
        if self.bipartite:
            ids.append(self._targets.strings(*np.maximum(ends - self.num_sources, 0)))
        return pa.concat_arrays(ids)

    def _sides(self, nodes: Ids) -> pa.Array:
        if not self.bipartite:
            return pa.nulls(len(nodes), pa.string())
        return pa.array(get_args(Side)).take(pa.array((nodes >= self.num_sources).astype(int)))

    @property
    def _bucket_size(self) -> int:
        return max(BUCKET_NODES, -(-self.num_nodes // MAX_BUCKETS))

    def _path(self, table: int, bucket: int | None = None) -> Path:
        return self.scratch / f"nodes-{table}{'' if bucket is None else f'-{bucket}'}.parquet"


class _SidedIds:
    """Counts different pairs of an id and a side."""

    def __init__(self) -> None:
        self._by_side: dict[str | None, IdTable] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_side.values()))

    def add(self, ids: pa.Array, sides: pa.Array) -> None:
        for side in sides.unique():
            is_side = pc.equal(sides, side) if side.is_valid else pc.is_null(sides)
            table = self._by_side.setdefault(side.as_py(), IdTable())
            table.add(ids.filter(pc.fill_null(is_side, False)))


def _numbered_names(schema: pa.Schema) -> pa.Schema:
    """A schema with the same types whose names are numbers, so that no name is in use."""
    return pa.schema([(str(i), field.type) for i, field in enumerate(schema)])


def _coalesce(
    field: pa.Field,
    tables: Sequence[NodeTable],
    joined: Sequence[tuple[pa.Table, pa.Array] | None],
    part: slice,
) -> pa.Array:
    """The values of a column for some nodes, from the first table that has one."""
    length = part.stop - part.start
    values = pa.nulls(length, field.type)
    for table, rows in zip(tables, joined, strict=True):
        place = table.schema.get_field_index(field.name)
        if rows is not None and place >= 0:
            column = rows[0].column(place).take(rows[1].slice(part.start, length))
            values = pc.coalesce(values, column.combine_chunks().cast(field.type))
    return values
