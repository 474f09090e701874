"""Protocol `paper-shifted`: ranks in batches, popularity taken off as validation has it.

The negatives of a batch are right nodes of other pairs, so they come up as often as they are
popular. Who tells how likely a candidate is, popularity included, counts it twice there; taking
log-popularity off the scores mends that, as the loss takes log q off in training.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers import metrics
from edgeformers.errors import InputError
from edgeformers.evaluation.pairs import Rows, checked_pairs, parts
from edgeformers.evaluation.ranking import BATCH
from edgeformers.evaluation.scorers import Scorer
from edgeformers.evaluation.statistics import is_clear
from edgeformers.metrics import Floats

SHIFTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
SPREAD_CANDIDATES = 1_000  # evenly spaced, whose scores tell how far those of a query differ
VALIDATION_PAIRS = 10_000  # on which is chosen at most, in whole batches


@dataclass(frozen=True, kw_only=True)
class Validation:
    """What a shift is chosen on: pairs in file order [n], and training links of candidates [C]."""

    queries: ArrayLike
    positives: ArrayLike
    popularity: ArrayLike


def spaced_batches(count: int, batch: int = BATCH, most: int = VALIDATION_PAIRS) -> Rows:
    """Some of `count` pairs, in file order: whole batches, evenly spaced, `most` pairs in all."""
    cut = list(parts(count, batch))
    places = np.unique(np.linspace(0, len(cut) - 1, max(1, most // batch)).round())
    return np.concatenate([np.empty(0, np.int64), *(cut[int(at)] for at in places if cut)])


def choose_shift(scorer: Scorer, validation: Validation, batch: int = BATCH) -> float:
    """The best of `SHIFTS` by MRR within batches of validation pairs; 0 unless clearly better."""
    rows, columns = checked_pairs(validation.positives, validation.queries, scorer.num_candidates)
    taken = _log_popularity(scorer, validation)
    found = 1 / _ranks(scorer, rows, columns, SHIFTS, taken, batch)  # [shifts, n]
    best = int(found.mean(1).argmax()) if len(rows) else 0
    return SHIFTS[best] if is_clear(found[best] - found[0]) else 0.0


def rank_shifted(
    scorer: Scorer,
    rows: Rows,
    columns: Rows,
    validation: Validation,
    shift: float,
    batch: int = BATCH,
) -> Floats:
    """Each pair among the positives of its batch, `shift` of log-popularity off every score."""
    taken = _log_popularity(scorer, validation)
    return _ranks(scorer, rows, columns, (shift,), taken, batch).flatten()


def _ranks(
    scorer: Scorer,
    rows: Rows,
    columns: Rows,
    shifts: tuple[float, ...],
    taken: Floats,
    batch: int,
) -> Floats:
    """Ranks under every shift [shifts, n], which counts in deviations of the query's scores."""
    last = scorer.num_candidates - 1
    some = np.unique(np.linspace(0, last, SPREAD_CANDIDATES).round().astype(np.int64))
    ranks = np.empty((len(shifts), len(rows)))
    for part in parts(len(rows), batch):
        asked = np.concatenate([columns[part], some])
        scores = np.asarray(scorer.scores(rows[part], asked), np.float64)  # [b, b + some]
        own, spread = scores[:, : len(part)], scores[:, len(part) :].std(1, keepdims=True)
        for at, shift in enumerate(shifts):
            shifted = own - shift * spread * taken[columns[part]]
            ranks[at, part] = metrics.rank_of(shifted, np.arange(len(part)))
    return ranks


def _log_popularity(scorer: Scorer, validation: Validation) -> NDArray[np.float64]:
    """log(1 + training links) of every candidate [C]."""
    links = np.asarray(validation.popularity, np.float64)
    if links.shape != (scorer.num_candidates,):
        raise InputError(
            f"popularity has the training links of each of the {scorer.num_candidates} candidates "
            f"(got {list(links.shape)})"
        )
    return np.log1p(links)
