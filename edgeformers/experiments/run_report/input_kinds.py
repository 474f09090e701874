"""Which inputs each model uses: the texts, the nodes and links, or both."""

from collections.abc import Mapping
from typing import Any

from edgeformers.baselines.registry import EDGE_BASELINES, LINK_BASELINES
from edgeformers.registry import MODELS
from edgeformers.report.scores import InputKind

#: Models that use only the texts, and models that use only nodes and links; others use both.
TEXT = frozenset({"bert", "bert-n", "frozen", "graphformers-n", "text-similarity", "tfidf"})
NODES = frozenset(
    {
        *("als", "bpr", "ease", "lightgcn", "mf", "netmf", "node-ids", "popularity", "reciprocity"),
        *(name for name, entry in MODELS.items() if entry.text == "none"),
    }
)
#: Settings that add nodes to a model of texts.
NODE_SETTINGS = ("links.collaborative", "links.ensemble", "edges.ensemble")
KNOWN = {*MODELS, *EDGE_BASELINES, *LINK_BASELINES}


def input_kind(model: str, settings: Mapping[str, Any]) -> InputKind:
    """The inputs of a model with these settings; "" for an unknown model."""
    if model not in KNOWN:
        return ""
    if model in NODES:
        return "nodes"
    has_no_node_tokens = model == "edgeformer-e" and settings.get("model.tokens") == []
    if model not in TEXT and not has_no_node_tokens:
        return "both"
    return "both" if any(settings.get(name) for name in NODE_SETTINGS) else "text"


def popularity_note(model: str, settings: Mapping[str, Any]) -> str:
    """A remark on text-only models that also learn the popularity of nodes."""
    if input_kind(model, settings) == "text" and settings.get("links.popularity_bias"):
        return "besides the text, it learns the popularity of each node"
    return ""
