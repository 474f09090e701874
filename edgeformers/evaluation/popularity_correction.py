"""Protocols `paper-shifted` and `paper-unseen`: ranks in batches, scores fitted on validation.

The negatives of a batch are right nodes of other pairs, so they come up as often as they are
popular. Who tells how likely a candidate is, popularity included, counts it twice there; taking
log-popularity off the scores mends that, as the loss takes log q off in training.

Among them are also nodes to which the query has an edge in training, positive or not, which a
model rightly scores high and which are hardly ever linked again. `paper-unseen` ranks them last as
well, the right node included if it is one of them, where validation has it so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.errors import InputError
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.ranking import BATCH
from edgeformers.evaluation.scorers import Scorer
from edgeformers.evaluation.significance import is_significant

SHIFTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
SPREAD_CANDIDATES = 1_000  # evenly spaced, whose scores tell how far those of a query differ
VALIDATION_PAIRS = 10_000  # on which is chosen at most, in whole batches


@dataclass(frozen=True, kw_only=True)
class ValidationPairs:
    """What a fit is chosen on: pairs in file order [n], and training links of candidates [C]."""

    queries: ArrayLike
    positives: ArrayLike
    popularity: ArrayLike
    seen: LinkTable | None = None  # edges of training, of all queries: `paper-unseen` needs them


@dataclass(frozen=True, kw_only=True)
class ScoreCorrection:
    """What is done to scores within batches: deviations taken off, what is seen ranked last."""

    shift: float = 0.0
    seen_last: bool = False


def spaced_batches(count: int, batch: int = BATCH, most: int = VALIDATION_PAIRS) -> Ids:
    """Some of `count` pairs, in file order: whole batches, evenly spaced, `most` pairs in all."""
    cut = list(index_blocks(count, batch))
    places = np.unique(np.linspace(0, len(cut) - 1, max(1, most // batch)).round())
    return np.concatenate([np.empty(0, np.int64), *(cut[int(at)] for at in places if cut)])


def choose_correction(
    scorer: Scorer, validation: ValidationPairs, *, unseen: bool = False, batch: int = BATCH
) -> ScoreCorrection:
    """The best by MRR within batches of validation pairs; nothing unless that is clearly better.

    All of `SHIFTS` are tried and, with `unseen`, each also with what is seen ranked last.
    """
    rows, columns = validated_pairs(validation.positives, validation.queries, scorer.num_candidates)
    lasts = (False, True) if unseen else (False,)
    fits = [ScoreCorrection(shift=shift, seen_last=last) for last in lasts for shift in SHIFTS]
    found = 1 / _ranks(scorer, rows, columns, fits, validation, batch)  # [fits, n]
    best = int(found.mean(1).argmax()) if len(rows) else 0
    return fits[best] if is_significant(found[best] - found[0], rows) else ScoreCorrection()


def rank_corrected(
    scorer: Scorer,
    rows: Ids,
    columns: Ids,
    validation: ValidationPairs,
    fit: ScoreCorrection,
    batch: int = BATCH,
) -> Floats:
    """Each pair among the positives of its batch, by scores that were fitted."""
    return _ranks(scorer, rows, columns, [fit], validation, batch).flatten()


def _ranks(
    scorer: Scorer,
    rows: Ids,
    columns: Ids,
    fits: Sequence[ScoreCorrection],
    validation: ValidationPairs,
    batch: int,
) -> Floats:
    """Ranks under every fit [fits, n]; a shift counts in deviations of the query's scores."""
    taken = _log_popularity(scorer, validation)
    last = scorer.num_candidates - 1
    some = np.unique(np.linspace(0, last, SPREAD_CANDIDATES).round().astype(np.int64))
    ranks = np.empty((len(fits), len(rows)))
    is_seen_asked = any(fit.seen_last for fit in fits)
    for part in index_blocks(len(rows), batch):
        asked = np.concatenate([columns[part], some])
        scores = np.asarray(scorer.scores(rows[part], asked), np.float64)  # [b, b + some]
        own, spread = scores[:, : len(part)], scores[:, len(part) :].std(1, keepdims=True)
        seen = _seen(validation, rows[part], columns[part]) if is_seen_asked else None
        for at, fit in enumerate(fits):
            fitted = own - fit.shift * spread * taken[columns[part]]
            if fit.seen_last and seen is not None:
                fitted = _seen_last(fitted, seen)
            ranks[at, part] = metrics.rank_of(fitted, np.arange(len(part)))
    return ranks


def _seen(validation: ValidationPairs, rows: Ids, columns: Ids) -> Mask:
    """To which of a batch's candidates each of its queries has an edge in training [b, b]."""
    if validation.seen is None:
        raise InputError("the protocol 'paper-unseen' needs the edges of training (`seen`)")
    return validation.seen.contains(rows[:, None], columns[None])


def _seen_last(scores: Floats, seen: Mask) -> Floats:
    """Scores [b, b] under which what is seen comes after all else, in its own order."""
    width = scores.max(1, keepdims=True) - scores.min(1, keepdims=True) + 1
    return np.asarray(np.where(seen, scores - width, scores))


def _log_popularity(scorer: Scorer, validation: ValidationPairs) -> NDArray[np.float64]:
    """log(1 + training links) of every candidate [C]."""
    links = np.asarray(validation.popularity, np.float64)
    if links.shape != (scorer.num_candidates,):
        raise InputError(
            f"popularity has the training links of each of the {scorer.num_candidates} candidates "
            f"(got {list(links.shape)})"
        )
    return np.log1p(links)
