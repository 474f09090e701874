"""The page of a node: its ego graph, its recommendations and its edges."""

from edgeformers.data.types import Side
from edgeformers.serve.explore.ego_graph import WIDTHS, EgoEdge, draw_ego_graph
from edgeformers.serve.explore.recommendations import recommendations
from edgeformers.serve.explore.rendering import counted, page_url
from edgeformers.serve.explore.start import EDGES, LINKS, Values, comparable_models, models
from edgeformers.serve.schemas import NodeEdge
from edgeformers.serve.service import Service

GRAPH_EDGES = 12  # in the ego graph
PAGE_EDGES = 10


def node_page(service: Service, node: str, side: Side | None, model: str, cursor: str) -> Values:
    """The values of node.html.j2."""
    run, graph = model or None, service.graph(model or None)
    found = service.nodes.find(node, side if graph.is_bipartite else None, model=run)
    page = service.nodes.edges_of(
        node, side=found.side, cursor=cursor or None, limit=PAGE_EDGES, model=run
    )
    start = int(cursor or 0)
    is_recommended_to = found.side != "target" and bool(models(service, LINKS))
    return {
        "title": node,
        "id": node,
        "kind": (found.side or "node").capitalize(),
        "lead": f"{counted(found.edges, 'edge')} in {graph.name}",
        "actions": _actions(service, node, found.side),
        **_ego_graph(service, node, found.side, model, found.edges),
        "recommendations": recommendations(service, node, model) if is_recommended_to else None,
        "edges": [_edge(service, edge, node, found.side) for edge in page.edges],
        "edges_note": f"{start + 1:,} to {start + len(page.edges):,} of {page.total:,}, "
        "the last in the table first",
        "previous": _page_link(node, found.side, model, start - PAGE_EDGES) if start else "",
        "next": _page_link(node, found.side, model, int(page.next)) if page.next else "",
    }


def _page_link(node: str, side: Side | None, model: str, start: int) -> str:
    return page_url("node", id=node, side=side, model=model, cursor=max(start, 0) or "")


def _actions(service: Service, node: str, side: Side | None) -> list[tuple[str, str]]:
    actions = []
    if models(service, EDGES):
        end = "target" if side == "target" else "source"
        actions.append((page_url("playground", **{end: node}), "Try an edge in the playground"))
    if comparable_models(service) and side != "target":
        actions.append((page_url("compare", id=node), "Compare two runs"))
    return actions


def _ego_graph(service: Service, node: str, side: Side | None, model: str, total: int) -> Values:
    """The last edges of a node, drawn at several widths."""
    edges = service.nodes.edges_of(node, side=side, limit=GRAPH_EDGES, model=model or None).edges
    drawn = []
    for edge in edges:
        values = _edge(service, edge, node, side)
        drawn.append(
            EgoEdge(
                neighbor=values["neighbor"],
                text=edge.text,
                label=values["label"],
                link=page_url("node", id=values["neighbor"], side=values["neighbor_side"]),
                is_incoming=values["is_incoming"],
            )
        )
    note = f"The last {len(drawn)} of {counted(total, 'edge')}." if total > len(drawn) else ""
    return {
        "drawings": [draw_ego_graph(node, drawn, kind) for kind in WIDTHS] if drawn else [],
        "graph_note": note,
    }


def _edge(service: Service, edge: NodeEdge, node: str, side: Side | None) -> Values:
    """An edge as the node at one of its ends sees it."""
    is_incoming = side == "target" or (side is None and edge.target == node != edge.source)
    label = edge.label
    names = label if isinstance(label, list) else [label]
    is_directed = side is None and service.graph().is_directed
    link = ""
    if models(service, EDGES):
        link = page_url("playground", source=edge.source, target=edge.target, text=edge.text)
    return {
        "neighbor": edge.source if is_incoming else edge.target,
        "neighbor_side": None if side is None else "source" if is_incoming else "target",
        "is_incoming": is_incoming,
        "relation": ("from" if is_incoming else "to") if is_directed else "with",
        "text": edge.text,
        "label": ", ".join(
            f"{name:g}" if isinstance(name, float) else name for name in names if name is not None
        ),
        "try_link": link if len(link) < 2_000 else "",
    }
