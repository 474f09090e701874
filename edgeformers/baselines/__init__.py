"""Simple baselines, what a practitioner would try first; each in its file, none importing another.

They are the least that a model of text and network must beat. Every factory takes `seed`; those
of `BACKBONE_BASELINES`, which read texts as a frozen encoder does, also take `backbone` and
`max_tokens`.
"""

from collections.abc import Callable, Mapping

from edgeformers.baselines.base import EdgeBaseline, LinkBaseline
from edgeformers.baselines.collaborative.als import ALS, ALSConfig
from edgeformers.baselines.collaborative.blend import Blend
from edgeformers.baselines.collaborative.bpr import BPR
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.collaborative.reciprocity import Reciprocity
from edgeformers.baselines.text.boosting import BoostingConfig, FrozenBoosting
from edgeformers.baselines.text.frozen import Frozen
from edgeformers.baselines.text.node_ids import NodeIds
from edgeformers.baselines.text.similarity import TextSimilarity
from edgeformers.baselines.text.tfidf import Tfidf, TfidfNodes
from edgeformers.baselines.text.vectors import BACKBONE, MAX_TOKENS, text_vectors


def make_popularity(*, seed: int = 0) -> Popularity:
    """Popularity, the same whatever the seed."""
    return Popularity()


def make_reciprocity(*, seed: int = 0) -> Reciprocity:
    """Reciprocity, the same whatever the seed."""
    return Reciprocity()


def make_ease(*, seed: int = 0) -> EASE:
    """EASE, the same whatever the seed."""
    return EASE()


def make_text_similarity(
    *, seed: int = 0, backbone: str = BACKBONE, max_tokens: int = MAX_TOKENS
) -> TextSimilarity:
    """Text similarity, the same whatever the seed."""
    return TextSimilarity(backbone, max_tokens=max_tokens)


def make_ease_text(
    *, seed: int = 0, backbone: str = BACKBONE, max_tokens: int = MAX_TOKENS
) -> Blend:
    """EASE blended with text similarity, the same whatever the seed."""
    return Blend(EASE(), TextSimilarity(backbone, max_tokens=max_tokens))


EDGE_BASELINES: Mapping[str, Callable[..., EdgeBaseline]] = {
    "node-ids": NodeIds,
    "tfidf": Tfidf,
    "tfidf-nodes": TfidfNodes,
    "frozen": Frozen,
    "frozen-boosting": FrozenBoosting,
}

#: "mf" is the paper's matrix factorization: it cites Qiu et al. (2018), who factorize a matrix of
#: the network by least squares. ALS does so; BPR learns to rank.
LINK_BASELINES: Mapping[str, Callable[..., LinkBaseline]] = {
    "popularity": make_popularity,
    "reciprocity": make_reciprocity,
    "als": ALS,
    "mf": ALS,
    "bpr": BPR,
    "ease": make_ease,
    "lightgcn": LightGCN,
    "text-similarity": make_text_similarity,
    "ease-text": make_ease_text,
}

BACKBONE_BASELINES = frozenset({"frozen", "frozen-boosting", "text-similarity", "ease-text"})

__all__ = [
    "ALS",
    "ALSConfig",
    "BACKBONE_BASELINES",
    "BPR",
    "Blend",
    "BoostingConfig",
    "EASE",
    "EDGE_BASELINES",
    "EdgeBaseline",
    "Frozen",
    "FrozenBoosting",
    "LINK_BASELINES",
    "LightGCN",
    "LinkBaseline",
    "NodeIds",
    "PairwiseConfig",
    "Popularity",
    "Reciprocity",
    "TextSimilarity",
    "Tfidf",
    "TfidfNodes",
    "text_vectors",
]
