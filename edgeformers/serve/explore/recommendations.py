"""Recommendations with their reasons, what an edge changes about them, and two runs compared."""

from collections.abc import Sequence
from typing import Any

from edgeformers.data.types import Side
from edgeformers.errors import InputError
from edgeformers.inference.explain import HISTORY, Reason
from edgeformers.inference.word_attention import AttendedText
from edgeformers.serve.explore.rendering import page_url
from edgeformers.serve.explore.start import LINKS, Values, comparable_models, models
from edgeformers.serve.explore.views import component_bars, rank_changes, shade_words
from edgeformers.serve.schemas import EdgeIn, OwnEdge, Recommendations
from edgeformers.serve.service import Service

RECOMMENDED = 10
REASONS = 3  # texts of each kind per recommendation
COMPARED_EDGES = 20  # whose labels two edge runs predict
MAX_TEXT = 10_000  # characters of a text in a form
NOTE = "The bars add up to the score. What decided is what exceeds the score of the average target."
NEW_EDGES = 3  # in an empty form


def recommendations(service: Service, node: str, model: str) -> Values:
    """The recommendations to a node of the network, as recommendations.html.j2 shows them."""
    answer = service.recommend(node, RECOMMENDED, explain=REASONS, model=model or None)
    links = [
        (run.name, page_url("node", id=node, side=_side(service, "source"), model=run.name))
        for run in models(service, LINKS)
    ]
    return {
        **_shown(service, answer, service.word_attention(node, model=answer.model)),
        "heading": "Recommended",
        "history_heading": f"What {node} wrote",
        "models": [(name, link, name == answer.model) for name, link in links],
        "source": node,
    }


def new_recommendations(service: Service, edges: Sequence[tuple[str, str]]) -> Values:
    """The values of the page of someone new, who is described by edges: (target, text)."""
    service.versions.find(LINKS)  # raises if no such run is served
    given = [(target, text) for target, text in edges if target.strip() or text.strip()]
    shown = None
    if given:
        own = [OwnEdge(target=target, text=text) for target, text in given]
        answer = service.recommend_new(own, RECOMMENDED, explain=REASONS)
        shown = {
            **_shown(service, answer, service.word_attention(edges=own, model=answer.model)),
            "heading": "Recommended",
            "history_heading": "What you wrote",
            "models": [],
            "source": None,
        }
    return {
        "title": "Someone new",
        "source_name": _side(service, "source") or "node",
        "target_name": _side(service, "target") or "node",
        "edges": [*edges, *[("", "")] * (NEW_EDGES - len(edges))],
        "recommendations": shown,
        "max_text": MAX_TEXT,
    }


def _side(service: Service, side: Side) -> Side | None:
    return side if service.graph().is_bipartite else None


def _shown(service: Service, answer: Recommendations, attended: list[AttendedText]) -> Values:
    """Recommendations with bars on one scale and shaded words; `attended` are the source's."""
    items = answer.recommendations
    bars = component_bars([item.components for item in items])
    for item in items:
        if item.quotes:
            attended += service.word_attention(item.node, side="target", model=answer.model)
    shaded = {each.text: shade_words(each) for each in attended}
    return {
        "model": answer.model,
        "note": NOTE,
        "target_side": _side(service, "target"),
        "source_side": _side(service, "source"),
        "is_shaded": bool(shaded),
        "entries": [
            {
                "node": item.node,
                "score": item.score,
                "bars": own,
                "decided": f"{item.decision[:1].upper()}{item.decision[1:]}.".removeprefix("."),
                "history": [_reason(r, shaded) for r in item.because if r.kind == HISTORY],
                "quotes": [_reason(reason, shaded) for reason in item.quotes],
            }
            for item, own in zip(items, bars, strict=True)
        ],
    }


def _reason(reason: Reason, shaded: dict[str, list[tuple[str, int]]]) -> Values:
    words = shaded.get(reason.text, [(reason.text, 0)] if reason.text else [])
    return {**vars(reason), "words": words}


def what_if(service: Service, node: str, without: str, model: str) -> Values:
    """The ranking of a node's recommendations before and after an edge is removed."""
    change = service.what_if(node, without=[without], k=RECOMMENDED, model=model or None)
    before, after = (
        [(item.node, item.score) for item in items] for items in (change.before, change.after)
    )
    rows = rank_changes(before, after)
    moved = sum(row.change != "same" for row in rows)
    headline = (
        f"{moved} of {len(rows)} places change without the edge to {without}."
        if moved
        else f"The ranking stays the same without the edge to {without}."
    )
    return {
        "headline": headline,
        "rows": rows,
        "source": node,
        "without": without,
        "target_side": _side(service, "target"),
        "source_side": _side(service, "source"),
    }


def compare(service: Service, node: str, first: str, second: str) -> Values:
    """Two runs on one node: their recommendations, or their predictions of its edges' labels."""
    names = comparable_models(service)
    if len(names) < 2:
        raise InputError("comparing needs two runs of the same task; serve another one")
    tasks = {run.name: run.task for run in service.models().models}
    first = first or names[0]
    same = [name for name in names if tasks[name] == tasks.get(first) and name != first]
    second = second or same[0]
    values: Values = {
        "title": f"{first} and {second}",
        "lead": "",
        "id": node,
        "models": names,
        "first": first,
        "second": second,
        "target_side": _side(service, "target"),
        "rankings": [],
        "parts": [],
        "predictions": [],
        "problem": "",
    }
    if tasks.get(first) != tasks.get(second):
        return {**values, "problem": "Choose two runs of the same task."}
    if not node:
        return {**values, "lead": "Choose a node to see what two runs say about it."}
    compared = _compare_links if tasks[first] == LINKS else _compare_labels
    return {**values, **compared(service, node, first, second)}


def _compare_links(service: Service, node: str, first: str, second: str) -> Values:
    answers = [service.recommend(node, RECOMMENDED, model=name) for name in (first, second)]
    lists = [answer.recommendations for answer in answers]
    scored = [[(item.node, item.score) for item in items] for items in lists]
    rows = rank_changes(*scored)
    shared = sum(row.before is not None and row.after is not None for row in rows)
    parts = []
    for name, items in zip((first, second), lists, strict=True):
        bars = component_bars([item.components for item in items])
        shown = [
            {"node": item.node, "score": item.score, "bars": own}
            for item, own in zip(items, bars, strict=True)
        ]
        parts.append((name, shown))
    return {
        "lead": f"For {node}, both runs recommend {shared} of the same {len(lists[0])} targets. "
        "Their scores have different scales; compare ranks.",
        "rankings": rows,
        "parts": parts,
    }


def _compare_labels(service: Service, node: str, first: str, second: str) -> Values:
    edges = service.nodes.edges_of(node, limit=COMPARED_EDGES, model=first).edges
    rows = [EdgeIn(source=edge.source, target=edge.target, text=edge.text) for edge in edges]
    answers = [service.predict_edges(rows, model=name).predictions for name in (first, second)]
    pairs: list[dict[str, Any]] = [
        {
            "name": edge.target if edge.source == node else edge.source,
            "text": edge.text,
            "label": edge.label,
            "first": one.label,
            "second": other.label,
        }
        for edge, one, other in zip(edges, *answers, strict=True)
    ]
    agreed = sum(row["first"] == row["second"] for row in pairs)
    lead = f"The runs agree on {agreed} of {len(pairs)} edges of {node}."
    return {"lead": lead, "predictions": pairs}
