"""Converts edge tables from and to networkx and PyG graphs, and from prepared networks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.table import EdgeTable, naive_utc, rebatch
from edgeformers.errors import InputError, require, suggest

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data, HeteroData

SIDES = ("source", "target")
EPOCH = datetime(1970, 1, 1)
SEPARATORS = "|;,/\t\x1f"  # of several labels; the first that occurs in no label is used
DEFAULT_RELATION = "to"  # PyG's name for the only relation between two node types

Edge = tuple[Any, Any, dict[str, Any]]


def graph_table(graph: EdgeTextGraph) -> EdgeTable:
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
    graph: EdgeTextGraph, schema: pa.Schema, separator: str | None
) -> Iterator[pa.RecordBatch]:
    with (
        pq.ParquetFile(graph.path / "edges.parquet", memory_map=True) as edges,
        pq.ParquetFile(graph.path / "texts.parquet", memory_map=True) as texts,
    ):
        start = 0
        pairs = zip(rebatch(edges.iter_batches()), rebatch(texts.iter_batches()), strict=True)
        for rows, text in pairs:
            ends = [pa.array(graph.node_names(rows.column(end)), pa.string()) for end in (0, 1)]
            columns = [*ends, text.column(0), *(rows.column(name) for name in schema.names[3:])]
            if separator is not None and graph.labels is not None:
                has_label = np.asarray(graph.labels[start : start + rows.num_rows])
                codes = map(np.flatnonzero, has_label)
                labels = [separator.join(graph.label_names[i] for i in row) for row in codes]
                joined = pa.array([text or None for text in labels], pa.string())
                columns[schema.get_field_index("label")] = joined
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            start += rows.num_rows


def table_from_networkx(
    graph: "nx.Graph",
    *,
    text: str = "text",
    label: str | None = None,
    time: str | None = None,
    edge_type: str | None = None,
    weight: str | None = None,
    bipartite: bool | None = None,
) -> EdgeTable:
    """The edges of any networkx graph as a table; the arguments name edge attributes.

    Ids are the nodes as strings; isolated nodes are not part of a table. Rows are in the order
    of the graph, or in the order of the keys if all keys of a multigraph are distinct integers,
    as in `table_to_networkx`. A missing attribute is null. Times are datetimes, ISO dates or
    seconds since 1970.

    A graph is bipartite if its nodes have the networkx attribute `bipartite`, 0 for sources and
    1 for targets, unless `bipartite` is False. The ends of an undirected edge are put in this
    order, and nodes ("source", "7") are read as "7".
    """
    names = {"text": text, "label": label, "time": time, "edge_type": edge_type, "weight": weight}
    attributes = {column: name for column, name in names.items() if name is not None}
    edges = _edges(graph)
    available = {str(name) for *_, values in edges for name in values}
    for name in attributes.values():
        if edges and name not in available:
            raise InputError(f"no edge has the attribute '{name}'; {suggest(name, available)}")
    sides = _sides(graph, bipartite)
    ids = _string_ids(graph, sides)
    pairs = [_orient(graph, sides, u, v) for u, v, _ in edges]
    columns: dict[str, list[Any]] = {
        "source": [ids[source] for source, _ in pairs],
        "target": [ids[target] for _, target in pairs],
    }
    for column, name in attributes.items():
        values = (attributes.get(name) for *_, attributes in edges)
        columns[column] = convert_column(
            column, values, lambda i: f"edge {edges[i][0]!r} -> {edges[i][1]!r}"
        )
    return table_from_columns(
        columns,
        origin=f"networkx {type(graph).__name__}",
        bipartite=sides is not None,
        directed=graph.is_directed(),
    )


def table_to_networkx(table: EdgeTable) -> "nx.MultiDiGraph | nx.MultiGraph":
    """A multigraph with one edge per row, whose key is the row number.

    All other columns are edge attributes, null as None. Nodes are the ids; in a bipartite table
    they are ("source", id) and ("target", id), with the attribute `bipartite` 0 or 1.
    """
    networkx = require("networkx", "networkx")
    graph = networkx.MultiDiGraph() if table.directed else networkx.MultiGraph()
    arrow = table.to_arrow()
    ends: list[list[Any]] = [arrow.column(side).to_pylist() for side in SIDES]
    if table.bipartite:
        ends = [[(side, id_) for id_ in ids] for side, ids in zip(SIDES, ends, strict=True)]
    for number, nodes in enumerate(ends):
        # all sources first, so that a directed graph lists its edges in the order of the rows
        graph.add_nodes_from(nodes, **({"bipartite": number} if table.bipartite else {}))
    attributes = arrow.drop_columns(list(SIDES)).to_pylist()
    graph.add_edges_from(zip(*ends, range(arrow.num_rows), attributes, strict=True))
    return graph


def _edges(graph: "nx.Graph") -> list[Edge]:
    if not graph.is_multigraph():
        return list(graph.edges(data=True))
    edges = list(graph.edges(keys=True, data=True))
    keys = {key for _, _, key, _ in edges if type(key) is int}
    if len(keys) == len(edges):
        edges.sort(key=lambda edge: edge[2])
    return [(u, v, attributes) for u, v, _, attributes in edges]


def _sides(graph: "nx.Graph", bipartite: bool | None) -> Mapping[Any, int] | None:
    """The side of each node, or None if the graph is not bipartite."""
    sides = {
        node: data["bipartite"] for node, data in graph.nodes(data=True) if "bipartite" in data
    }
    if bipartite is False or (bipartite is None and not sides):
        return None
    for node in graph:
        if sides.get(node) not in (0, 1):
            raise InputError(
                f"node {node!r}: the attribute 'bipartite' must be 0 (source) or 1 (target) on "
                f"every node (got {sides.get(node)!r}); or pass bipartite=False"
            )
    return {node: int(side) for node, side in sides.items()}


def _string_ids(graph: "nx.Graph", sides: Mapping[Any, int] | None) -> Mapping[Any, str]:
    """The id of each node, distinct within each side."""
    ids = {node: str(node) for node in graph}
    if sides is not None and all(_has_side(node, SIDES[sides[node]]) for node in graph):
        ids = {node: node[1] for node in graph}
    check_ids([(sides[node] if sides else 0, id_) for node, id_ in ids.items()])
    return ids


def _has_side(node: Any, side: str) -> bool:
    return isinstance(node, tuple) and len(node) == 2 and node[0] == side and type(node[1]) is str


def _orient(graph: "nx.Graph", sides: Mapping[Any, int] | None, u: Any, v: Any) -> tuple[Any, Any]:
    """(source, target) of an edge."""
    if sides is None or (sides[u], sides[v]) == (0, 1):
        return u, v
    if sides[u] == sides[v] or graph.is_directed():
        raise InputError(
            f"edge {u!r} -> {v!r} goes from a node with bipartite={sides[u]} to one with "
            f"{sides[v]}; edges of a directed bipartite graph go from 0 to 1"
        )
    return v, u


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
    source, target, stores = _relations(data)
    ids = [_node_ids(data if None in stores else data[kind]) for kind in (source, target)]
    given = {"text": text, "label": label, "time": time, "weight": weight}
    given |= {"edge_type": None} if None in stores else {}
    attributes = {column: name or _attribute(column) for column, name in given.items()}
    names = [c for c, name in attributes.items() if any(name in s for s in stores.values())]
    columns: dict[str, list[Any]] = {name: [] for name in (*SIDES, *names)}
    if list(stores) not in ([None], [DEFAULT_RELATION]):
        columns["edge_type"] = []
    for relation, store in stores.items():
        where = f"the edges '{source}', '{relation}', '{target}'" if relation else "the graph"

        def place(edge: int, where: str = where) -> str:
            return f"{where}, edge {edge}"

        for required in filter(None, given.values()):
            if required not in store:
                known = suggest(required, sorted(store.keys()))
                raise InputError(f"{where}: no attribute '{required}'; {known}")
        ends = store["edge_index"].tolist()
        for side, side_ids, numbers in zip(SIDES, ids, ends, strict=True):
            columns[side] += _ids_of(numbers, side_ids, where)
        for column in columns.keys() - SIDES:
            name = attributes.get(column)
            values = [relation if name is None else None] * len(ends[0])
            if name in store:
                values = _as_list(store[name])
            if len(values) != len(ends[0]):
                raise InputError(
                    f"{where}: '{name}' has {len(values)} values for {len(ends[0])} edges"
                )
            columns[column] += convert_column(column, values, place)
    if len(stores) > 1 and all("edge_id" in store for store in stores.values()):
        edge_ids = [i for store in stores.values() for i in _as_list(store["edge_id"])]
        order = sorted(range(len(edge_ids)), key=edge_ids.__getitem__)
        columns = {name: [values[i] for i in order] for name, values in columns.items()}
    return table_from_columns(
        columns, origin=f"PyG {type(data).__name__}", bipartite=source != target
    )


def _relations(data: "Data | HeteroData") -> tuple[str, str, dict[str | None, Any]]:
    """The types of sources and targets, and the edges of each relation (None in `Data`)."""
    if not hasattr(data, "edge_types"):
        return "node", "node", {None: data}
    if not data.edge_types:
        raise InputError("the HeteroData has no edges; a table needs an edge type")
    source, _, target = data.edge_types[0]
    for kind in data.edge_types:
        if (kind[0], kind[2]) != (source, target):
            raise InputError(
                f"the edges {kind} do not go from '{source}' to '{target}' as {data.edge_types[0]} "
                "do; a table has at most two node types: remove the others"
            )
    return source, target, {kind[1]: data[kind] for kind in data.edge_types}


def _ids_of(numbers: list[int], ids: list[str] | None, where: str) -> list[str]:
    if ids is None:
        return list(map(str, numbers))
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(ids):
        raise InputError(
            f"{where}: 'node_id' has {len(ids)} ids, but the edges join nodes {min(numbers)} to "
            f"{max(numbers)}"
        )
    return [ids[number] for number in numbers]


def _node_ids(store: Any) -> list[str] | None:
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


def table_from_columns(
    columns: Mapping[str, Sequence[Any]], *, origin: str, bipartite: bool, directed: bool = True
) -> EdgeTable:
    """An edge table from converted columns, with the ids of `source` and `target` as strings."""
    names, values = list(columns), list(columns.values())
    return EdgeTable.from_rows(
        lambda: (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)),
        fields=names,
        origin=origin,
        bipartite=bipartite,
        directed=directed,
    )


def convert_column(name: str, values: Iterable[Any], where: Callable[[int], str]) -> list[Any]:
    """Attribute values in the type of the canonical column `name`; NaN becomes null.

    `where(i)` names edge i in error messages.
    """
    convert, expected = CONVERTERS[name]
    column: list[Any] = []
    for i, value in enumerate(values):
        try:
            column.append(None if value is None or _is_nan(value) else convert(value))
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"{where(i)}: the {name} is {value!r}, but must be {expected}"
            ) from None
    return column


def check_ids(ids: Iterable[tuple[Any, str]]) -> None:
    """Raise unless all (side, id) pairs are distinct and no id is empty."""
    seen = set()
    for side, id_ in ids:
        if not id_:
            raise InputError("a node has an empty id; every node needs an id")
        if (side, id_) in seen:
            raise InputError(f"two nodes have the id '{id_}'; ids must differ as strings")
        seen.add((side, id_))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating | datetime | np.datetime64) and value != value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _utc(value: Any) -> datetime:
    """A UTC datetime without a zone, from any common representation of a time."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return naive_utc(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return EPOCH + timedelta(seconds=value.item() if isinstance(value, np.number) else value)


#: Column -> its conversion, and what a value must be.
CONVERTERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text": (_text, "a string or None"),
    "label": (str, "a string"),
    "edge_type": (str, "a string"),
    "time": (_utc, "a datetime, an ISO date such as '2024-01-31T12:00', or seconds since 1970"),
    "weight": (float, "a number"),
}
