"""Paired comparisons of two rows on the same examples.

Runs of a row are averaged first: the tests are about other examples, not about other seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from edgeformers.data.f1 import f1_of_confusion
from edgeformers.evaluation import DEGREES, PROFILES, RANK_METRICS, compare_paired
from edgeformers.evaluation.links import BLOCK, index_blocks

RESAMPLES = 2000
Tables = Sequence[pa.Table]  # the examples of each run of a row


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of one row's runs minus that of another's, with a 95 % interval and p-value."""

    value: float
    low: float
    high: float
    p_value: float
    examples: int


def compare_rows(
    first: Tables, second: Tables, part: str, metric: str, seed: int = 0
) -> Difference | None:
    """Compare two rows by the examples of their runs; None if the examples are not the same."""
    prefix, _, suffix = metric.rpartition("/")  # full/mrr/degree 1-3: a metric of a group of links
    metric, group = (prefix, suffix) if suffix in (*DEGREES, *PROFILES) else (metric, "")
    ours, theirs = ([_select(table, part, group) for table in runs] for runs in (first, second))
    runs = [*ours, *theirs]
    if not ours or not theirs or not _same_edges(runs) or not len(ours[0]):
        return None
    protocol, _, name = metric.rpartition("/")
    if protocol and name in RANK_METRICS and all(protocol in run.column_names for run in runs):
        return _compare_ranks(ours, theirs, protocol, name, seed)
    if name in ("macro_f1", "micro_f1") and "predicted" in ours[0].column_names:
        return _compare_f1(ours, theirs, name, seed)
    return None


def _compare_ranks(
    ours: Tables, theirs: Tables, protocol: str, metric: str, seed: int
) -> Difference:
    """A permutation test over queries, whose links are not independent."""

    def mean_values(runs: Tables) -> NDArray[np.float64]:
        values = [RANK_METRICS[metric](run.column(protocol).to_numpy()) for run in runs]
        return np.asarray(np.mean(values, axis=0))

    queries = ours[0].column("query").to_numpy()
    compared = compare_paired(
        mean_values(ours), mean_values(theirs), seed, resamples=RESAMPLES, groups=queries
    )
    return Difference(
        value=compared.difference.value,
        low=compared.difference.low,
        high=compared.difference.high,
        p_value=compared.p_value,
        examples=len(queries),
    )


def _compare_f1(ours: Tables, theirs: Tables, metric: str, seed: int) -> Difference:
    """A bootstrap over edges; Macro-F1 is not a mean over examples, so it is recomputed each time.

    Edges with the same label and the same predictions by all runs are drawn together, as counts.
    """
    labels = ours[0].column("label").to_numpy()
    predicted = [run.column("predicted").to_numpy() for run in (*ours, *theirs)]
    kinds, counts = np.unique(np.stack([labels, *predicted], 1), axis=0, return_counts=True)
    weights = np.array([1 / len(ours)] * len(ours) + [-1 / len(theirs)] * len(theirs))
    rng, probabilities = np.random.default_rng(seed), counts / len(labels)
    resampled = np.concatenate(
        [
            _f1_gaps(
                kinds, rng.multinomial(len(labels), probabilities, len(block)), weights, metric
            )
            for block in index_blocks(RESAMPLES, max(1, BLOCK // 8 // len(kinds)))
        ]
    )
    low, high = np.quantile(resampled, [0.025, 0.975])
    opposite = min((resampled <= 0).sum(), (resampled >= 0).sum())
    return Difference(
        value=float(_f1_gaps(kinds, counts[None], weights, metric)[0]),
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * (1 + float(opposite)) / (1 + RESAMPLES)),
        examples=len(labels),
    )


def _f1_gaps(
    kinds: NDArray[np.int64], counts: NDArray[np.int64], weights: NDArray[np.float64], metric: str
) -> NDArray[np.float64]:
    """Label and predictions of each kind of edge [k, 1 + runs], counts [r, k] -> F1 gap [r]."""
    classes = int(kinds.max()) + 1
    gap = np.zeros(len(counts))
    for run, weight in enumerate(weights, start=1):
        one_hot = np.zeros((len(kinds), classes**2))
        one_hot[np.arange(len(kinds)), kinds[:, 0] * classes + kinds[:, run]] = 1.0
        confusion = (counts @ one_hot).reshape(-1, classes, classes)
        if metric == "macro_f1":
            gap += weight * np.nanmean(f1_of_confusion(confusion), axis=1)
        else:
            gap += weight * np.trace(confusion, axis1=1, axis2=2) / counts.sum(1)
    return gap


def _select(table: pa.Table, part: str, group: str) -> pa.Table:
    """The examples of a part, and of a group of links if one is given, sorted by edge."""
    wanted = {"part": part} | ({group.partition(" ")[0]: group} if group else {})
    for column, value in wanted.items():
        if column not in table.column_names:  # written by a version without groups
            return table.slice(0, 0)
        table = table.filter(pc.equal(table.column(column).cast(pa.string()), value))
    return table.sort_by("edge")


def _same_edges(tables: Tables) -> bool:
    return all(table.column("edge").equals(tables[0].column("edge")) for table in tables[1:])
