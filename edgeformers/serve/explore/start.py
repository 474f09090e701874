"""The start page, the search, and what the header and the footer of every page show."""

from collections.abc import Mapping
from typing import Any

from edgeformers.config import Task
from edgeformers.data.types import Side
from edgeformers.serve.explore.rendering import counted, page_url
from edgeformers.serve.schemas import ModelInfo
from edgeformers.serve.service import Service

Values = dict[str, Any]  # of a template

EDGES: Task = "edge-classification"
LINKS: Task = "link-prediction"
TASKS: Mapping[Task, str] = {EDGES: "predicts labels of edges", LINKS: "recommends"}
DOCUMENTS = {"data-card": "Data card", "report": "Report", "model-card": "Model card"}
EXAMPLES = 12  # nodes of each side on the start page
RESULTS = 60
SUGGESTIONS = 12


def models(service: Service, task: Task) -> list[ModelInfo]:
    """The served runs of a task."""
    return [model for model in service.models().models if model.task == task]


def comparable_models(service: Service) -> list[str]:
    """The runs of a task that has several."""
    groups = [models(service, task) for task in TASKS]
    return [model.name for group in groups for model in group if len(group) > 1]


def side_name(side: Side | None) -> str:
    """What a node of a side is called."""
    return side or "node"


def frame(service: Service) -> Values:
    """What the header and the footer show."""
    served = service.models().models
    pages = [("./", "Start")]
    pages += [("new", "Someone new")] if models(service, LINKS) else []
    pages += [("playground", "Playground")] if models(service, EDGES) else []
    pages += [("map", "Map")]
    pages += [("compare", "Compare")] if comparable_models(service) else []
    names = ", ".join(f"{model.name} ({model.version})" for model in served)
    documents = _documents(served[0].name)
    return {
        "pages": pages,
        "served": f"Served: {names}",
        "documents": [*documents, ("docs", "API")],
    }


def _documents(model: str) -> list[tuple[str, str]]:
    """Links to the documents of a run."""
    return [(page_url(page, model=model), name) for page, name in DOCUMENTS.items()]


def home(service: Service) -> Values:
    """The start page."""
    graph = service.graph()
    sides: list[Side | None] = ["source", "target"] if graph.is_bipartite else [None]
    counts = {"source": graph.num_sources, "target": graph.num_targets, None: graph.num_nodes}
    return {
        "title": graph.name,
        "lead": "Search for a node, or start with one that has many edges.",
        "origin": graph.origin,
        "things": "source or target" if graph.is_bipartite else "node",
        "tiles": [
            *((f"{side_name(side)}s", f"{counts[side]:,}") for side in sides),
            ("edges with texts", f"{graph.num_edges:,}"),
        ],
        "examples": [
            (
                f"{side_name(side).capitalize()}s with the most edges",
                side,
                service.nodes.busiest(side, EXAMPLES),
            )
            for side in sides
        ],
        "models": [
            {
                "name": model.name,
                "version": model.version,
                "task": TASKS[model.task],
                "backbone": model.backbone,
                "documents": _documents(model.name),
            }
            for model in service.models().models
        ],
    }


def search(service: Service, query: str) -> Values:
    """The nodes whose ids contain a text."""
    matches = service.nodes.search(query, limit=RESULTS)
    shown = len(matches.nodes)
    note = counted(matches.total, "node")
    return {
        "title": f"Search for {query}" if query else "Search",
        "query": query,
        "nodes": matches.nodes,
        "note": note if shown == matches.total else f"The first {shown:,} of {note}",
    }


def suggest(service: Service, query: str, side: Side | None) -> list[Values]:
    """Nodes for the list under a search field."""
    return [
        {
            "id": node.id,
            "about": " · ".join(filter(None, [node.side, counted(node.edges, "edge")])),
            "link": page_url("node", id=node.id, side=node.side),
        }
        for node in service.nodes.search(query, side=side, limit=SUGGESTIONS).nodes
    ]
