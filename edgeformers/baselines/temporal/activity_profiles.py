"""When nodes are active: vectors over time, whose products tell who is active at the same times."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.base import fold_in_means, training_links
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import NO_TIME, TRAIN, VAL

Floats = NDArray[np.float32]

PERIODS = 128  # at most; each has as many training edges as the others
SMOOTHINGS = (1.0, 2.0, 4.0)  # deviations of the bell that an edge is spread by, in periods
LATE = 0.95  # share of training edges after which the usual validation link does not lie
MOST_NODES = 1_000_000  # above, the vectors of all nodes take too much memory


def has_times(graph: EdgeTextGraph, split: str) -> bool:
    """Whether the times of training edges can tell anything, of a network of this size.

    Of links that come after all of training they cannot: validation, which comes next, would
    tell of a nearness in time that the test does not have.
    """
    if graph.times is None or graph.num_nodes > MOST_NODES:
        return False
    train, validation = (_times(graph, split, part) for part in (TRAIN, VAL))
    if not len(train) or not len(validation):
        return False
    is_later = np.median(validation) > np.quantile(train, LATE)
    return len(_borders(train)) > 0 and not is_later


def activity_profiles(
    graph: EdgeTextGraph, split: str, smoothings: Sequence[float] = SMOOTHINGS
) -> Iterator[tuple[Floats, Floats]]:
    """Vectors of all nodes as queries and as keys [N, T]: the share of its edges in each period.

    One pair for each way of smoothing. Who was held out is the mean of what its profile links to,
    as one that arrives without times.
    """
    counts, links = _count_edges(graph, split), training_links(graph, split)
    sources = slice(0, links.train.num_queries)
    targets = slice(links.first_candidate, links.first_candidate + links.train.num_candidates)
    for smoothing in smoothings:
        shares = _smoothed_shares(counts, smoothing)
        query, key = shares.copy(), shares
        query[sources], key[targets] = fold_in_means(links, shares[sources], shares[targets])
        yield query, key


def _count_edges(graph: EdgeTextGraph, split: str) -> NDArray[np.float64]:
    """The training edges of each node in each period [N, T]."""
    assert graph.times is not None
    train = np.flatnonzero((graph.split(split) == TRAIN) & (graph.times != NO_TIME))
    times = graph.times[train]
    borders = _borders(times)
    period, periods = np.searchsorted(borders, times, side="right"), len(borders) + 1
    counts = np.zeros(graph.num_nodes * periods)
    for ends in (graph.src, graph.dst):
        cells = ends[train].astype(np.int64) * periods + period
        counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(-1, periods)


def _smoothed_shares(counts: NDArray[np.float64], smoothing: float) -> Floats:
    """What share of a node's edges lies in each period [N, T]; zeros where it has none."""
    at = np.arange(counts.shape[1])
    bell = np.exp(-np.square((at[:, None] - at) / smoothing) / 2)
    bell /= bell.sum(1, keepdims=True)
    spread = (counts @ bell).astype(np.float32)
    total = spread.sum(1, keepdims=True)
    total[total == 0] = 1
    shares: Floats = spread / total
    return shares


def _borders(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times that part these into periods of as many edges each."""
    shares = np.arange(1, PERIODS) / PERIODS
    found = np.unique(np.quantile(times, shares, method="inverted_cdf"))
    borders: NDArray[np.int64] = found[found > times.min()].astype(np.int64)
    return borders


def _times(graph: EdgeTextGraph, split: str, part: int) -> NDArray[np.int64]:
    """The known times of a part's edges."""
    assert graph.times is not None
    times = graph.times[graph.split(split) == part]
    known: NDArray[np.int64] = times[times != NO_TIME]
    return known
