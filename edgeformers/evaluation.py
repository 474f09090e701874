"""Protocols that rank links, the report that always names them, and how sure a number is.

Three protocols rank the right node of a test pair, and their figures cannot be compared:

- `paper`: among the right nodes of its own batch of 100 pairs in file order, as published;
- `sampled`: among 99 nodes drawn evenly from those that are no known link of the query;
- `full`: among all candidate nodes, known links of the query left out. What a user meets.

Queries and candidates are rows and columns, numbered from 0 by whoever makes the scorer.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers import metrics
from edgeformers.data.random import hash_keys
from edgeformers.errors import InputError, nearest
from edgeformers.metrics import Floats

LinkProtocol = Literal["paper", "sampled", "full"]
PROTOCOLS: tuple[LinkProtocol, ...] = get_args(LinkProtocol)
BATCH = 100  # pairs per batch of the protocol `paper`
NEGATIVES = 99  # drawn per pair by the protocol `sampled`

Rows = NDArray[np.int64]
Truths = NDArray[np.bool_]

_BLOCK = 1 << 24  # numbers held at once while ranking or resampling
_NEGATIVE_STREAM = 0x5A3D  # names the draws of `sample_negatives` among all that use a seed


class Scorer(Protocol):
    """What can be ranked: a model, a baseline, anything that scores candidates for queries."""

    @property
    def num_candidates(self) -> int: ...

    def scores(self, rows: Rows, columns: Rows | None = None) -> NDArray[Any]:
        """Queries [b] against the same candidates [m], or against all: [b, m]."""

    def pick(self, rows: Rows, columns: Rows) -> NDArray[Any]:
        """Queries [b], each against candidates of its own [b, m]: [b, m]."""


class Factors:
    """Scores that are products: query [Q, D] times candidate [C, D], as arrays or tensors.

    `bias` [C] adds to every score of a candidate and `more`, a second pair of factors, adds a
    second product; both are laid beside the first pair, so that one matrix product remains.
    """

    def __init__(
        self,
        query: Any,
        candidate: Any,
        *,
        bias: ArrayLike | None = None,
        more: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        pairs = [(query, candidate)] if more is None else [(query, candidate), more]
        if bias is not None:
            column = np.asarray(bias, np.float32)[:, None]
            pairs.append((np.ones((len(query), 1), np.float32), column))
        if len(pairs) > 1:
            query, candidate = (
                np.hstack([_host(f) for f in side]) for side in zip(*pairs, strict=True)
            )
        if query.ndim != 2 or candidate.ndim != 2 or query.shape[1] != candidate.shape[1]:
            raise InputError(
                f"queries and candidates must be of one width (got {list(query.shape)} "
                f"and {list(candidate.shape)})"
            )
        self.query, self.candidate = _single(query), _single(candidate)

    @property
    def num_candidates(self) -> int:
        return len(self.candidate)

    def scores(self, rows: Rows, columns: Rows | None = None) -> NDArray[Any]:
        chosen = self.candidate if columns is None else self.candidate[columns]
        return _host(self.query[rows] @ chosen.T)

    def pick(self, rows: Rows, columns: Rows) -> NDArray[Any]:
        return _host((self.candidate[columns] @ self.query[rows][:, :, None])[:, :, 0])


@dataclass(frozen=True)
class ScoreFunction:
    """Any function of query rows [b] that gives scores [b, C], such as a linear recommender."""

    function: Callable[[Rows], Any]
    num_candidates: int

    def scores(self, rows: Rows, columns: Rows | None = None) -> NDArray[Any]:
        block = _host(self.function(rows))
        if block.shape != (len(rows), self.num_candidates):
            raise InputError(
                f"the scorer must give [{len(rows)}, {self.num_candidates}] scores "
                f"(got {list(block.shape)})"
            )
        return block if columns is None else block[:, columns]

    def pick(self, rows: Rows, columns: Rows) -> NDArray[Any]:
        return np.take_along_axis(self.scores(rows), columns, axis=1)


@dataclass(frozen=True)
class KnownLinks:
    """Links no protocol may count as wrong: the candidates linked to each query, in any split.

    Compressed rows: those of query q are `candidates[indptr[q] : indptr[q + 1]]`, sorted, each
    once. In a network of one kind of node the query itself belongs among them.
    """

    indptr: Rows
    candidates: Rows

    @classmethod
    def from_pairs(
        cls, queries: ArrayLike, candidates: ArrayLike, num_queries: int
    ) -> "KnownLinks":
        """From pairs in any order, repeated or not."""
        keys = np.unique(
            _pair_keys(np.asarray(queries, np.int64), np.asarray(candidates, np.int64))
        )
        starts = np.arange(num_queries + 1) << 32
        return cls(np.searchsorted(keys, starts), keys & 0xFFFFFFFF)

    def of(self, rows: Rows) -> tuple[Rows, Rows]:
        """(place in `rows`, candidate) of every known link of the given queries."""
        counts = self.indptr[rows + 1] - self.indptr[rows]
        place = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        return place, self.candidates[self.indptr[rows][place] + within]

    def contains(self, rows: Rows, columns: Rows) -> Truths:
        """Whether each (query, candidate), broadcast against each other, is known."""
        wanted = _pair_keys(rows, columns)
        at = np.searchsorted(self._keys, wanted)
        return np.asarray(np.append(self._keys, -1)[at] == wanted)

    @cached_property
    def _keys(self) -> Rows:
        row = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return _pair_keys(row, self.candidates)


def _pair_keys(rows: Rows, columns: Rows) -> Rows:
    return (rows << 32) | columns


def columns_of(nodes: ArrayLike, candidates: ArrayLike) -> Rows:
    """The place of each node among the candidate nodes, which may be in any order."""
    wanted, among = np.asarray(nodes, np.int64), np.asarray(candidates, np.int64)
    order = np.argsort(among, kind="stable")
    at = np.searchsorted(among, wanted, sorter=order)
    place = np.append(order, -1)[at]
    missing = wanted[np.append(among, -1)[place] != wanted]
    if len(missing):
        raise InputError(
            f"node {missing[0]} is to be found but is not among the {len(among):,} candidates"
        )
    return place


def rank_in_batch(query: Any, key: Any, batch: int = BATCH) -> Floats:
    """Protocol `paper`: pair i is (query[i], key[i]) [n, D], ranked among the keys of its batch.

    Keys of one node in a batch have one score and share their rank. The last batch may be
    smaller, and is then an easier one, as in the release.
    """
    rows, columns = _pairs(np.arange(len(key)), np.arange(len(query)), len(key))
    return _rank_batches(Factors(query, key), rows, columns, batch)


def rank_sampled(
    scorer: Scorer,
    positives: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    known: KnownLinks | None = None,
    seed: int = 0,
    negatives: int = NEGATIVES,
) -> Floats:
    """Protocol `sampled`: among `negatives` nodes that are no known link (`sample_negatives`)."""
    rows, columns = _pairs(positives, queries, scorer.num_candidates)
    ranks = np.empty(len(rows))
    for part in _parts(len(rows), max(1, _BLOCK // 512 // (negatives + 1))):
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
    known: KnownLinks | None = None,
) -> Floats:
    """Protocol `full`: rank of `positives[i]` among all candidates for `queries[i]` (row i).

    Candidates known to be linked to the query do not count, except the one that is asked for.
    Scores are made for a few queries and all candidates at a time; several pairs of one query
    share them.
    """
    rows, columns = _pairs(positives, queries, scorer.num_candidates)
    ranks = np.empty(len(rows))
    by_query = np.argsort(rows, kind="stable")
    for part in _parts(len(rows), max(8, _BLOCK // max(scorer.num_candidates, 1))):
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


def sample_negatives(
    queries: ArrayLike,
    positives: ArrayLike,
    num_candidates: int,
    *,
    known: KnownLinks | None = None,
    seed: int = 0,
    count: int = NEGATIVES,
) -> Rows:
    """Candidates [n, count] drawn evenly, each once, from those not linked to the query.

    Where a query has fewer such candidates it gets all of them, and -1 in the other places. The
    draw depends on the seed, the query and the positive alone: every model meets the same.
    """
    rows, columns = _pairs(positives, queries, num_candidates)
    known = known or KnownLinks(np.zeros(int(rows.max(initial=0)) + 2, np.int64), rows[:0])
    linked = known.indptr[rows + 1] - known.indptr[rows] + ~known.contains(rows, columns)
    free = num_candidates - linked
    dense = np.flatnonzero(free < max(2 * count, num_candidates // 2))
    drawn = np.empty((len(rows), count), np.int64)
    for part in _parts(len(dense), max(1, _BLOCK // 4 // max(num_candidates, 1))):
        some = dense[part]
        drawn[some] = _shuffle_free(rows[some], columns[some], num_candidates, known, seed, count)
    loose = np.setdiff1d(np.arange(len(rows)), dense)
    drawn[loose] = _draw_free(rows[loose], columns[loose], num_candidates, known, seed, count)
    return drawn


def _shuffle_free(
    rows: Rows, columns: Rows, num_candidates: int, known: KnownLinks, seed: int, count: int
) -> Rows:
    """All candidates in random order, the linked ones last, cut to `count`."""
    everyone = np.arange(num_candidates)
    keys = hash_keys(seed, _NEGATIVE_STREAM, rows[:, None], columns[:, None], everyone)
    linked = np.zeros(keys.shape, bool)
    linked[known.of(rows)] = True
    linked[np.arange(len(rows)), columns] = True
    order = np.lexsort((keys, linked), axis=1)[:, :count]
    drawn = np.where(np.take_along_axis(linked, order, axis=1), -1, order)
    return np.pad(drawn, ((0, 0), (0, count - order.shape[1])), constant_values=-1)


def _draw_free(
    rows: Rows, columns: Rows, num_candidates: int, known: KnownLinks, seed: int, count: int
) -> Rows:
    """Draw, and draw again what is linked or has been drawn already."""
    drawn = np.empty((len(rows), count), np.int64)
    pair, slot = np.indices(drawn.shape).reshape(2, -1)
    attempt = 0
    while len(pair):
        keys = hash_keys(seed, _NEGATIVE_STREAM, rows[pair], columns[pair], slot, attempt)
        drawn[pair, slot] = keys % np.uint64(num_candidates)
        again = np.unique(pair)
        part = drawn[again]
        wrong = known.contains(rows[again, None], part) | (part == columns[again, None])
        place, slot = np.nonzero(wrong | _repeated(part))
        pair, attempt = again[place], attempt + 1
    return drawn


def _repeated(table: Rows) -> Truths:
    """Where a row has a number that it has before."""
    order = np.argsort(table, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    repeats = np.zeros(table.shape, bool)
    np.put_along_axis(repeats, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return repeats


def _count_known(
    table: NDArray[Any], rows: Rows, columns: Rows, known: KnownLinks
) -> tuple[Rows, Rows]:
    """How many known links, the asked one aside, stand above and beside it."""
    place, candidate = known.of(rows)
    others = candidate != columns[place]
    place, candidate = place[others], candidate[others]
    own, score = table[place, columns[place]], table[place, candidate]
    ahead = np.bincount(place[~(score <= own)], minlength=len(rows))
    return ahead, np.bincount(place[score == own], minlength=len(rows))


def _rank_batches(scorer: Scorer, rows: Rows, columns: Rows, batch: int) -> Floats:
    ranks = np.empty(len(rows))
    for part in _parts(len(rows), batch):
        scores = scorer.scores(rows[part], columns[part])
        ranks[part] = metrics.rank_of(scores, np.arange(len(part)))
    return ranks


def _pairs(
    positives: ArrayLike, queries: ArrayLike | None, num_candidates: int
) -> tuple[Rows, Rows]:
    """Rows and columns of the pairs; a column that is none would be ranked as another."""
    columns = np.asarray(positives, np.int64)
    rows = np.arange(len(columns)) if queries is None else np.asarray(queries, np.int64)
    if rows.shape != columns.shape:
        raise InputError(
            f"every pair has a query and a positive (got {len(rows)} queries "
            f"and {len(columns)} positives)"
        )
    bad = columns[(columns < 0) | (columns >= num_candidates)]
    if len(bad):
        raise InputError(
            f"a pair's positive is the column of a candidate, 0 to {num_candidates - 1} "
            f"(got {bad[0]}); columns_of finds it from the node"
        )
    if rows.min(initial=0) < 0:
        raise InputError(f"a pair's query is a row numbered from 0 (got {rows.min()})")
    return rows, columns


def _parts(count: int, size: int) -> Iterator[Rows]:
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def _host(block: Any) -> NDArray[Any]:
    """An array here, whether it was one already or a tensor on some device."""
    return np.asarray(_single(block.detach()).cpu() if hasattr(block, "detach") else block)


def _single(factor: Any) -> Any:
    """At least single precision: shorter numbers are slow here, coarse, or overflow."""
    if factor.dtype.itemsize >= 4:
        return factor
    return factor.float() if hasattr(factor, "detach") else factor.astype(np.float32)


#: What is measured on the ranks of pairs, each a value per pair whose mean is the metric.
RANK_METRICS: Mapping[str, Callable[[ArrayLike], Floats]] = {
    "mrr": metrics.reciprocal_ranks,
    "ndcg": metrics.gains,
    "hit@1": lambda ranks: metrics.hits(ranks, 1),
    "hit@5": lambda ranks: metrics.hits(ranks, 5),
    "hit@10": lambda ranks: metrics.hits(ranks, 10),
}
_DEGREES = {
    "degree 0": (0, 0),
    "degree 1-3": (1, 3),
    "degree 4-10": (4, 10),
    "degree 11+": (11, None),
}


@dataclass(frozen=True, kw_only=True)
class LinkReport:
    """The ranks of the test pairs under each protocol, and every figure with its protocol's name.

    The overall figures of `paper` are means over batches of batch means, as published, a smaller
    last batch weighing as much as any other. All else, groups included, are means over pairs.
    """

    ranks: Mapping[str, Floats]  # protocol -> rank of each pair
    groups: Mapping[str, Truths] = field(default_factory=dict)  # name -> which pairs belong
    batch: int = BATCH

    def __post_init__(self) -> None:
        for name in self.ranks:
            _check_protocol(name)

    def metrics(self, protocol: str, group: str | None = None) -> dict[str, float]:
        """All metrics under a protocol, of all pairs or of one group."""
        _check_protocol(protocol)
        ranks = self.ranks[protocol]
        if group is not None:
            ranks = ranks[self.groups[group]]
        whole_batches = protocol == "paper" and group is None
        average = self._mean_of_batches if whole_batches else metrics.mean
        return {name: average(values(ranks)) for name, values in RANK_METRICS.items()}

    def values(self, protocol: str, metric: str) -> Floats:
        """One metric of each pair: what intervals and comparisons of two models are made of."""
        return RANK_METRICS[metric](self.ranks[protocol])

    def flat(self) -> dict[str, float]:
        """Overall metrics as `full/mrr`, `paper/ndcg`, ..."""
        return {f"{p}/{name}": v for p in self.ranks for name, v in self.metrics(p).items()}

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranks: protocol -> pairs, metrics, and the same for each group."""
        return {
            protocol: {
                "pairs": len(ranks),
                "metrics": self.metrics(protocol),
                "groups": {
                    name: {"pairs": int(chosen.sum()), "metrics": self.metrics(protocol, name)}
                    for name, chosen in self.groups.items()
                },
            }
            for protocol, ranks in self.ranks.items()
        }

    def __str__(self) -> str:
        lines = [
            f"{'protocol':<10}{'pairs':<14}{'count':>8}"
            + "".join(map("{:>9}".format, RANK_METRICS))
        ]
        for protocol, part in self.to_dict().items():
            for name, row in {"all": part, **part["groups"]}.items():
                figures = "".join(f"{value:>9.4f}" for value in row["metrics"].values())
                lines.append(f"{protocol:<10}{name:<14}{row['pairs']:>8,}{figures}")
        return "\n".join(lines)

    def _mean_of_batches(self, values: Floats) -> float:
        return metrics.mean([values[part].mean() for part in _parts(len(values), self.batch)])


