"""StoreMerge: a table of edges with what the stores of a server added and removed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.edge_store import EdgeStore, StoredEdge
from edgeformers.data.readers.values import excerpt, parse_numbers
from edgeformers.data.table import EdgeTable, rows_to_batches, split_labels
from edgeformers.errors import InputError


@dataclass(kw_only=True)
class _Counts:
    """What a store changes."""

    added: int = 0  # edges
    removed: int = 0  # edges of the table


class StoreMerge:
    """Reads a table without the nodes that stores removed, then the edges of the stores.

    Stores are snapshots, so that every reading gives the same rows. Stored edges are training
    edges in splits by a column (`parts`), and without a time have that of their arrival.
    """

    def __init__(
        self, table: EdgeTable, stores: Sequence[EdgeStore], parts: Collection[str] = ()
    ) -> None:
        self._table, self._stores, self._parts = table, stores, parts
        self._counts = [_Counts() for _ in stores]
        ids = [store.id for store in stores]
        for at, store in enumerate(stores):
            if ids[at] in ids[:at]:
                raise InputError(f"{store.path} is given twice in `add=`; give each store once")
        self.table = replace(table, open=self._batches, place=None) if stores else table

    def records(self) -> list[dict[str, Any]]:
        """For the metadata of the network: each store and the last change that it contains."""
        return [
            {
                "id": store.id,
                "path": str(store.path),
                "sequence": store.last_sequence,
                "added": counts.added,
                "removed": counts.removed,
            }
            for store, counts in zip(self._stores, self._counts, strict=True)
        ]

    def notes(self) -> list[str]:
        """For the data card: what was added and removed."""
        notes = []
        for store, counts in zip(self._stores, self._counts, strict=True):
            notes.append(f"{counts.added:,} edges were added from {store.path.name}")
            if store.removals():
                removed = f"{counts.removed:,} edges of nodes whose edges were removed in"
                notes.append(f"{removed} {store.path.name} were left out")
        return notes

    def _batches(self) -> Iterator[pa.RecordBatch]:
        self._counts = [_Counts() for _ in self._stores]
        removed = [self._removed_ids(store) for store in self._stores]
        for batch in self._table.open():
            for counts, sides in zip(self._counts, removed, strict=True):
                rows = batch.num_rows
                for side, ids in sides.items():
                    is_removed = pc.is_in(batch.column(side), value_set=ids)
                    batch = batch.filter(pc.invert(is_removed))
                counts.removed += rows - batch.num_rows
            yield batch
        for counts, store in zip(self._counts, self._stores, strict=True):
            last = 0
            while edges := store.edges_after(last):
                last = edges[-1].sequence
                rows = [self._row(edge) for edge in edges if self._is_usable(store, edge)]
                yield from rows_to_batches(rows, self._table.schema)
                counts.added += len(rows)

    def _removed_ids(self, store: EdgeStore) -> dict[str, pa.Array]:
        """The ids whose edges were removed, on each side; with one node type both are the same."""
        sides = {}
        for side in ("source", "target"):
            is_meant = (side, None) if self._table.bipartite else ("source", "target", None)
            ids = {removal.node for removal in store.removals() if removal.side in is_meant}
            sides[side] = pa.array(sorted(ids), pa.string())
        return {side: ids for side, ids in sides.items() if len(ids)}

    def _row(self, edge: StoredEdge) -> dict[str, Any]:
        """The columns of a stored edge; those that the table does not have are ignored."""
        time = edge.received if edge.time is None else edge.time
        row = {"source": edge.source, "target": edge.target, "text": edge.text, "time": time}
        return {**row, "label": edge.label} | {
            name: "train"
            for name in self._parts
            if name in self._table.schema.names
            and pa.types.is_string(self._table.schema.field(name).type)
        }

    def _is_usable(self, store: EdgeStore, edge: StoredEdge) -> bool:
        """Whether the label is one that the table may have; a wrong one is reported."""
        table = self._table
        if edge.label is None or "label" not in table.schema.names:
            return True
        problem = ""
        if table.label_kind == "number":
            if parse_numbers(pa.array([edge.label]))[0].as_py() is None:
                problem = "is not a number; write it as 3.5"
        elif table.classes is not None:
            labels = {*split_labels(edge.label, table.label_separator)}
            if not labels <= {*table.classes}:
                problem = f"is not one of {', '.join(table.classes)}"
        if problem:
            where = f"{store.path}, edge {edge.sequence} ('{excerpt(edge.source)}' to "
            where += f"'{excerpt(edge.target)}')"
            table.errors.report(f"{where}: the label '{excerpt(edge.label)}' {problem}")
        return not problem
