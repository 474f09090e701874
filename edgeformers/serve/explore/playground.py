"""The edge playground: what a model says about an edge that someone types."""

from edgeformers.data.types import Side
from edgeformers.serve.explore.recommendations import MAX_TEXT
from edgeformers.serve.explore.start import EDGES, Values, models
from edgeformers.serve.explore.views import shade_words
from edgeformers.serve.schemas import EdgeIn, Prediction
from edgeformers.serve.service import Service

INPUTS = (
    ("Text and nodes", "the model as it is"),
    ("Text only", "as if both nodes were unknown"),
    ("Nodes only", "without the text"),
)
SHOWN_CLASSES = 12  # the likeliest ones, if there are more


def playground(service: Service, source: str, target: str, text: str, model: str) -> Values:
    """The values of playground.html.j2, with predictions unless nothing has been typed."""
    model = service.versions.find(EDGES, model or None).name
    graph = service.graph(model)
    names = [run.name for run in models(service, EDGES)]
    values: Values = {
        "title": "Edge playground",
        "source": source,
        "target": target,
        "text": text,
        "models": names,
        "model": model,
        "source_name": "source" if graph.is_bipartite else "first node",
        "target_name": "target" if graph.is_bipartite else "second node",
        "max_text": MAX_TEXT,
        "notes": [],
        "predictions": [],
        "words": [],
    }
    if not (source or target or text):
        return values
    edge = EdgeIn(source=source, target=target, text=text)
    (answer,) = service.predict_edges([edge], ablations=True, model=model).predictions
    parts = (answer, answer.text_only, answer.node_only)
    attended = service.edge_attention(edge, model=model) if text.strip() else []
    return {
        **values,
        "words": [piece for each in attended for piece in shade_words(each)],
        "notes": list(_unknown(service, source, target, model)),
        "predictions": [
            _shown(title, about, part)
            for (title, about), part in zip(INPUTS, parts, strict=True)
            if part is not None
        ],
    }


def _unknown(service: Service, source: str, target: str, model: str) -> list[str]:
    """Which of the nodes the network does not have."""
    nodes = service.graph(model).node_index
    ends: list[tuple[Side, str]] = [("source", source), ("target", target)]
    return [
        f"The network has no {side} “{name}”: the model reads it as an unknown node."
        for side, name in ends
        if name and nodes.numbers([name], side)[0] < 0
    ]


def _shown(title: str, about: str, prediction: Prediction) -> Values:
    label = prediction.label
    names = label if isinstance(label, list) else [label]
    shares = prediction.probabilities or {}
    best = sorted(shares, key=lambda name: -shares[name])[:SHOWN_CLASSES]
    return {
        "title": title,
        "about": about,
        "label": f"{label:.3g}"
        if isinstance(label, float)
        else ", ".join(map(str, names)) or "none",
        "bars": [(name, shares[name], name in names) for name in shares if name in best],
    }
