"""Edge tables from and to PyTorch Geometric graphs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

from edgeformers.data.interop.attributes import (
    EPOCH,
    SIDES,
    check_ids,
    convert_column,
    table_from_columns,
)
from edgeformers.data.table import EdgeTable
from edgeformers.errors import InputError, require, suggest

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

DEFAULT_RELATION = "to"  # PyG's name for the only relation between two node types


def table_from_pyg(
    data: "Data | HeteroData",
    *,
    text: str = "edge_text",
    label: str | None = None,
    time: str | None = None,
    weight: str | None = None,
) -> EdgeTable:
    """The edges of a PyG graph as a table: `Data` with one node type, `HeteroData` with two.

    `edge_text` is a list of strings. The attributes `edge_label`, `edge_time` (seconds since
    1970), `edge_weight` and, in `Data`, `edge_type` are read if they exist; other names that are
    given must exist. Ids are those of the nodes' `node_id` (a list or tensor), or else the node
    numbers. In `HeteroData`, all edges go between the same two node types (or one); several
    relations become the column `edge_type`, in order of the relations, or of `edge_id` if it
    exists, as in `table_to_pyg`.
    """
    relations = _relations(data)
    is_hetero = relations[0].name is not None
    given = {"text": text, "label": label, "time": time, "weight": weight}
    given |= {} if is_hetero else {"edge_type": None}
    attributes = {column: name or _attribute(column) for column, name in given.items()}
    for relation in relations:
        for name in filter(None, given.values()):
            if name not in relation.store:
                available = sorted(relation.store.keys())
                raise InputError(f"{relation}: no attribute '{name}'; {suggest(name, available)}")
    names = [
        column for column, name in attributes.items() if any(name in r.store for r in relations)
    ]
    columns: dict[str, list[Any]] = {name: [] for name in (*SIDES, *names)}
    if [relation.name for relation in relations] not in ([None], [DEFAULT_RELATION]):
        columns["edge_type"] = []
    for relation in relations:
        relation.append_to(columns, attributes)
    if len(relations) > 1 and all("edge_id" in relation.store for relation in relations):
        edge_ids = [i for relation in relations for i in _as_list(relation.store["edge_id"])]
        order = sorted(range(len(edge_ids)), key=edge_ids.__getitem__)
        columns = {name: [values[i] for i in order] for name, values in columns.items()}
    return table_from_columns(
        columns,
        origin=f"PyG {type(data).__name__}",
        bipartite=relations[0].ends[0] != relations[0].ends[1],
    )


@dataclass(frozen=True)
class _Relation:
    """The edges of one relation of a PyG graph, and the ids of the nodes they join."""

    name: str | None  # None in `Data`
    ends: tuple[str, str]  # node types
    store: Any
    ids: tuple[list[str] | None, list[str] | None]  # of sources and targets; None: numbers

    def __str__(self) -> str:
        source, target = self.ends
        return f"the edges '{source}', '{self.name}', '{target}'" if self.name else "the graph"

    def append_to(self, columns: dict[str, list[Any]], attributes: dict[str, str]) -> None:
        """Append the edges to columns of an edge table."""
        ends = self.store["edge_index"].tolist()
        count = len(ends[0])
        for side, ids, numbers in zip(SIDES, self.ids, ends, strict=True):
            columns[side] += self._node_ids(ids, numbers)
        for column in columns.keys() - SIDES:
            name = attributes.get(column)
            values = [self.name if name is None else None] * count
            if name in self.store:
                values = _as_list(self.store[name])
            if len(values) != count:
                raise InputError(f"{self}: '{name}' has {len(values)} values for {count} edges")
            columns[column] += convert_column(column, values, lambda i: f"{self}, edge {i}")

    def _node_ids(self, ids: list[str] | None, numbers: list[int]) -> list[str]:
        if ids is None:
            return list(map(str, numbers))
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(ids):
            raise InputError(
                f"{self}: 'node_id' has {len(ids)} ids, but the edges join nodes "
                f"{min(numbers)} to {max(numbers)}"
            )
        return [ids[number] for number in numbers]


def _relations(data: "Data | HeteroData") -> list[_Relation]:
    if not hasattr(data, "edge_types"):
        ids = _ids(data)
        return [_Relation(None, ("node", "node"), data, (ids, ids))]
    if not data.edge_types:
        raise InputError("the HeteroData has no edges; a table needs an edge type")
    source, _, target = data.edge_types[0]
    for kind in data.edge_types:
        if (kind[0], kind[2]) != (source, target):
            raise InputError(
                f"the edges {kind} do not go from '{source}' to '{target}' as {data.edge_types[0]} "
                "do; a table has at most two node types: remove the others"
            )
    ids_of = (_ids(data[source]), _ids(data[target]))
    return [_Relation(k[1], (source, target), data[k], ids_of) for k in data.edge_types]


def _ids(store: Any) -> list[str] | None:
    if "node_id" not in store:
        return None
    ids = [str(id_) for id_ in _as_list(store["node_id"])]
    check_ids((0, id_) for id_ in ids)
    return ids


def _as_list(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def table_to_pyg(table: EdgeTable) -> "Data | HeteroData":
    """A PyG graph with the table's edges: `HeteroData` if bipartite, `Data` otherwise.

    Edges have `edge_text` (a list) and, if the table has these columns, `edge_label`,
    `edge_time` in seconds since 1970 and `edge_weight`; nodes have `node_id` (a list), in order
    of first appearance. Integer labels are a tensor, others a list of strings; a column with
    nulls is a list with None. `HeteroData` has the node types "source" and "target" and one
    relation per `edge_type` ("to" if there is none), with the row numbers in `edge_id`; in
    `Data`, `edge_type` is an attribute.
    """
    pyg = require("torch_geometric.data", "pyg")
    columns = table.to_arrow().to_pydict()
    sources, targets = (columns[side] for side in SIDES)
    if table.bipartite:
        nodes = (_number(sources), _number(targets))
        data = pyg.HeteroData()
        for side, numbers in zip(SIDES, nodes, strict=True):
            data[side].node_id, data[side].num_nodes = list(numbers), len(numbers)
    else:
        numbers = _number(chain.from_iterable(zip(sources, targets, strict=True)))
        nodes = (numbers, numbers)
        data = pyg.Data(node_id=list(numbers), num_nodes=len(numbers))
    relations: dict[str, list[int]] = {} if sources else {DEFAULT_RELATION: []}
    edge_types = columns.pop("edge_type", []) if table.bipartite else []
    for row, edge_type in enumerate(edge_types or [None] * len(sources)):
        relations.setdefault(edge_type or DEFAULT_RELATION, []).append(row)
    attributes = _edge_attributes(columns, nodes)
    for relation, rows in relations.items():
        store = data["source", relation, "target"] if table.bipartite else data
        for name, values in attributes.items():
            is_list = isinstance(values, list)
            store[name] = [values[row] for row in rows] if is_list else values[..., rows]
        if len(relations) > 1:
            store.edge_id = attributes["edge_index"].new_tensor(rows)
    return data


def _number(ids: Iterable[str]) -> dict[str, int]:
    """Ids numbered in order of first appearance."""
    return {id_: number for number, id_ in enumerate(dict.fromkeys(ids))}


def _edge_attributes(
    columns: dict[str, list[Any]], nodes: Iterable[dict[str, int]]
) -> dict[str, Any]:
    """The attributes of all edges by their PyG names: tensors, or lists if that is impossible."""
    import torch

    ends = [[numbers[i] for i in columns[s]] for s, numbers in zip(SIDES, nodes, strict=True)]
    values = {"edge_index": torch.tensor(ends, dtype=torch.long), "edge_text": columns["text"]}
    for column in columns.keys() & {"label", "edge_type", "time", "weight"}:
        items = columns[column]
        if column == "time":
            items = [time and (time - EPOCH) // timedelta(seconds=1) for time in items]
        is_text = column in ("label", "edge_type")
        try:
            numbers = [int(item) for item in items] if is_text else items
            is_exact = not is_text or list(map(str, numbers)) == items
            dtype = torch.float if column == "weight" else torch.long
            values[_attribute(column)] = torch.tensor(numbers, dtype=dtype) if is_exact else items
        except (TypeError, ValueError, RuntimeError):  # null, not an integer, or beyond 64 bits
            values[_attribute(column)] = items
    return values


def _attribute(column: str) -> str:
    return f"edge_{column.removeprefix('edge_')}"
