"""Three protocols that rank the right node of a test pair; their figures cannot be compared.

- `paper`: among the right nodes of its own batch of 100 pairs in file order, as published;
- `sampled`: among 99 nodes drawn evenly from those that are no known link of the query;
- `full`: among all candidate nodes, known links of the query left out. What a user meets.

Two more, `paper-shifted` and `paper-unseen`, are `paper` with scores fitted to batches (`shift`).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.types import Floats, Ids
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import BLOCK, LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.negatives import NEGATIVES, sample_negatives
from edgeformers.evaluation.scorers import InnerProductScorer, Scorer

BATCH = 100  # pairs per batch of the protocol `paper`


def rank_in_batch(query: Any, key: Any, batch: int = BATCH) -> Floats:
    """Protocol `paper`: pair i is (query[i], key[i]) [n, D], ranked among the keys of its batch.

    Keys of one node in a batch have one score and share their rank. The last batch may be
    smaller, and is then an easier one, as in the release.
    """
    rows, columns = validated_pairs(np.arange(len(key)), np.arange(len(query)), len(key))
    return rank_batches(InnerProductScorer(query, key), rows, columns, batch)


def rank_sampled(
    scorer: Scorer,
    positives: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    known: LinkTable | None = None,
    seed: int = 0,
    negatives: int = NEGATIVES,
) -> Floats:
    """Protocol `sampled`: among `negatives` nodes that are no known link (`sample_negatives`)."""
    rows, columns = validated_pairs(positives, queries, scorer.num_candidates)
    ranks = np.empty(len(rows))
    for part in index_blocks(len(rows), max(1, BLOCK // 512 // (negatives + 1))):
        drawn = sample_negatives(
            rows[part],
            columns[part],
            scorer.num_candidates,
            known=known,
            seed=seed,
            count=negatives,
        )
        asked = np.hstack([columns[part, None], np.maximum(drawn, 0)])
        scores = scorer.pick(rows[part], asked)
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

    Candidates known to be linked to the query do not count, except the one that is asked for.
    Scores are made for a few queries and all candidates at a time; several pairs of one query
    share them.
    """
    rows, columns = validated_pairs(positives, queries, scorer.num_candidates)
    ranks = np.empty(len(rows))
    by_query = np.argsort(rows, kind="stable")
    for part in index_blocks(len(rows), max(8, BLOCK // max(scorer.num_candidates, 1))):
        pairs = by_query[part]
        asked, place = np.unique(rows[pairs], return_inverse=True)
        scores = scorer.scores(asked)
        table = scores if len(asked) == len(pairs) else scores[place]
        ahead, equal = metrics.count_ahead(table, columns[pairs])
        if known is not None:
            ahead_known, equal_known = _count_known(table, rows[pairs], columns[pairs], known)
            ahead, equal = ahead - ahead_known, equal - equal_known
        ranks[pairs] = metrics.expected_rank(ahead, equal)
    return ranks


def rank_batches(scorer: Scorer, rows: Ids, columns: Ids, batch: int) -> Floats:
    """Protocol `paper` for any scorer: each pair among the positives of its batch."""
    ranks = np.empty(len(rows))
    for part in index_blocks(len(rows), batch):
        scores = scorer.scores(rows[part], columns[part])
        ranks[part] = metrics.rank_of(scores, np.arange(len(part)))
    return ranks


def _count_known(table: NDArray[Any], rows: Ids, columns: Ids, known: LinkTable) -> tuple[Ids, Ids]:
    """How many known links, the asked one aside, stand above and beside it."""
    place, candidate = known.of(rows)
    others = candidate != columns[place]
    place, candidate = place[others], candidate[others]
    own, score = table[place, columns[place]], table[place, candidate]
    ahead = np.bincount(place[~(score <= own)], minlength=len(rows))
    return ahead, np.bincount(place[score == own], minlength=len(rows))
