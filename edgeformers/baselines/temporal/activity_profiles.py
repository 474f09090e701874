"""Activity profiles: when each node is active, so that nodes active at the same times match."""

from collections.abc import Iterator, Sequence

import numpy as np

from edgeformers.baselines.base import Scores, fold_in_means, training_links
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import NO_TIME, TRAIN, VAL
from edgeformers.data.types import Floats, Ints

PERIODS = 128  # at most; all hold the same number of training edges
SMOOTHINGS = (1.0, 2.0, 4.0)  # standard deviations of the Gaussian kernel, in periods
LATE = 0.95  # quantile of training times; validation whose median is later is in the future
MAX_NODES = 1_000_000  # above, the profiles of all nodes take too much memory


def has_usable_times(graph: EdgeTextGraph, split: str) -> bool:
    """Whether the times of training edges can inform the links to predict.

    They cannot if validation comes after training: its links would be close in time to training,
    unlike those of the test part.
    """
    if graph.times is None or graph.num_nodes > MAX_NODES:
        return False
    train, validation = (_known_times(graph, split, part) for part in (TRAIN, VAL))
    if not len(train) or not len(validation):
        return False
    is_future = np.median(validation) > np.quantile(train, LATE)
    return len(_period_starts(train)) > 0 and not is_future


def activity_profiles(
    graph: EdgeTextGraph, split: str, smoothings: Sequence[float] = SMOOTHINGS
) -> Iterator[tuple[Scores, Scores]]:
    """Vectors of all nodes as queries and as keys [N, T]: the share of their edges per period.

    Yields one pair per smoothing. A cold node, whose edges have no times, is the mean of what its
    profile links to.
    """
    counts, links = _count_edges(graph, split), training_links(graph, split)
    sources = slice(0, links.train.num_queries)
    targets = slice(links.first_candidate, links.first_candidate + links.train.num_candidates)
    for smoothing in smoothings:
        shares = _smoothed_shares(counts, smoothing)
        query, key = shares.copy(), shares
        query[sources], key[targets] = fold_in_means(links, shares[sources], shares[targets])
        yield query, key


def _count_edges(graph: EdgeTextGraph, split: str) -> Floats:
    """The training edges of each node in each period [N, T]."""
    assert graph.times is not None
    train = np.flatnonzero((graph.split(split) == TRAIN) & (graph.times != NO_TIME))
    times = graph.times[train]
    starts = _period_starts(times)
    period, num_periods = np.searchsorted(starts, times, side="right"), len(starts) + 1
    counts = np.zeros(graph.num_nodes * num_periods)
    for ends in (graph.src, graph.dst):
        cells = ends[train].astype(np.int64) * num_periods + period
        counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(-1, num_periods)


def _smoothed_shares(counts: Floats, smoothing: float) -> Scores:
    """The share of a node's edges in each period [N, T]; zeros for a node without edges."""
    period = np.arange(counts.shape[1])
    kernel = np.exp(-np.square((period[:, None] - period) / smoothing) / 2)
    kernel /= kernel.sum(1, keepdims=True)
    smoothed = (counts @ kernel).astype(np.float32)
    total = smoothed.sum(1, keepdims=True)
    total[total == 0] = 1
    return np.asarray(smoothed / total)


def _period_starts(times: Ints) -> Ints:
    """The starts of all periods but the first, so that each holds the same number of edges."""
    quantiles = np.quantile(times, np.arange(1, PERIODS) / PERIODS, method="inverted_cdf")
    starts = np.unique(quantiles)
    return np.asarray(starts[starts > times.min()], np.int64)


def _known_times(graph: EdgeTextGraph, split: str, part: int) -> Ints:
    """The times of a part's edges, without unknown ones."""
    assert graph.times is not None
    times = graph.times[graph.split(split) == part]
    return np.asarray(times[times != NO_TIME])