def evaluate_links(
    scorer: Scorer,
    positives: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    known: KnownLinks | None = None,
    protocols: Sequence[LinkProtocol] = PROTOCOLS,
    query_degree: ArrayLike | None = None,
    key_degree: ArrayLike | None = None,
    seed: int = 0,
) -> LinkReport:
    """Rank test pairs, given in file order, under each protocol.

    `query_degree` and `key_degree` are the training edges of each pair's two nodes [n]; with
    them the report also tells pairs apart by the query's degree, and cold from warm.
    """
    rows, columns = _pairs(positives, queries, scorer.num_candidates)
    rank: dict[str, Callable[[], Floats]] = {
        "paper": lambda: _rank_batches(scorer, rows, columns, BATCH),
        "sampled": lambda: rank_sampled(scorer, columns, queries=rows, known=known, seed=seed),
        "full": lambda: rank_full(scorer, columns, queries=rows, known=known),
    }
    for name in protocols:
        _check_protocol(name)
    groups = {} if query_degree is None else degree_groups(query_degree, key_degree)
    return LinkReport(ranks={name: rank[name]() for name in protocols}, groups=groups)


def degree_groups(
    query_degree: ArrayLike, key_degree: ArrayLike | None = None
) -> dict[str, Truths]:
    """Pairs by the training edges of their query; cold are those with an end that has none."""
    degree = np.asarray(query_degree)
    groups = {
        name: (degree >= low) & (True if high is None else degree <= high)
        for name, (low, high) in _DEGREES.items()
    }
    cold = (degree == 0) | (False if key_degree is None else np.asarray(key_degree) == 0)
    return {**groups, "cold": cold, "warm": ~cold}


