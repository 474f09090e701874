"""Link prediction metrics, always reported with the protocol that ranked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.types import Floats, Ids, Mask
from edgeformers.errors import InputError, suggest
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.popularity_correction import (
    ScoreCorrection,
    ValidationPairs,
    choose_correction,
    rank_corrected,
)
from edgeformers.evaluation.ranking import (
    BATCH,
    order_pairs,
    rank_full,
    rank_in_batch,
    rank_sampled,
)
from edgeformers.evaluation.scorers import Scorer
from edgeformers.evaluation.significance import bootstrap_interval

LinkProtocol = Literal["full", "sampled", "paper", "paper-shifted", "paper-unseen"]
PROTOCOLS: tuple[LinkProtocol, ...] = get_args(LinkProtocol)
ROLLING: Literal["rolling"] = "rolling"  # ranks as of the time of each link, see `rolling.py`
IN_BATCH: tuple[LinkProtocol, ...] = ("paper", "paper-shifted", "paper-unseen")
UNTUNED: tuple[LinkProtocol, ...] = ("paper", "sampled", "full")

#: Functions of the ranks of pairs; their mean is the metric.
RANK_METRICS: Mapping[str, Callable[[ArrayLike], Floats]] = {
    "mrr": metrics.reciprocal_ranks,
    "ndcg": metrics.discounted_gains,
    "hit@1": lambda ranks: metrics.hits(ranks, 1),
    "hit@5": lambda ranks: metrics.hits(ranks, 5),
    "hit@10": lambda ranks: metrics.hits(ranks, 10),
}
#: Groups of pairs by a range of edges: training edges of the query, or edges in the profile of the
#: held-out node.
DEGREES: Mapping[str, tuple[int, int | None]] = {
    "degree 0": (0, 0),
    "degree 1-3": (1, 3),
    "degree 4-10": (4, 10),
    "degree 11+": (11, None),
}
PROFILES: Mapping[str, tuple[int, int | None]] = {
    "profile 1": (1, 1),
    "profile 2-3": (2, 3),
    "profile 4+": (4, None),
}


@dataclass(frozen=True, kw_only=True)
class LinkReport:
    """The ranks of test pairs under each protocol, and all metrics by protocol.

    As published, overall metrics of in-batch protocols are means over batches of batch means, so
    that a smaller last batch has the same weight. All others are means over pairs.
    """

    ranks: Mapping[str, Floats]  # protocol -> rank of each pair
    groups: Mapping[str, Mask] = field(default_factory=dict)  # name -> which pairs belong to it
    batch: int = BATCH
    corrections: Mapping[str, ScoreCorrection] = field(default_factory=dict)  # by protocol
    order: Ids | None = None  # of the pairs in batches; None: as given
    queries: Ids | None = None  # of the pairs; the pairs of a query are not independent
    edges: Ids | None = None  # that `rolling` ranked

    def __post_init__(self) -> None:
        for name in self.ranks:
            _check_protocol(name)

    def metrics(self, protocol: str, group: str | None = None) -> dict[str, float]:
        """All metrics under a protocol, of all pairs or of one group."""
        _check_protocol(protocol)
        ranks = self.ranks[protocol]
        if group is not None:
            ranks = ranks[self.groups[group]]
        weights = None if group is not None else self._weights(protocol)
        average = metrics.mean if weights is None else partial(np.average, weights=weights)
        return {name: float(average(values(ranks))) for name, values in RANK_METRICS.items()}

    def values(self, protocol: str, metric: str) -> Floats:
        """One metric of each pair, for intervals and paired comparisons."""
        return RANK_METRICS[metric](self.ranks[protocol])

    def among(self, edges: Ids) -> "LinkReport":
        """The ranks of those links that are in `edges`; only of a report under `rolling`."""
        assert self.edges is not None
        assert self.queries is not None
        kept = np.isin(self.edges, edges)
        return replace(
            self,
            ranks={name: ranks[kept] for name, ranks in self.ranks.items()},
            groups={name: chosen[kept] for name, chosen in self.groups.items()},
            queries=self.queries[kept],
            edges=self.edges[kept],
        )

    def flat(self) -> dict[str, float]:
        """Overall metrics as `full/mrr`, `paper/ndcg`, ..."""
        return {f"{p}/{name}": v for p in self.ranks for name, v in self.metrics(p).items()}

    def results(self, seed: int) -> dict[str, Any]:
        """Overall metrics, 95 % intervals of MRR and metrics by group, as in results.json.

        Intervals are bootstrapped over queries if these are known, else over pairs.
        """
        results: dict[str, Any] = self.flat()
        for protocol in self.ranks:
            values = self.values(protocol, "mrr")
            interval = bootstrap_interval(
                values, seed, groups=self.queries, weights=self._weights(protocol)
            )
            results[f"{protocol}/mrr_interval"] = [interval.low, interval.high]
        results["groups"] = {name: values["groups"] for name, values in self.to_dict().items()}
        return results

    def to_dict(self) -> dict[str, Any]:
        """Protocol -> number of pairs and metrics, overall and of each group; without ranks."""
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
        header = "".join(f"{name:>9}" for name in RANK_METRICS)
        lines = [f"{'protocol':<15}{'pairs':<14}{'count':>8}{header}"]
        for protocol, result in self.to_dict().items():
            for name, row in {"all": result, **result["groups"]}.items():
                values = "".join(f"{value:>9.4f}" for value in row["metrics"].values())
                lines.append(f"{protocol:<15}{name:<14}{row['pairs']:>8,}{values}")
        return "\n".join(lines)

    def _weights(self, protocol: str) -> Floats | None:
        """The weights of pairs in overall metrics: batches have equal weights; None: pairs do."""
        count = len(self.ranks[protocol])
        if protocol not in IN_BATCH or not count:
            return None
        taken = np.arange(count) if self.order is None else self.order
        weights = np.empty(count)
        for part in index_blocks(count, self.batch):
            weights[taken[part]] = 1 / len(taken[part])
        return weights


def evaluate_links(
    scorer: Scorer,
    positives: ArrayLike,
    *,
    queries: ArrayLike | None = None,
    known: LinkTable | None = None,
    protocols: Sequence[LinkProtocol] = UNTUNED,
    query_degree: ArrayLike | None = None,
    key_degree: ArrayLike | None = None,
    profile: ArrayLike | None = None,
    validation: ValidationPairs | None = None,
    order: ArrayLike | None = None,
    seed: int = 0,
) -> LinkReport:
    """Rank test pairs under each protocol; ranks are in the order of the given pairs.

    The in-batch protocols take pairs, those of `validation` too, in the order of `order_pairs`.
    With `order`, a permutation of the pairs, they take them in that order, and those of
    `validation` as given.

    With `query_degree` and `key_degree`, the training edges of each pair's nodes [n], the report
    also groups pairs by the query's degree, and cold from warm; with `profile`, the profile edges
    of held-out nodes [n], by profile size. `paper-shifted` and `paper-unseen` need `validation`.
    """
    rows, columns = validated_pairs(positives, queries, scorer.num_candidates)
    for name in protocols:
        _check_protocol(name)
    taken = order_pairs(rows, columns) if order is None else np.asarray(order, np.int64)
    if order is None and validation is not None:
        validation = _ordered(validation)
    corrections: dict[str, ScoreCorrection] = {}

    def rank(protocol: str) -> Floats:
        if protocol == "sampled":
            return rank_sampled(scorer, columns, queries=rows, known=known, seed=seed)
        if protocol == "full":
            return rank_full(scorer, columns, queries=rows, known=known)
        ranks = np.empty(len(rows))
        ranks[taken] = rank_batches(protocol, rows[taken], columns[taken])
        return ranks

    def rank_batches(protocol: str, rows: Ids, columns: Ids) -> Floats:
        if protocol == "paper":
            return rank_in_batch(scorer, columns, queries=rows)
        if validation is None:
            raise InputError(f"the protocol '{protocol}' needs validation pairs")
        unseen = protocol == "paper-unseen"
        corrections[protocol] = choose_correction(scorer, validation, unseen=unseen)
        return rank_corrected(scorer, rows, columns, validation, corrections[protocol])

    groups = pair_groups(query_degree, key_degree, profile)
    ranks: dict[str, Floats] = {protocol: rank(protocol) for protocol in protocols}
    return LinkReport(
        ranks=ranks, groups=groups, corrections=corrections, order=taken, queries=rows
    )


def pair_groups(
    query_degree: ArrayLike | None,
    key_degree: ArrayLike | None = None,
    profile: ArrayLike | None = None,
) -> dict[str, Mask]:
    """Pairs by query degree and profile size, if given; cold pairs have a node of degree 0."""
    groups: dict[str, Mask] = {}
    if query_degree is not None:
        degree = np.asarray(query_degree)
        cold = (degree == 0) | (False if key_degree is None else np.asarray(key_degree) == 0)
        groups |= {**_groups(degree, DEGREES), "cold": cold, "warm": ~cold}
    if profile is not None and np.any(profile):
        groups |= _groups(profile, PROFILES)
    return groups


def _ordered(validation: ValidationPairs) -> ValidationPairs:
    rows, columns = np.asarray(validation.queries), np.asarray(validation.positives)
    order = order_pairs(rows, columns)
    return replace(validation, queries=rows[order], positives=columns[order])


def _groups(counts: ArrayLike, ranges: Mapping[str, tuple[int, int | None]]) -> dict[str, Mask]:
    count = np.asarray(counts)
    return {
        name: (count >= low) & (True if high is None else count <= high)
        for name, (low, high) in ranges.items()
    }


def _check_protocol(name: str) -> None:
    if name not in (*PROTOCOLS, ROLLING):
        raise InputError(f"unknown protocol '{name}'; {suggest(name, PROTOCOLS)}")
