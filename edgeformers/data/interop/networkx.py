"""Edge tables from and to graphs of networkx."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgeformers.data.interop.shared import SIDES, Row, check_ids, checked_row
from edgeformers.data.table import EdgeTable
from edgeformers.errors import InputError, require, suggest

if TYPE_CHECKING:
    import networkx as nx


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
    """The edges of any networkx graph as a table; the columns are edge attributes, by name.

    Ids are the nodes written as strings; nodes without an edge are not in a table. Rows come in
    the graph's own order, or, where all keys of a multigraph are different integers, in that of
    the keys (so `table_to_networkx` numbers them). An edge that lacks a named attribute has null.

    Sides of a bipartite graph are read from the node attribute `bipartite`, 0 for sources and 1
    for targets, as networkx has it: where there is one, unless `bipartite` is False. The ends of
    an undirected edge are put in this order, and nodes ("source", "7") are read as "7". A time
    is a datetime, an ISO date, or seconds since 1970.
    """
    names = {"text": text, "label": label, "time": time, "edge_type": edge_type, "weight": weight}
    columns = {column: name for column, name in names.items() if name is not None}
    present = {str(name) for *_, attributes in graph.edges(data=True) for name in attributes}
    for name in columns.values():
        if name not in present and graph.number_of_edges():
            raise InputError(
                f"no edge of the graph has the attribute '{name}'; {suggest(name, present)}"
            )
    sides = _sides(graph, bipartite)
    ids = _ids(graph, sides)

    def rows() -> Iterator[Row]:
        for u, v, attributes in _edges(graph):
            source, target = _orient(graph, sides, u, v)
            row = {column: attributes.get(name) for column, name in columns.items()}
            where = f"edge {u!r} -> {v!r}"
            yield {"source": ids[source], "target": ids[target], **checked_row(row, where)}

    return EdgeTable.from_rows(
        rows,
        fields=columns,
        origin=f"networkx {type(graph).__name__}",
        bipartite=sides is not None,
        directed=graph.is_directed(),
    )


def table_to_networkx(table: EdgeTable) -> "nx.MultiDiGraph | nx.MultiGraph":
    """A multigraph with an edge for every row; its key is the row's number.

    Edges carry all other columns as attributes, null as None. Nodes are the ids; in a bipartite
    table they are ("source", id) and ("target", id), with the attribute `bipartite` 0 or 1.
    """
    networkx = require("networkx", "networkx")
    graph = networkx.MultiDiGraph() if table.directed else networkx.MultiGraph()
    arrow = table.to_arrow()
    ends: list[list[Any]] = [arrow.column(side).to_pylist() for side in SIDES]
    if table.bipartite:
        ends = [[(side, id_) for id_ in ids] for side, ids in zip(SIDES, ends, strict=True)]
    for number, nodes in enumerate(ends):
        # all sources first, so that the graph lists a directed table's edges in their order
        graph.add_nodes_from(nodes, **({"bipartite": number} if table.bipartite else {}))
    attributes = arrow.drop_columns(list(SIDES)).to_pylist()
    graph.add_edges_from(zip(*ends, range(arrow.num_rows), attributes, strict=True))
    return graph


def _sides(graph: "nx.Graph", bipartite: bool | None) -> Mapping[Any, int] | None:
    """Which side each node is on, or None for a graph of one node type."""
    if bipartite is False:
        return None
    sides = {
        node: data["bipartite"] for node, data in graph.nodes(data=True) if "bipartite" in data
    }
    if bipartite is None and not sides:
        return None
    for node in graph:
        if sides.get(node) not in (0, 1):
            raise InputError(
                f"node {node!r}: the attribute 'bipartite' must be 0 (a source) or 1 (a target) on "
                f"every node (got {sides.get(node)!r}); or give bipartite=False"
            )
    return {node: int(side) for node, side in sides.items()}


def _ids(graph: "nx.Graph", sides: Mapping[Any, int] | None) -> Mapping[Any, str]:
    """Every node's id; on one side no two nodes may have the same."""
    if sides is not None and all(_is_sided(node, SIDES[sides[node]]) for node in graph):
        ids = {node: node[1] for node in graph}
    else:
        ids = {node: str(node) for node in graph}
    check_ids([(sides[node] if sides else 0, id_) for node, id_ in ids.items()])
    return ids


def _is_sided(node: Any, side: str) -> bool:
    return isinstance(node, tuple) and len(node) == 2 and node[0] == side and type(node[1]) is str


def _edges(graph: "nx.Graph") -> Iterator[tuple[Any, Any, Row]]:
    if not graph.is_multigraph():
        yield from graph.edges(data=True)
        return
    edges = list(graph.edges(keys=True, data=True))
    keys = {key for _, _, key, _ in edges if type(key) is int}
    if len(keys) == len(edges):
        edges.sort(key=lambda edge: edge[2])
    for u, v, _, attributes in edges:
        yield u, v, attributes


def _orient(graph: "nx.Graph", sides: Mapping[Any, int] | None, u: Any, v: Any) -> tuple[Any, Any]:
    if sides is None or (sides[u], sides[v]) == (0, 1):
        return u, v
    if sides[u] == sides[v]:
        raise InputError(
            f"edge {u!r} -> {v!r}: both ends have bipartite={sides[u]}; edges of a bipartite graph "
            "join a node with 0 to one with 1"
        )
    if graph.is_directed():
        raise InputError(
            f"edge {u!r} -> {v!r}: goes from a node with bipartite=1 to one with 0; turn it "
            "around, or give the undirected graph"
        )
    return v, u
