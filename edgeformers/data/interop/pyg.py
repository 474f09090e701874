"""Edge tables from and to graphs of PyTorch Geometric."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

from edgeformers.data.interop.shared import EPOCH, SIDES, Row, check_ids, checked_row
from edgeformers.data.table import EdgeTable
from edgeformers.errors import InputError, require, suggest

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

PLAIN_RELATION = "to"  # PyG's own name for the one relation between two node types
PYG_NAMES = {
    "label": "edge_label",
    "time": "edge_time",
    "edge_type": "edge_type",
    "weight": "edge_weight",
}


def table_from_pyg(
    data: "Data | HeteroData",
    *,
    text: str = "edge_text",
    label: str | None = None,
    time: str | None = None,
    weight: str | None = None,
) -> EdgeTable:
    """The edges of a PyG graph as a table: `Data` of one node type, `HeteroData` of two.

    `edge_text` is a list of strings. `edge_label`, `edge_time` (seconds since 1970), `edge_weight`
    and, in `Data`, `edge_type` are read where there are such attributes; another name that is
    given must be there. Ids are those of the nodes' `node_id` (a list or a tensor), or else their
    numbers. In `HeteroData` all edges go from one node type to another (or to the same); several
    relations between them become the column `edge_type`, one relation after the other, unless
    `edge_id` numbers the edges, as `table_to_pyg` does.
    """
    relations = _relations(data)
    given = {"label": label, "time": time, "weight": weight}
    given |= {"edge_type": None} if relations[0].name is None else {}
    columns = {"text": text}
    for column, name in given.items():
        usual = PYG_NAMES[column]
        if name or any(usual in relation.store for relation in relations):
            columns[column] = name or usual
    for relation in relations:
        relation.check_has([text, *filter(None, given.values())])

    def rows() -> Iterable[Row]:
        numbered = len(relations) > 1 and all("edge_id" in one.store for one in relations)
        wanted = {**columns, "edge_id": "edge_id"} if numbered else columns
        found = chain.from_iterable(relation.rows(wanted) for relation in relations)
        return sorted(found, key=lambda row: row["edge_id"]) if numbered else found

    names = [relation.name for relation in relations]
    return EdgeTable.from_rows(
        rows,
        fields={*columns, *([] if names in ([None], [PLAIN_RELATION]) else ["edge_type"])},
        origin=f"PyG {type(data).__name__}",
        bipartite=relations[0].ends[0] != relations[0].ends[1],
    )


@dataclass(frozen=True)
class _Relation:
    """The edges of one kind in a PyG graph, and what the nodes at their two ends are called."""

    name: str | None  # None in `Data`, which has but one
    ends: tuple[str, str]  # node types
    store: Any
    ids: tuple[list[str] | None, list[str] | None]  # of sources and targets; None: their numbers

    def __str__(self) -> str:
        source, target = self.ends
        return f"the edges '{source}', '{self.name}', '{target}'" if self.name else "the graph"

    def check_has(self, attributes: Iterable[str]) -> None:
        for name in attributes:
            if name not in self.store:
                present = sorted(self.store.keys())
                raise InputError(
                    f"{self}: there is no attribute '{name}'; {suggest(name, present)}"
                )

    def rows(self, columns: Mapping[str, str]) -> Iterator[Row]:
        sources, targets = map(self._named, self.ids, self.store["edge_index"].tolist())
        names = {c: name for c, name in columns.items() if name in self.store}
        values = [self._values(name, len(sources)) for name in names.values()]
        for i, (source, target, *found) in enumerate(zip(sources, targets, *values, strict=True)):
            row = {"edge_type": self.name, **dict(zip(names, found, strict=True))}
            yield {"source": source, "target": target, **checked_row(row, f"{self}, edge {i}")}

    def _values(self, name: str, num_edges: int) -> list[Any]:
        values = _as_list(self.store[name])
        if len(values) != num_edges:
            raise InputError(f"{self}: '{name}' has {len(values)} values for {num_edges} edges")
        return values

    def _named(self, ids: list[str] | None, numbers: list[int]) -> list[str]:
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
        raise InputError("the HeteroData has no edges of any type; a table needs one")
    source, _, target = data.edge_types[0]
    for kind in data.edge_types:
        if (kind[0], kind[2]) != (source, target):
            raise InputError(
                f"the edges {kind} do not go from '{source}' to '{target}' as {data.edge_types[0]} "
                "do; a table has one node type or two: leave the others out"
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

    Edges have `edge_text` (a list), and as far as the table knows them `edge_label`, `edge_time`
    in seconds since 1970 and `edge_weight`; nodes have `node_id` (a list), in the order in which
    they first appear. Labels written as integers are a tensor, others a list of strings; a column
    with a null is a list with None. `HeteroData` has the node types "source" and "target", and
    one relation for each `edge_type` ("to" where there is none), with the number of each row in
    `edge_id`; in `Data`, `edge_type` is an attribute.
    """
    pyg = require("torch_geometric.data", "pyg")
    columns = table.to_arrow().to_pydict()
    ends = [columns[side] for side in SIDES]
    if not table.bipartite:
        nodes = _number(chain.from_iterable(zip(*ends, strict=True)))
        data = pyg.Data(node_id=list(nodes), num_nodes=len(nodes))
        _fill(data, _edge_values(columns, (nodes, nodes)), range(len(ends[0])))
        return data
    sides = (_number(ends[0]), _number(ends[1]))
    data = pyg.HeteroData()
    for side, nodes in zip(SIDES, sides, strict=True):
        data[side].node_id, data[side].num_nodes = list(nodes), len(nodes)
    relations = _rows_by_relation(columns.pop("edge_type", [None] * len(ends[0])))
    values = _edge_values(columns, sides)
    for relation, rows in relations.items():
        _fill(data["source", relation, "target"], values, rows)
        if len(relations) > 1:
            data["source", relation, "target"].edge_id = values["edge_index"].new_tensor(rows)
    return data


