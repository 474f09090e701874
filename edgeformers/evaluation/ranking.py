"""Three protocols that rank the positive of a test pair; their scores are not comparable.

- `paper`: among the positives of its batch of 100 pairs, taken source by source as published
  (`order_pairs`);
- `sampled`: among 99 uniformly drawn candidates that are not linked to the query;
- `full`: among all candidates except known links of the query, as in a recommender.

`paper-shifted` and `paper-unseen` are `paper` with corrected scores (`popularity_correction`).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.random import hash_keys
from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import BLOCK, LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.negatives import NEGATIVES, sample_negatives
from edgeformers.evaluation.scorers import Scorer

BATCH = 100  # pairs per batch in the protocol `paper`
MANY_PAIRS = 16  # of one query, for which its scores are sorted once
ORDER_SEED = 0  # of all models and runs, so that their ranks remain paired


def order_pairs(queries: ArrayLike, positives: ArrayLike, *, seed: int = ORDER_SEED) -> Ids:
    """The order in which the protocol `paper` takes pairs: query by query, in random order.

    The queries are shuffled, and the pairs of a query follow one another, shuffled too. The order
    depends on the integers that identify the pairs, and not on the order in which they are given.
    """
    rows, columns = np.asarray(queries), np.asarray(positives)
    by_query, by_pair = hash_keys(seed, 0xBA7C, rows), hash_keys(seed, 0xBA7C, rows, columns)
    return np.lexsort([by_pair, rows, by_query])


def rank_in_batch(
    scorer: Scorer, positives: ArrayLike, *, queries: ArrayLike | None = None, batch: int = BATCH
) -> Floats:
    """Protocol `paper`: rank of `positives[i]` among the positives of its batch.

    A batch is a run of consecutive pairs; `order_pairs` gives their order. A candidate that occurs
    twice in a batch ties with itself. The last batch may be smaller, and then easier, as in the
    released code.
    """
    rows, columns = validated_pairs(positives, queries, scorer.num_candidates)
    ranks = np.empty(len(rows))
    for part in index_blocks(len(rows), batch):
        scores = scorer.scores(rows[part], columns[part])
        ranks[part] = metrics.rank_of(scores, np.arange(len(part)))
    return ranks


def rank_sampled(
    scorer: Scorer,
    positives: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    known: LinkTable | None = None,
    seed: int = 0,
    negatives: int = NEGATIVES,
) -> Floats:
    """Protocol `sampled`: rank among `negatives` candidates from `sample_negatives`."""
    rows, columns = validated_pairs(positives, queries, scorer.num_candidates)
    ranks = np.empty(len(rows))
    for part in index_blocks(len(rows), max(1, BLOCK // 512 // (negatives + 1))):
        pairs = rows[part], columns[part]
        drawn = sample_negatives(
            *pairs, scorer.num_candidates, known=known, seed=seed, count=negatives
        )
        scores = scorer.pick(pairs[0], np.hstack([pairs[1][:, None], np.maximum(drawn, 0)]))
        own, others, is_drawn = scores[:, :1], scores[:, 1:], drawn >= 0
        ahead = (~(others <= own) & is_drawn).sum(1)
        ranks[part] = metrics.expected_rank(ahead, ((others == own) & is_drawn).sum(1))
    return ranks


def rank_full(
    scorer: Scorer,
    positives: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    known: LinkTable | None = None,
) -> Floats:
    """Protocol `full`: rank of `positives[i]` among all candidates for `queries[i]` (row i).

    Candidates known to be linked to the query are excluded, except the positive itself. Queries
    are scored in blocks that fit in memory, each query of a block once.
    """
    rows, columns = validated_pairs(positives, queries, scorer.num_candidates)
    _, position, counts = np.unique(rows, return_inverse=True, return_counts=True)
    has_many = counts[position] >= MANY_PAIRS
    ranks = np.empty(len(rows))
    for chosen, count in ((has_many, _count_by_query), (~has_many, _count_by_pair)):
        ranks[chosen] = metrics.expected_rank(*count(scorer, rows[chosen], columns[chosen], known))
    return ranks


def _count_by_pair(
    scorer: Scorer, rows: Ids, columns: Ids, known: LinkTable | None
) -> tuple[Ids, Ids]:
    """How many unknown others score above each positive, and how many the same."""
    ahead, equal = np.zeros((2, len(rows)), np.int64)
    by_query = np.argsort(rows, kind="stable")
    for part in index_blocks(len(rows), max(8, BLOCK // max(scorer.num_candidates, 1))):
        pairs = by_query[part]
        distinct, position = np.unique(rows[pairs], return_inverse=True)
        scores = scorer.scores(distinct)
        table = scores if len(distinct) == len(pairs) else scores[position]
        ahead[pairs], equal[pairs] = metrics.count_ahead(table, columns[pairs])
        if known is not None:
            known_ahead, known_equal = _count_known(table, rows[pairs], columns[pairs], known)
            ahead[pairs] -= known_ahead
            equal[pairs] -= known_equal
    return ahead, equal


def _count_by_query(
    scorer: Scorer, rows: Ids, columns: Ids, known: LinkTable | None
) -> tuple[Ids, Ids]:
    """The same as `_count_by_pair`, in a time that hardly depends on the pairs of a query."""
    ahead, equal = np.zeros((2, len(rows)), np.int64)
    by_query = np.argsort(rows, kind="stable")
    distinct, starts = np.unique(rows[by_query], return_index=True)
    pairs = np.split(by_query, starts[1:])
    for part in index_blocks(len(distinct), max(8, BLOCK // max(scorer.num_candidates, 1))):
        for at, scores in zip(part.tolist(), scorer.scores(distinct[part]), strict=True):
            is_free = np.ones(len(scores), bool)
            if known is not None:
                is_free[known.of(distinct[at : at + 1])[1]] = False
            counts = _count_sorted(scores, is_free, columns[pairs[at]])
            ahead[pairs[at]], equal[pairs[at]] = counts
    return ahead, equal


def _count_sorted(scores: NDArray[Any], is_free: Mask, columns: Ids) -> tuple[Ids, Ids]:
    """How many free candidates score above each of the columns, and how many others the same."""
    own, ordered, is_itself = scores[columns], np.sort(scores[is_free]), is_free[columns]
    is_number = own == own
    not_above = (np.searchsorted(ordered, own, side="right") - is_itself) * is_number
    below = np.searchsorted(ordered, own) * is_number
    return len(ordered) - is_itself - not_above, not_above - below


def _count_known(table: NDArray[Any], rows: Ids, columns: Ids, known: LinkTable) -> tuple[Ids, Ids]:
    """How many known links, other than the positive, score above it, and how many the same."""
    position, candidate = known.of(rows)
    is_other = candidate != columns[position]
    position, candidate = position[is_other], candidate[is_other]
    own, score = table[position, columns[position]], table[position, candidate]
    ahead = np.bincount(position[~(score <= own)], minlength=len(rows))
    return ahead, np.bincount(position[score == own], minlength=len(rows))
