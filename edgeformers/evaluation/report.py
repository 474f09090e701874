"""The figures of link prediction, each with the name of the protocol that ranked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.types import Floats, Mask
from edgeformers.errors import InputError, suggest
from edgeformers.evaluation import metrics
from edgeformers.evaluation.links import LinkTable, index_blocks, validated_pairs
from edgeformers.evaluation.popularity_correction import (
    ScoreCorrection,
    ValidationPairs,
    choose_correction,
    rank_corrected,
)
from edgeformers.evaluation.ranking import BATCH, rank_batches, rank_full, rank_sampled
from edgeformers.evaluation.scorers import Scorer

LinkProtocol = Literal["full", "sampled", "paper", "paper-shifted", "paper-unseen"]
PROTOCOLS: tuple[LinkProtocol, ...] = get_args(LinkProtocol)
IN_BATCHES: tuple[LinkProtocol, ...] = ("paper", "paper-shifted", "paper-unseen")
UNTUNED: tuple[LinkProtocol, ...] = ("paper", "sampled", "full")  # that need no validation pairs

#: What is measured on the ranks of pairs, each a value per pair whose mean is the metric.
RANK_METRICS: Mapping[str, Callable[[ArrayLike], Floats]] = {
    "mrr": metrics.reciprocal_ranks,
    "ndcg": metrics.gains,
    "hit@1": lambda ranks: metrics.hits(ranks, 1),
    "hit@5": lambda ranks: metrics.hits(ranks, 5),
    "hit@10": lambda ranks: metrics.hits(ranks, 10),
}
#: Groups of pairs, and from how many to how many edges each has: of training around the query,
#: or in the profile of the node that was held out.
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
    """The ranks of the test pairs under each protocol, and every figure with its protocol's name.

    The overall figures within batches (`IN_BATCHES`) are means over batches of batch means, as
    published, a smaller last batch weighing as much as any other. All else, groups included, are
    means over pairs.
    """

    ranks: Mapping[str, Floats]  # protocol -> rank of each pair
    groups: Mapping[str, Mask] = field(default_factory=dict)  # name -> which pairs belong
    batch: int = BATCH
    corrections: Mapping[str, ScoreCorrection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.ranks:
            _check_protocol(name)

    def metrics(self, protocol: str, group: str | None = None) -> dict[str, float]:
        """All metrics under a protocol, of all pairs or of one group."""
        _check_protocol(protocol)
        ranks = self.ranks[protocol]
        if group is not None:
            ranks = ranks[self.groups[group]]
        whole_batches = protocol in IN_BATCHES and group is None
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
            f"{'protocol':<15}{'pairs':<14}{'count':>8}"
            + "".join(map("{:>9}".format, RANK_METRICS))
        ]
        for protocol, part in self.to_dict().items():
            for name, row in {"all": part, **part["groups"]}.items():
                figures = "".join(f"{value:>9.4f}" for value in row["metrics"].values())
                lines.append(f"{protocol:<15}{name:<14}{row['pairs']:>8,}{figures}")
        return "\n".join(lines)

    def _mean_of_batches(self, values: Floats) -> float:
        return metrics.mean([values[part].mean() for part in index_blocks(len(values), self.batch)])


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
    seed: int = 0,
) -> LinkReport:
    """Rank test pairs, given in file order, under each protocol.

    `query_degree` and `key_degree` are the training edges of each pair's two nodes [n]; with
    them the report also tells pairs apart by the query's degree, and cold from warm. `profile`
    are the edges known of a node that training has not met [n]; it tells those apart in turn.
    `paper-shifted` and `paper-unseen` need `validation`, on which scores are fitted to batches.
    """
    rows, columns = validated_pairs(positives, queries, scorer.num_candidates)
    rank: dict[str, Callable[[], Floats]] = {
        "paper": lambda: rank_batches(scorer, rows, columns, BATCH),
        "sampled": lambda: rank_sampled(scorer, columns, queries=rows, known=known, seed=seed),
        "full": lambda: rank_full(scorer, columns, queries=rows, known=known),
    }
    for name in protocols:
        _check_protocol(name)
    fits: dict[str, ScoreCorrection] = {}
    for name in ("paper-shifted", "paper-unseen"):
        if name in protocols:
            if validation is None:
                raise InputError(f"the protocol '{name}' needs validation pairs to be tuned on")
            fits[name] = choose_correction(scorer, validation, unseen=name == "paper-unseen")
            rank[name] = partial(rank_corrected, scorer, rows, columns, validation, fits[name])
    groups = {} if query_degree is None else degree_groups(query_degree, key_degree)
    if profile is not None and np.any(profile):
        groups |= _groups(profile, PROFILES)
    found: dict[str, Floats] = {name: rank[name]() for name in protocols}
    return LinkReport(ranks=found, groups=groups, corrections=fits)


def degree_groups(query_degree: ArrayLike, key_degree: ArrayLike | None = None) -> dict[str, Mask]:
    """Pairs by the training edges of their query; cold are those with an end that has none."""
    degree = np.asarray(query_degree)
    cold = (degree == 0) | (False if key_degree is None else np.asarray(key_degree) == 0)
    return {**_groups(degree, DEGREES), "cold": cold, "warm": ~cold}


def _groups(counts: ArrayLike, bounds: Mapping[str, tuple[int, int | None]]) -> dict[str, Mask]:
    number = np.asarray(counts)
    return {
        name: (number >= low) & (True if high is None else number <= high)
        for name, (low, high) in bounds.items()
    }


def _check_protocol(name: str) -> None:
    if name not in PROTOCOLS:
        raise InputError(f"there is no protocol '{name}'; {suggest(name, PROTOCOLS)}")