def _number(ids: Iterable[str]) -> dict[str, int]:
    """Ids numbered in the order of their first appearance."""
    return {id_: number for number, id_ in enumerate(dict.fromkeys(ids))}


def _rows_by_relation(edge_types: list[str | None]) -> Mapping[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, edge_type in enumerate(edge_types):
        rows.setdefault(edge_type or PLAIN_RELATION, []).append(row)
    return rows or {PLAIN_RELATION: []}


def _edge_values(columns: Mapping[str, list[Any]], sides: Iterable[dict[str, int]]) -> Row:
    """The attributes of all edges as PyG has them, by PyG's names."""
    import torch

    numbers = [[nodes[i] for i in columns[s]] for s, nodes in zip(SIDES, sides, strict=True)]
    values = {"edge_index": torch.tensor(numbers, dtype=torch.long), "edge_text": columns["text"]}
    for column in columns.keys() & {"label", "edge_type"}:
        values[PYG_NAMES[column]] = _integers_or_strings(columns[column])
    if "time" in columns:
        values["edge_time"] = _tensor_or_list(map(_seconds, columns["time"]), torch.long)
    if "weight" in columns:
        values["edge_weight"] = _tensor_or_list(columns["weight"], torch.float)
    return values


def _fill(store: Any, values: Row, rows: Sequence[int]) -> None:
    """Give a PyG store the edges `rows`."""
    for name, column in values.items():
        if isinstance(column, list):
            store[name] = [column[row] for row in rows]
        else:
            store[name] = column[..., list(rows)]


def _integers_or_strings(values: list[str | None]) -> "Tensor | list[str | None]":
    import torch

    try:
        numbers = [int(value) for value in values if value is not None]
        if list(map(str, numbers)) == values:
            return torch.tensor(numbers, dtype=torch.long)
    except (ValueError, RuntimeError):  # not a number, or one beyond 64 bits
        pass
    return values


def _tensor_or_list(values: Iterable[Any], dtype: "torch.dtype") -> "Tensor | list[Any]":
    import torch

    found = list(values)
    return found if None in found else torch.tensor(found, dtype=dtype)


def _seconds(time: datetime | None) -> int | None:
    return None if time is None else (time - EPOCH) // timedelta(seconds=1)
