"""Paired comparisons of rows on the same examples, over examples and over seeds.

Sources (queries of links) are resampled rather than examples, which are not independent within a
source, and runs are resampled within each row. A row with one run varies over examples only.
"""

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.f1 import f1
from edgeformers.data.types import Floats, Ids
from edgeformers.evaluation import (
    DEGREES,
    PROFILES,
    RANK_METRICS,
    draw_clusters,
    two_level_difference,
)
from edgeformers.evaluation.rolling import ROLLING_GROUPS

RESAMPLES, SEED = 2000, 0  # of the bootstrap
F1_METRICS = ("macro_f1", "micro_f1")
CLUSTERS = ("query", "source")  # columns of examples that belong together
Tables = Sequence[pa.Table]  # the examples of each run of a row


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of one row's runs minus that of another's, with an interval (95 %) and p-value."""

    value: float
    low: float
    high: float
    p_value: float
    examples: int
    seeds: int = 1  # the fewest runs of a row whose results vary


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The examples of a part or group of links, with resamples that all rows share."""

    edges: Ids
    cluster: Ids  # of each example
    counts: Floats  # how often each cluster is drawn [resamples, G]

    def sums(self, columns: Floats) -> Floats:
        """Sums of columns [n, c] over every resample [resamples, c]."""
        totals = np.zeros((self.counts.shape[1], columns.shape[1]))
        np.add.at(totals, self.cluster, columns)
        return self.counts @ totals


@dataclass(frozen=True, kw_only=True)
class Scores:
    """A metric of each run of a row: on the examples [runs], and resampled [resamples, runs]."""

    values: Floats
    resampled: Floats
    draws: Draws


class RowComparison:
    """Compares rows, or the means of several rows, by the examples of their runs.

    The results of rows in `fixed` do not vary with the seed.
    """

    def __init__(self, examples: Mapping[str, Tables], *, fixed: Container[str] = ()) -> None:
        self.examples = examples
        self.fixed = fixed
        self._selected: dict[tuple[str, str], dict[str, Tables]] = {}
        self._draws: dict[str, Draws] = {}
        self._scores: dict[tuple[str, str, str], Scores | None] = {}

    def compare(
        self,
        first: Sequence[str],
        second: Sequence[str],
        part: str,
        metric: str,
        *,
        level: float = 0.95,
    ) -> Difference | None:
        """The mean of the first rows minus that of the second; None if examples differ."""
        ours, theirs = (
            [self.scores(row, part, metric) for row in rows] for rows in (first, second)
        )
        known = [scores for scores in (*ours, *theirs) if scores is not None]
        if not ours or not theirs or len(known) < len(ours) + len(theirs):
            return None
        if any(scores.draws is not known[0].draws for scores in known):
            return None
        sides = known[: len(ours)], known[len(ours) :]
        means = [float(np.mean([scores.values.mean() for scores in side])) for side in sides]
        resampled = [[scores.resampled for scores in side] for side in sides]
        interval, p_value = two_level_difference(
            resampled[0], resampled[1], means[0] - means[1], SEED, level
        )
        draws = known[0].draws
        rows = zip((*first, *second), known, strict=True)
        runs = [len(scores.values) for row, scores in rows if row not in self.fixed]
        smallest = 2.0 ** (1 - draws.counts.shape[1])  # of a test on so few clusters
        return Difference(
            value=interval.value,
            low=interval.low,
            high=interval.high,
            p_value=max(p_value, smallest),
            examples=len(draws.edges),
            seeds=min(runs, default=1),
        )

    def scores(self, row: str, part: str, metric: str) -> Scores | None:
        """The scores of a row, computed once; None if its runs do not have this metric."""
        key = row, part, metric
        if key not in self._scores:
            self._scores[key] = self._compute(row, part, metric)
        return self._scores[key]

    def _compute(self, row: str, part: str, metric: str) -> Scores | None:
        prefix, _, suffix = metric.rpartition("/")  # full/mrr/degree 1-3: of a group of links
        groups = (*DEGREES, *PROFILES, *ROLLING_GROUPS)
        metric, group = (prefix, suffix) if suffix in groups else (metric, "")
        runs = self._select(part, group).get(row, ())
        if not runs or not _same_edges(runs) or not len(runs[0]):
            return None
        draws = self._draws_of(runs[0], self._select(part, group))
        protocol, _, name = metric.rpartition("/")
        if protocol and name in RANK_METRICS and all(protocol in run.column_names for run in runs):
            ranks = [run.column(protocol).to_numpy() for run in runs]
            return _rank_scores(np.stack([RANK_METRICS[name](r) for r in ranks], 1), draws)
        if name in F1_METRICS and all("predicted" in run.column_names for run in runs):
            return _f1_scores(runs, draws, name)
        return None

    def _select(self, part: str, group: str) -> dict[str, Tables]:
        if (part, group) not in self._selected:
            self._selected[part, group] = {
                row: [_select(table, part, group) for table in runs]
                for row, runs in self.examples.items()
            }
        return self._selected[part, group]

    def _draws_of(self, table: pa.Table, selected: Mapping[str, Tables]) -> Draws:
        """The resamples of a table's edges; any run may know their sources."""
        edges = table.column("edge").to_numpy()
        key = hashlib.sha256(np.ascontiguousarray(edges).tobytes()).hexdigest()
        if key not in self._draws:
            same = [t for runs in selected.values() for t in runs if _same_edges([table, t])]
            columns = [t.column(c) for t in same for c in CLUSTERS if c in t.column_names]
            clusters = columns[0].to_numpy() if columns else edges
            cluster, counts = draw_clusters(clusters, SEED, resamples=RESAMPLES)
            self._draws[key] = Draws(edges=edges, cluster=cluster, counts=counts)
        return self._draws[key]


