"""When nodes are active: vectors over time, whose products tell who is active at the same times."""

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import NO_TIME, PROFILE, TRAIN
from edgeformers.models.baselines.base import positive_links

Floats = NDArray[np.float32]

PERIODS = 128  # at most; each has as many training edges as the others
SMOOTHINGS = (1.0, 2.0, 4.0)  # deviations of the bell that an edge is spread by, in periods
MOST_NODES = 1_000_000  # above, the vectors of all nodes take too much memory


def has_times(graph: EdgeTextGraph, split: str) -> bool:
    """Whether the times of training edges can tell anything, of a network of this size."""
    if graph.times is None or graph.num_nodes > MOST_NODES:
        return False
    return len(_borders(graph, split)) > 0


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
    codes, borders = graph.split(split), _borders(graph, split)
    assert graph.times is not None
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


def _borders(graph: EdgeTextGraph, split: str) -> NDArray[np.int64]:
    """Times that part the training edges into periods of as many edges each."""
    assert graph.times is not None
    times = graph.times[graph.split(split) == TRAIN]
    times = times[times != NO_TIME]
    if not len(times):
        return np.empty(0, np.int64)
    shares = np.arange(1, PERIODS) / PERIODS
    found = np.unique(np.quantile(times, shares, method="inverted_cdf"))
    borders: NDArray[np.int64] = found[found > times.min()].astype(np.int64)
    return borders
