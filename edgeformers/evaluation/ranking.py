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
from edgeformers.data.types import Floats, Ids
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import BLOCK, LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.negatives import NEGATIVES, sample_negatives
from edgeformers.evaluation.scorers import Scorer

BATCH = 100  # pairs per batch in the protocol `paper`
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
    ranks = np.empty(len(rows))
    by_query = np.argsort(rows, kind="stable")
    for part in index_blocks(len(rows), max(8, BLOCK // max(scorer.num_candidates, 1))):
        pairs = by_query[part]
        distinct, position = np.unique(rows[pairs], return_inverse=True)
        scores = scorer.scores(distinct)
        table = scores if len(distinct) == len(pairs) else scores[position]
        ahead, equal = metrics.count_ahead(table, columns[pairs])
        if known is not None:
            known_ahead, known_equal = _count_known(table, rows[pairs], columns[pairs], known)
            ahead, equal = ahead - known_ahead, equal - known_equal
        ranks[pairs] = metrics.expected_rank(ahead, equal)
    return ranks


def _count_known(table: NDArray[Any], rows: Ids, columns: Ids, known: LinkTable) -> tuple[Ids, Ids]:
    """How many known links, other than the positive, score above it, and how many the same."""
    position, candidate = known.of(rows)
    is_other = candidate != columns[position]
    position, candidate = position[is_other], candidate[is_other]
    own, score = table[position, columns[position]], table[position, candidate]
    ahead = np.bincount(position[~(score <= own)], minlength=len(rows))
    return ahead, np.bincount(position[score == own], minlength=len(rows))