def compare_rows(first: Tables, second: Tables, part: str, metric: str) -> Difference | None:
    """Compare two rows by the examples of their runs; None if the examples are not the same."""
    rows = RowComparison({"first": first, "second": second})
    return rows.compare(["first"], ["second"], part, metric)


def _rank_scores(values: Floats, draws: Draws) -> Scores:
    """Means of per-link values [n, runs]."""
    sums = draws.sums(np.column_stack([values, np.ones(len(values))]))
    return Scores(values=values.mean(0), resampled=sums[:, :-1] / sums[:, -1:], draws=draws)


def _f1_scores(runs: Tables, draws: Draws, metric: str) -> Scores:
    """F1 is not a mean over examples; it is computed from resampled counts of every class."""
    values, resampled = [], []
    for run in runs:
        labels, predicted = (run.column(name).to_numpy() for name in ("label", "predicted"))
        classes = int(max(labels.max(), predicted.max())) + 1
        is_label, is_predicted = np.eye(classes)[labels], np.eye(classes)[predicted]
        columns = np.hstack([is_label * is_predicted, is_label + is_predicted])
        values.append(_f1(columns.sum(0)[None], classes, metric)[0])
        resampled.append(_f1(draws.sums(columns), classes, metric))
    return Scores(values=np.array(values), resampled=np.stack(resampled, 1), draws=draws)


def _f1(sums: Floats, classes: int, metric: str) -> Floats:
    """Hits and sizes of every class [r, 2 C] -> F1 [r]."""
    hits, sizes = sums[:, :classes], sums[:, classes:]
    if metric == "micro_f1":
        return np.asarray(2 * hits.sum(1) / sizes.sum(1))
    return np.asarray(np.nanmean(f1(hits, sizes), axis=1))


def _select(table: pa.Table, part: str, group: str) -> pa.Table:
    """The examples of a part, and of a group of links if one is given, sorted by edge."""
    column = group if group in ROLLING_GROUPS else group.partition(" ")[0]
    wanted = {"part": part} | ({column: group} if group else {})
    for column, value in wanted.items():
        if column not in table.column_names:  # written by a version without groups
            return table.slice(0, 0)
        table = table.filter(pc.equal(table.column(column).cast(pa.string()), value))
    return table.sort_by("edge")


def _same_edges(tables: Tables) -> bool:
    return all(table.column("edge").equals(tables[0].column("edge")) for table in tables[1:])