def _check_protocol(name: str) -> None:
    if name not in PROTOCOLS:
        raise InputError(f"there is no protocol '{name}'; {nearest(name, PROTOCOLS)}")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value and where resampling puts it; of fewer than two examples the bounds are nan."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and sample deviation over runs; of a single run the deviation is unknown: nan."""

    mean: float
    deviation: float
    runs: int

    def __str__(self) -> str:
        shown = "one run" if self.runs == 1 else f"± {self.deviation:.4f}, {self.runs} runs"
        return f"{self.mean:.4f} ({shown})"


@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """Whether run a beats run b on the same examples.

    `difference` is mean(a) - mean(b) with its bootstrap interval; `p_value` is that of a test
    which flips the signs of differences at random, `sign_p_value` that of the exact sign test,
    which counts wins and losses alone. Both are two-sided.
    """

    difference: Interval
    p_value: float
    sign_p_value: float
    wins: int
    losses: int
    ties: int


def bootstrap_interval(
    values: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 2000,
    groups: ArrayLike | None = None,
) -> Interval:
    """The percentile interval of a mean over examples.

    Examples that belong together, such as the test pairs of one query, are not independent: with
    `groups` [n], whole groups are drawn, and the interval does not come out too narrow.
    """
    sums, sizes = _by_group(values, groups)
    rng = np.random.default_rng(seed)
    blocks = _resampled_rows(len(sums), resamples, rng)
    means = [sums[drawn].sum(1) / sizes[drawn].sum(1) for drawn in blocks]
    return _interval(metrics.mean(values), np.hstack([[], *means]), level, len(sums))


