"""Simple baselines, what a practitioner would try first; each in its file, none importing another.

They learn on a CPU and are the least that a model of text and network must beat.
"""

from collections.abc import Callable, Mapping

from edgeformers.models.baselines.als import ALS, ALSConfig
from edgeformers.models.baselines.base import EdgeBaseline, LinkBaseline
from edgeformers.models.baselines.ease import EASE
from edgeformers.models.baselines.popularity import Popularity
from edgeformers.models.baselines.tfidf import Tfidf, TfidfNodes

EDGE_BASELINES: Mapping[str, Callable[[], EdgeBaseline]] = {
    "tfidf": Tfidf,
    "tfidf-nodes": TfidfNodes,
}
LINK_BASELINES: Mapping[str, Callable[[], LinkBaseline]] = {
    "popularity": Popularity,
    "als": ALS,
    "ease": EASE,
}

__all__ = [
    "ALS",
    "ALSConfig",
    "EASE",
    "EDGE_BASELINES",
    "EdgeBaseline",
    "LINK_BASELINES",
    "LinkBaseline",
    "Popularity",
    "Tfidf",
    "TfidfNodes",
]
