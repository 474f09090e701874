"""The only list of simple baselines, which are fitted in one call, by name."""

from collections.abc import Callable, Mapping

from edgeformers.baselines.base import EdgeBaseline, LinkBaseline
from edgeformers.baselines.collaborative.als import ALS
from edgeformers.baselines.collaborative.blend import Blend
from edgeformers.baselines.collaborative.bpr import BPR
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.netmf import NetMF
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.collaborative.reciprocity import Reciprocity
from edgeformers.baselines.graph.alpharec import AlphaRec
from edgeformers.baselines.graph.transformer import GraphTransformer
from edgeformers.baselines.temporal.last_neighbors import LastNeighbors
from edgeformers.baselines.temporal.recent_ease import RecentEASE
from edgeformers.baselines.temporal.recent_lightgcn import RecentLightGCN
from edgeformers.baselines.temporal.recent_popularity import RecentPopularity
from edgeformers.baselines.temporal.sasrec import SASRec, SASRecText
from edgeformers.baselines.temporal.tgn import TGN
from edgeformers.baselines.text.boosting import FrozenBoosting
from edgeformers.baselines.text.frozen import Frozen
from edgeformers.baselines.text.node_ids import NodeIds
from edgeformers.baselines.text.similarity import TextSimilarity
from edgeformers.baselines.text.tfidf import Tfidf, TfidfNodes


def _seedless(make: Callable[..., LinkBaseline]) -> Callable[..., LinkBaseline]:
    """A factory of a deterministic baseline, which accepts and ignores `seed`."""
    return lambda *, seed=0, **settings: make(**settings)


#: Simple baselines, fitted in one call. Every factory takes `seed`.
EDGE_BASELINES: Mapping[str, Callable[..., EdgeBaseline]] = {
    "node-ids": NodeIds,
    "tfidf": Tfidf,
    "tfidf-nodes": TfidfNodes,
    "frozen": Frozen,
    "frozen-boosting": FrozenBoosting,
}
#: "netmf" is the paper's MF. "mf" is an old name of "als".
LINK_BASELINES: Mapping[str, Callable[..., LinkBaseline]] = {
    "popularity": _seedless(Popularity),
    "reciprocity": _seedless(Reciprocity),
    "als": ALS,
    "mf": ALS,
    "netmf": NetMF,
    "bpr": BPR,
    "ease": _seedless(EASE),
    "lightgcn": LightGCN,
    "text-similarity": _seedless(TextSimilarity),
    "collaborative": lambda seed=0: Blend(LightGCN(seed=seed), ALS(seed=seed), EASE()),
    "ease-text": _seedless(lambda **settings: Blend(EASE(), TextSimilarity(**settings))),
    "recent-popularity": _seedless(RecentPopularity),
    "last-neighbors": LastNeighbors,
    "recent-ease": RecentEASE,
    "recent-lightgcn": RecentLightGCN,
    "sasrec": SASRec,
    "sasrec-text": SASRecText,
    "tgn": TGN,
    "alpharec": AlphaRec,
    "graph-transformer": GraphTransformer,
}
#: Those that also read edges as they arrive (`fit_rolling`, `observe`, `scores_at`).
ROLLING_BASELINES = frozenset(
    {
        "recent-popularity",
        "last-neighbors",
        "recent-ease",
        "recent-lightgcn",
        "sasrec",
        "sasrec-text",
        "tgn",
        "alpharec",
        "graph-transformer",
    }
)
#: Those that need PyTorch Geometric.
PYG_BASELINES = frozenset({"tgn", "graph-transformer"})
#: Those that read texts with a frozen encoder also take `backbone` and `max_tokens`.
BACKBONE_BASELINES = frozenset(
    {
        "frozen",
        "frozen-boosting",
        "text-similarity",
        "ease-text",
        "sasrec-text",
        "tgn",
        "alpharec",
        "graph-transformer",
    }
)