def bootstrap_statistic(
    statistic: Callable[[Rows], float],
    num_examples: int,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 1000,
) -> Interval:
    """The interval of any function of chosen examples, called once for every resample."""
    rng = np.random.default_rng(seed)
    blocks = _resampled_rows(num_examples, resamples, rng)
    drawn = np.array([statistic(rows) for block in blocks for rows in block])
    return _interval(statistic(np.arange(num_examples)), drawn, level, num_examples)


def bootstrap_f1(
    labels: ArrayLike,
    predicted: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    average: Literal["macro", "micro"] = "macro",
    resamples: int = 2000,
) -> Interval:
    """The interval of Macro- or Micro-F1; of classes [n] by drawing confusion tables, at once."""
    truth, guess = np.asarray(labels), np.asarray(predicted)
    f1 = metrics.macro_f1 if average == "macro" else metrics.micro_f1
    if truth.ndim == 2:
        return bootstrap_statistic(
            lambda rows: f1(truth[rows], guess[rows]), len(truth), seed, level, resamples=resamples
        )
    counts = metrics.confusion(truth, guess)
    if len(truth) < 2:
        return _interval(f1(truth, guess), np.empty(0), level, len(truth))
    rng = np.random.default_rng(seed)
    tables = rng.multinomial(len(truth), counts.ravel() / len(truth), size=resamples)
    tables = tables.reshape(resamples, *counts.shape)
    right = np.trace(tables, axis1=1, axis2=2) / len(truth)
    drawn = np.nanmean(metrics.f1_of_confusion(tables), axis=1) if average == "macro" else right
    return _interval(f1(truth, guess), drawn, level, len(truth))


