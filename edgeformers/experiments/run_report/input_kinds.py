"""What each model looks at: the text of an edge or a node, the network, or both."""

from collections.abc import Mapping
from typing import Any

from edgeformers.registry import EDGE_BASELINES, LINK_BASELINES, MODELS
from edgeformers.report.scores import InputKind

#: Models that read texts alone, and models that know nodes and links alone; all others see both.
TEXT = frozenset({"bert", "bert-n", "frozen", "graphformers-n", "text-similarity", "tfidf"})
NODES = frozenset({"als", "bpr", "ease", "lightgcn", "mf", "node-ids", "popularity", "reciprocity"})
#: Settings under which nodes count with a model that does not read them itself.
BRING_NODES = ("links.collaborative", "links.ensemble", "edges.ensemble")
KNOWN = {*MODELS, *EDGE_BASELINES, *LINK_BASELINES}


def input_kind(model: str, settings: Mapping[str, Any]) -> InputKind:
    """What a model with these settings sees; of a model that is not known here, nothing is said."""
    if model not in KNOWN:
        return ""
    if model in NODES:
        return "nodes"
    is_without_tokens = model == "edgeformer-e" and settings.get("model.tokens") == []
    if model not in TEXT and not is_without_tokens:
        return "both"
    return "both" if any(settings.get(name) for name in BRING_NODES) else "text"


def popularity_note(model: str, settings: Mapping[str, Any]) -> str:
    """What a model that is said to see the text alone knows beside it."""
    if input_kind(model, settings) == "text" and settings.get("links.popularity_bias"):
        return "beside the text it learns how popular each node is"
    return ""
