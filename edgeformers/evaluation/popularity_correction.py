"""Protocols `paper-shifted` and `paper-unseen`: in-batch ranking with corrected scores.

The negatives in a batch are the positives of other pairs, so they are drawn by popularity. A model
of how likely a link is, popularity included, counts popularity twice there. Subtracting
log-popularity from the scores corrects for this, as the logQ correction does in training.

Some negatives are nodes to which the query already has a training edge, positive or not. A model
rightly scores them high, but they are rarely linked again. `paper-unseen` also ranks such nodes
last, the positive included, if that helps on validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.errors import InputError
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.ranking import BATCH
from edgeformers.evaluation.scorers import Scorer, batch_scores, to_numpy
from edgeformers.evaluation.significance import is_significant

SHIFTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
SCALE_CANDIDATES = 1_000  # evenly spaced, to estimate the spread of a query's scores
VALIDATION_PAIRS = 10_000  # used at most, in whole batches


@dataclass(frozen=True, kw_only=True)
class ValidationPairs:
    """Validation pairs [n] on which a correction is chosen."""

    queries: ArrayLike
    positives: ArrayLike
    popularity: ArrayLike  # training links of every candidate [C]
    seen: LinkTable | None = None  # training edges of all queries, for `paper-unseen`


@dataclass(frozen=True, kw_only=True)
class ScoreCorrection:
    """What is done to scores: subtract `shift` standard deviations per unit of log-popularity."""

    shift: float = 0.0
    seen_last: bool = False  # rank nodes that the query has a training edge to last


def spaced_batches(count: int, batch: int = BATCH, limit: int = VALIDATION_PAIRS) -> Ids:
    """Indices of at most `limit` of `count` pairs: whole batches, evenly spaced."""
    batches = list(index_blocks(count, batch))
    chosen = np.unique(np.linspace(0, len(batches) - 1, max(1, limit // batch)).round())
    return np.concatenate([np.empty(0, np.int64), *(batches[int(i)] for i in chosen if batches)])


def choose_correction(
    scorer: Scorer, validation: ValidationPairs, *, unseen: bool = False, batch: int = BATCH
) -> ScoreCorrection:
    """The correction with the best in-batch MRR on validation, if the gain is significant.

    Tries all `SHIFTS` and, with `unseen`, each of them also with seen nodes ranked last.
    """
    pairs = validated_pairs(validation.positives, validation.queries, scorer.num_candidates)
    corrections = [
        ScoreCorrection(shift=shift, seen_last=seen_last)
        for seen_last in ((False, True) if unseen else (False,))
        for shift in SHIFTS
    ]
    reciprocal = 1 / _ranks(scorer, *pairs, corrections, validation, batch)  # [corrections, n]
    best = int(reciprocal.mean(1).argmax()) if reciprocal.size else 0
    is_better = is_significant(reciprocal[best] - reciprocal[0], pairs[0])
    return corrections[best] if is_better else ScoreCorrection()


def rank_corrected(
    scorer: Scorer,
    rows: Ids,
    columns: Ids,
    validation: ValidationPairs,
    correction: ScoreCorrection,
    batch: int = BATCH,
) -> Floats:
    """Rank each pair among the positives of its batch, by corrected scores."""
    return _ranks(scorer, rows, columns, [correction], validation, batch).flatten()


def _ranks(
    scorer: Scorer,
    rows: Ids,
    columns: Ids,
    corrections: Sequence[ScoreCorrection],
    validation: ValidationPairs,
    batch: int,
) -> Floats:
    """Ranks under every correction [corrections, n]."""
    log_popularity = _log_popularity(scorer, validation)
    last = scorer.num_candidates - 1
    sample = np.unique(np.linspace(0, last, SCALE_CANDIDATES).round().astype(np.int64))
    ranks = np.empty((len(corrections), len(rows)))
    uses_seen = any(correction.seen_last for correction in corrections)
    for part in index_blocks(len(rows), batch):
        candidates = columns[part]
        scored = batch_scores(scorer, rows[part], np.concatenate([candidates, sample]))
        scores, others = np.split(to_numpy(scored).astype(np.float64), [len(part)], axis=1)
        penalty = others.std(1, keepdims=True) * log_popularity[candidates]  # [b, b]
        seen = _seen(validation, rows[part], candidates) if uses_seen else None
        for i, correction in enumerate(corrections):
            corrected = scores - correction.shift * penalty
            if correction.seen_last and seen is not None:
                corrected = _rank_last(corrected, seen)
            ranks[i, part] = metrics.rank_of(corrected, np.arange(len(part)))
    return ranks


def _seen(validation: ValidationPairs, rows: Ids, columns: Ids) -> Mask:
    """Whether each query of a batch has a training edge to each of its candidates [b, b]."""
    if validation.seen is None:
        raise InputError("the protocol 'paper-unseen' needs training edges (`seen`)")
    return validation.seen.contains(rows[:, None], columns[None])


def _rank_last(scores: Floats, chosen: Mask) -> Floats:
    """Scores [b, b] with the chosen ones lowered below all others, in their own order."""
    width = scores.max(1, keepdims=True) - scores.min(1, keepdims=True) + 1
    return np.where(chosen, scores - width, scores)


def _log_popularity(scorer: Scorer, validation: ValidationPairs) -> Floats:
    """log(1 + training links) of every candidate [C]."""
    links = np.asarray(validation.popularity, np.float64)
    if links.shape != (scorer.num_candidates,):
        raise InputError(
            f"popularity must have one count for each of the {scorer.num_candidates} candidates "
            f"(got {list(links.shape)})"
        )
    return np.log1p(links)