def summarize_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Mean and sample deviation (n - 1) of every metric over runs that differ in their seed."""
    names = list(runs[0]) if runs else []
    for run in runs:
        if odd := set(names) ^ set(run):
            raise InputError(f"metric '{min(odd)}' is not in all of the {len(runs)} runs")
    table = {name: np.array([run[name] for run in runs], np.float64) for name in names}
    return {
        name: Spread(
            mean=float(values.mean()),
            deviation=float(values.std(ddof=1)) if len(values) > 1 else float("nan"),
            runs=len(values),
        )
        for name, values in table.items()
    }


def compare_paired(
    a: ArrayLike,
    b: ArrayLike,
    seed: int,
    level: float = 0.95,
    *,
    resamples: int = 5000,
    groups: ArrayLike | None = None,
) -> PairedComparison:
    """Two runs' scores of the same examples [n]: who is better, by how much, and how surely.

    With `groups` [n] the examples of a group are drawn, flipped and counted as one.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise InputError(
            f"two runs are compared on the same examples (got {len(first)} and {len(second)})"
        )
    gain = first - second
    sums, _ = _by_group(gain, groups)
    wins, losses = int((sums > 0).sum()), int((sums < 0).sum())
    return PairedComparison(
        difference=bootstrap_interval(gain, seed, level, resamples=resamples, groups=groups),
        p_value=_sign_flip_p(sums, np.random.default_rng([seed, 1]), resamples),
        sign_p_value=_sign_test_p(wins, losses),
        wins=wins,
        losses=losses,
        ties=len(sums) - wins - losses,
    )


