"""Edge tables from and to networkx graphs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgeformers.data.interop.attributes import (
    SIDES,
    check_ids,
    convert_column,
    table_from_columns,
)
from edgeformers.data.table import EdgeTable
from edgeformers.errors import InputError, require, suggest

if TYPE_CHECKING:
    import networkx as nx

Edge = tuple[Any, Any, dict[str, Any]]


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
    ids = _ids(graph, sides)
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


def _ids(graph: "nx.Graph", sides: Mapping[Any, int] | None) -> Mapping[Any, str]:
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
