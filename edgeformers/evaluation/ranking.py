"""Three protocols that rank the positive of a test pair; their scores are not comparable.

- `paper`: among the positives of its batch of 100 pairs, taken source by source as published
  (`order_pairs`);
- `sampled`: among 99 uniformly drawn candidates that are not linked to the query;
- `full`: among all candidates except known links of the query, as in a recommender.

`paper-shifted` and `paper-unseen` are `paper` with corrected scores (`popularity_correction`).
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike

from edgeformers.data.random import hash_keys
from edgeformers.data.types import Floats, Ids
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import BLOCK, LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.negatives import NEGATIVES, sample_negatives
from edgeformers.evaluation.scorers import Scorer, Table, batch_scores, to_numpy

BATCH = 100  # pairs per batch in the protocol `paper`
MANY_PAIRS = 64  # of one query, for which its scores are sorted once
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
        scores = batch_scores(scorer, rows[part], columns[part])
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
    size = block_rows(scorer.num_candidates)
    ranks = rank_full_each(lambda chosen: [scorer.scores(chosen)], rows, columns, known, size)
    return np.asarray(ranks[0])


def block_rows(num_candidates: int, tables: int = 1) -> int:
    """How many queries are scored at once so that so many tables of scores fit in memory."""
    return max(8, BLOCK // tables // max(num_candidates, 1))


def rank_full_each(
    tables: Callable[[Ids], Iterable[Table]],
    rows: Ids,
    columns: Ids,
    known: LinkTable | None,
    size: int,
    count: int = 1,
) -> Floats:
    """Rank the same pairs [n] under each of `count` scores, in one pass: [count, n].

    `tables` returns those scores [b, C] of at most `size` query rows [b], one after another.
    Tables on a GPU are ranked there.
    """
    _, position, pairs = np.unique(rows, return_inverse=True, return_counts=True)
    has_many = pairs[position] >= MANY_PAIRS
    ranks = np.empty((count, len(rows)))
    for chosen, count_ahead in ((has_many, _count_sorted), (~has_many, _count_by_pair)):
        by_query = np.flatnonzero(chosen)[np.argsort(rows[chosen], kind="stable")]
        for part in _query_blocks(rows[by_query], size):
            pair = by_query[part]
            distinct, at = np.unique(rows[pair], return_inverse=True)
            for number, table in enumerate(tables(distinct)):
                counts = count_ahead(table, distinct, at, columns[pair], known)
                ranks[number, pair] = metrics.expected_rank(*counts)
    return ranks


def _query_blocks(rows: Ids, size: int) -> Iterator[Ids]:
    """Indices of sorted query rows, in blocks of whole queries with about `size` pairs."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    cuts = starts[np.diff(starts // size, prepend=-1) > 0]
    yield from (part for part in np.split(np.arange(len(rows)), cuts) if len(part))


def _count_by_pair(
    table: Table, queries: Ids, position: Ids, columns: Ids, known: LinkTable | None
) -> tuple[Ids, Ids]:
    """How many unknown others score above each positive, and how many the same."""
    own_rows = table if len(queries) == len(position) else table[position]
    ahead, equal = metrics.count_ahead(own_rows, columns)
    if known is None:
        return ahead, equal
    pair, candidate = known.of(queries[position])
    is_other = candidate != columns[pair]
    pair, candidate = pair[is_other], candidate[is_other]
    own, score = (to_numpy(table[position[pair], chosen]) for chosen in (columns[pair], candidate))
    ahead = ahead - np.bincount(pair[~(score <= own)], minlength=len(columns))
    return ahead, equal - np.bincount(pair[score == own], minlength=len(columns))


def _count_sorted(
    table: Table, queries: Ids, position: Ids, columns: Ids, known: LinkTable | None
) -> tuple[Ids, Ids]:
    """The same as `_count_by_pair`, in a time that hardly depends on the pairs of a query."""
    scores = torch.as_tensor(table).contiguous()
    own, is_free = scores[position, columns], torch.ones_like(scores, dtype=torch.bool)
    if known is not None:
        is_free[known.of(queries)] = False
    ordered = scores.where(is_free, torch.nan).sort(dim=1).values  # NaN is sorted last
    numbers = (ordered == ordered).sum(1)[position]
    ordered.nan_to_num_(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    slot = np.arange(len(position)) - np.searchsorted(position, position)
    asked = ordered.new_zeros(len(queries), int(slot.max()) + 1)
    asked[position, slot] = own.to(asked)
    is_itself, is_number = is_free[position, columns].long(), (own == own).long()
    not_above, below = (
        torch.searchsorted(ordered, asked, right=right)[position, slot].minimum(numbers)
        for right in (True, False)
    )
    not_above = (not_above - is_itself) * is_number
    ahead = is_free.sum(1)[position] - is_itself - not_above
    return to_numpy(ahead), to_numpy(not_above - below * is_number)