def _sign_flip_p(differences: Floats, rng: np.random.Generator, resamples: int) -> float:
    """How often random signs give a sum at least as far from 0; never below 1 / (resamples + 1)."""
    moved = differences[differences != 0]
    total = abs(moved.sum()) * (1 - 1e-12)  # the same sum in another order is no smaller
    extreme = 1
    for part in _parts(resamples, max(1, _BLOCK // 4 // max(len(moved), 1))):
        size = len(part) * len(moved)
        bits = np.unpackbits(np.frombuffer(rng.bytes((size + 7) // 8), np.uint8))[:size]
        flipped = (2.0 * bits.reshape(len(part), -1) - 1) @ moved if size else np.zeros(len(part))
        extreme += int((np.abs(flipped) >= total).sum())
    return extreme / (resamples + 1)


def _sign_test_p(wins: int, losses: int) -> float:
    """The chance of a split at least this uneven if both sides were equally likely."""
    n, fewer = wins + losses, min(wins, losses)
    log_factorial = np.append(0.0, np.cumsum(np.log(np.arange(1, n + 1))))
    k = np.arange(fewer + 1)
    chances = np.exp(log_factorial[n] - log_factorial[k] - log_factorial[n - k] - n * math.log(2))
    return min(1.0, 2 * float(chances.sum()))


def _by_group(values: ArrayLike, groups: ArrayLike | None) -> tuple[Floats, Floats]:
    """Sum and number of the values of each group; without groups every value is its own."""
    array = np.asarray(values, np.float64)
    if groups is None:
        return array, np.ones(len(array))
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(group, weights=array).astype(np.float64)
    return sums, np.bincount(group).astype(np.float64)


def _resampled_rows(count: int, resamples: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Blocks [r, count] of examples drawn with replacement, `resamples` rows in all."""
    if count < 2:
        return
    for part in _parts(resamples, max(1, _BLOCK // 4 // count)):
        yield rng.integers(0, count, (len(part), count))


def _interval(value: float, drawn: Floats, level: float, count: int) -> Interval:
    if not 0 < level < 1:
        raise InputError(f"the level of an interval is between 0 and 1, such as 0.95 (got {level})")
    tail = (1 - level) / 2
    bounds = np.quantile(drawn, [tail, 1 - tail]) if count > 1 else [math.nan, math.nan]
    return Interval(value=value, low=float(bounds[0]), high=float(bounds[1]), level=level)
