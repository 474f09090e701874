"""DTGB's link tasks, as-of-time: future link prediction and destination node retrieval.

DTGB (Zhang et al., NeurIPS 2024) evaluates dynamic text-attributed graphs. Every link, also of a
pair that had one before, is compared with drawn nodes: with one by average precision and ROC-AUC,
with many by the share of links among the first k. What differs is listed in docs/evaluation.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgeformers.data.random import hash_keys
from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.evaluation import metrics
from edgeformers.evaluation.negatives import LAST_KEY, NEGATIVES, lowest_keys
from edgeformers.evaluation.report import LinkReport
from edgeformers.evaluation.rolling import (
    RollingBlock,
    RollingLinks,
    RollingScorer,
    ranks_among,
)
from edgeformers.evaluation.scorers import to_numpy

DTGB, HISTORICAL, INDUCTIVE = "dtgb", "dtgb-historical", "inductive"
HITS = (1, 3, 10)

_SEED, _STREAM = 0, 0xD76B  # the draws are the same for every model and training seed
_NOT_HISTORICAL = np.uint64(1 << 63)


@dataclass(frozen=True, kw_only=True)
class DtgbReport:
    """What DTGB's metrics are computed from, for links [n]."""

    edges: Ids
    is_inductive: Mask  # whether training did not have the source or the target
    own: Floats  # the share of the other candidates that score lower than the target
    drawn: Floats  # the same for a random node; NaN if there is no other
    ranks: Mapping[str, Floats]  # among random, or first of all historical, nodes

    def results(self) -> dict[str, float]:
        """All metrics, as `dtgb/ap`, `dtgb/hit@1`, `dtgb-historical/hit@1`, `dtgb-inductive/ap`."""
        results: dict[str, float] = {}
        for suffix, chosen in (
            ("", self.is_inductive | True),
            (f"-{INDUCTIVE}", self.is_inductive),
        ):
            results[f"{DTGB}{suffix}/links"] = int(chosen.sum())
            results |= {f"{DTGB}{suffix}/{name}": v for name, v in self._areas(chosen).items()}
            for protocol, ranks in self.ranks.items():
                for k in HITS:
                    hits = metrics.hits(ranks[chosen], k)
                    results[f"{protocol}{suffix}/hit@{k}"] = float(metrics.mean(hits))
        return results

    def _areas(self, chosen: Mask) -> dict[str, float]:
        """Average precision and ROC-AUC of chosen links against one random node each."""
        from sklearn.metrics import average_precision_score, roc_auc_score  # slow to import

        chosen = chosen & ~np.isnan(self.drawn)
        if not chosen.any():
            return {"ap": float("nan"), "auc": float("nan")}
        scores = np.concatenate([self.own[chosen], self.drawn[chosen]])
        is_link = np.repeat([1, 0], int(chosen.sum()))
        return {
            "ap": float(average_precision_score(is_link, scores)),
            "auc": float(roc_auc_score(is_link, scores)),
        }


def rank_with_dtgb(links: RollingLinks, scorer: RollingScorer) -> tuple[LinkReport, DtgbReport]:
    """Rank links under `rolling` and under DTGB's protocols, in one pass."""
    new, ranks = [np.empty(0, np.int64)], [np.empty(0)]
    edges, parts = [np.empty(0, np.int64)], [np.empty((4, 0))]
    for block in links.blocks(scorer.observe, repeated=True):
        scores = to_numpy(scorer.scores_at(block.sources, block.time))
        new.append(block.links[block.is_new])
        ranks.append(block.ranks(scores)[block.is_new])
        edges.append(block.links)
        parts.append(_compare_with_drawn(block, scores))
    compared = np.concatenate(edges)
    own, drawn, random, historical = np.concatenate(parts, axis=1)
    report = DtgbReport(
        edges=compared,
        is_inductive=links.is_inductive(compared),
        own=own,
        drawn=drawn,
        ranks={DTGB: random, HISTORICAL: historical},
    )
    return links.report(np.concatenate(new), np.concatenate(ranks)), report


def draw_negatives(block: RollingBlock, *, historical: bool, count: int = NEGATIVES) -> Ids:
    """Candidates [q, count] that the sources have no edge with at this moment, padded with -1.

    They are drawn uniformly, without replacement, from the candidates that had an edge. With
    `historical`, those that had one with the source come first, and others fill up.
    """
    candidates = np.arange(block.is_seen.shape[1])
    keys = hash_keys(_SEED, _STREAM, block.links[:, None], candidates) >> np.uint64(1)
    if historical:
        keys[~block.is_linked] |= _NOT_HISTORICAL
    keys[~block.is_seen | block.is_current] = LAST_KEY
    return lowest_keys(keys, count)


def _compare_with_drawn(block: RollingBlock, scores: Floats) -> Floats:
    """How high links and a random node score, ranks among random and historical nodes: [4, q]."""
    random, historical = (draw_negatives(block, historical=h) for h in (False, True))
    own, drawn = (_share_below(block, scores, columns) for columns in (block.columns, random[:, 0]))
    drawn[random[:, 0] < 0] = np.nan
    ranks = [ranks_among(scores, block.columns, _mask(scores, c)) for c in (random, historical)]
    return np.stack([own, drawn, *ranks])


def _share_below(block: RollingBlock, scores: Floats, columns: Ids) -> Floats:
    """The share of the other candidates that score lower than one of each row [q].

    Scores of a model need not be comparable between sources or moments; these shares are.
    """
    is_other = block.is_seen.copy()
    is_other[np.arange(len(columns)), columns] = False
    ahead = ranks_among(scores, columns, is_other) - 1
    return np.asarray(1 - ahead / np.maximum(is_other.sum(1), 1))


def _mask(scores: Floats, columns: Ids) -> Mask:
    """Columns [q, k] as a mask [q, C]; -1 is none."""
    mask = np.zeros((len(scores), scores.shape[1] + 1), bool)  # the last column takes the -1
    np.put_along_axis(mask, columns, True, axis=1)
    return mask[:, :-1]
