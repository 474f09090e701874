"""When nodes are active: vectors over time, whose products tell who is active at the same times."""

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import NO_TIME, PROFILE, TRAIN, VAL
from edgeformers.models.baselines.base import positive_links

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


def when_vectors(graph: EdgeTextGraph, split: str, smoothing: float) -> tuple[Floats, Floats]:
    """Vectors of all nodes as queries and as keys [N, T]: the share of its edges in each period.

    A node that training has not met is described as one that arrives without times: a source by
    the mean of what its profile links to. A target by the times of its profile.
    """
    key = _activity(graph, split, smoothing)
    links = positive_links(graph, split)
    cold = links.cold_rows
    if not len(cold):
        return key, key
    place, column = links.known.cells_of(cold)
    sums = np.zeros((len(cold), key.shape[1]), np.float32)
    np.add.at(sums, place, key[column + links.first_column])
    query = key.copy()
    query[cold] = sums / np.bincount(place, minlength=len(cold))[:, None].clip(min=1)
    return query, key


def _activity(graph: EdgeTextGraph, split: str, smoothing: float) -> Floats:
    """The share of each node's edges in each period [N, T], smoothed; zeros where it has none."""
    assert graph.times is not None
    codes, borders = graph.split(split), _borders(_times(graph, split, TRAIN))
    periods = len(borders) + 1
    counts = np.zeros(graph.num_nodes * periods)
    held_out = graph.training_adjacency(split).held_out
    for ends in (graph.src, graph.dst):
        mine = codes == TRAIN
        if held_out is not None:
            mine |= (codes == PROFILE) & held_out[ends]
        chosen = np.flatnonzero(mine & (graph.times != NO_TIME))
        period = np.searchsorted(borders, graph.times[chosen], side="right")
        cells = ends[chosen].astype(np.int64) * periods + period
        counts += np.bincount(cells, minlength=len(counts))
    at = np.arange(periods)
    bell = np.exp(-np.square((at[:, None] - at) / smoothing) / 2)
    bell /= bell.sum(1, keepdims=True)
    spread = (counts.reshape(-1, periods) @ bell).astype(np.float32)
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
