"""Whether the best row is really better than the second: both on the same examples.

Seeds are averaged first: what is told is whether other examples would give the same order, not
whether other seeds would.
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


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of one row's runs less that of another's, its 95 % interval, and its p-value."""

    value: float
    low: float
    high: float
    p_value: float
    examples: int


def compare_rows(
    first: Sequence[pa.Table], second: Sequence[pa.Table], part: str, metric: str, seed: int = 0
) -> Difference | None:
    """Two rows by the examples of their runs; None where they were not scored on the same ones."""
    metric, group = _without_group(metric)
    ours, theirs = ([_chosen(table, part, group) for table in runs] for runs in (first, second))
    if not ours or not theirs or not _same_edges([*ours, *theirs]) or not len(ours[0]):
        return None
    protocol, _, plain = metric.rpartition("/")
    is_ranked = all(protocol in table.column_names for table in (*ours, *theirs))
    if protocol and plain in RANK_METRICS and is_ranked:
        return _compare_ranks(ours, theirs, protocol, plain, seed)
    if plain in ("macro_f1", "micro_f1") and "predicted" in ours[0].column_names:
        return _compare_f1(ours, theirs, plain, seed)
    return None


def _compare_ranks(
    ours: Sequence[pa.Table], theirs: Sequence[pa.Table], protocol: str, metric: str, seed: int
) -> Difference:
    """A permutation test over queries, whose pairs belong together; seeds are averaged first."""

    def values(runs: Sequence[pa.Table]) -> NDArray[np.float64]:
        found = [RANK_METRICS[metric](run.column(protocol).to_numpy()) for run in runs]
        return np.asarray(np.mean(found, axis=0))

    queries = ours[0].column("query").to_numpy()
    found = compare_paired(values(ours), values(theirs), seed, resamples=RESAMPLES, groups=queries)
    gap = found.difference
    return Difference(
        value=gap.value,
        low=gap.low,
        high=gap.high,
        p_value=found.p_value,
        examples=len(queries),
    )


def _compare_f1(
    ours: Sequence[pa.Table], theirs: Sequence[pa.Table], metric: str, seed: int
) -> Difference:
    """A bootstrap over edges; Macro-F1 is no mean over examples, so it is made anew each time.

    Edges of one label that all runs predict alike are drawn together, as counts.
    """
    labels = ours[0].column("label").to_numpy()
    guesses = [run.column("predicted").to_numpy() for run in (*ours, *theirs)]
    kinds, counts = np.unique(np.stack([labels, *guesses], 1), axis=0, return_counts=True)
    signs = np.array([1 / len(ours)] * len(ours) + [-1 / len(theirs)] * len(theirs))
    random, chances = np.random.default_rng(seed), counts / len(labels)
    drawn = np.concatenate(
        [
            _gaps(kinds, random.multinomial(len(labels), chances, len(block)), signs, metric)
            for block in index_blocks(RESAMPLES, max(1, BLOCK // 8 // len(kinds)))
        ]
    )
    low, high = np.quantile(drawn, [0.025, 0.975])
    wrong = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return Difference(
        value=float(_gaps(kinds, counts[None], signs, metric)[0]),
        low=float(low),
        high=float(high),
        p_value=min(1.0, 2 * (1 + float(wrong)) / (1 + RESAMPLES)),
        examples=len(labels),
    )


def _gaps(
    kinds: NDArray[np.int64], counts: NDArray[np.int64], signs: NDArray[np.float64], metric: str
) -> NDArray[np.float64]:
    """Kinds of edges [k, 1 + runs] and how many of each [r, k] -> the difference of F1 [r]."""
    classes = int(kinds.max()) + 1
    gap = np.zeros(len(counts))
    for run, sign in enumerate(signs, start=1):
        cells = kinds[:, 0] * classes + kinds[:, run]
        one_hot = np.zeros((len(kinds), classes**2))
        one_hot[np.arange(len(kinds)), cells] = 1.0
        tables = (counts @ one_hot).reshape(-1, classes, classes)
        if metric == "macro_f1":
            gap += sign * np.nanmean(f1_of_confusion(tables), axis=1)
        else:
            gap += sign * np.trace(tables, axis1=1, axis2=2) / counts.sum(1)
    return gap


def _without_group(metric: str) -> tuple[str, str]:
    """`full/mrr/degree 1-3` -> `full/mrr` and `degree 1-3`; other metrics are of no group."""
    plain, _, group = metric.rpartition("/")
    return (plain, group) if group in (*DEGREES, *PROFILES) else (metric, "")


def _chosen(table: pa.Table, part: str, group: str) -> pa.Table:
    """The examples of a part, in order; of a group of links, where one is named."""
    wanted = {"part": part} | ({group.partition(" ")[0]: group} if group else {})
    for column, value in wanted.items():
        if column not in table.column_names:  # it was written before groups were
            return table.slice(0, 0)
        table = table.filter(pc.equal(table.column(column).cast(pa.string()), value))
    return table.sort_by("edge")


def _same_edges(tables: Sequence[pa.Table]) -> bool:
    first = tables[0].column("edge")
    return all(table.column("edge").equals(first) for table in tables[1:])
