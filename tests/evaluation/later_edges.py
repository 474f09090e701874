"""Two networks that differ only in edges as late as a moment, and the scores until that moment."""

from datetime import timedelta

import numpy as np

from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import TEST, TRAIN, SplitConfig
from edgeformers.data.table import EdgeTable
from tests.evaluation.test_rolling import draw_rows

LATE = 350  # of 400 rows


def write_two_networks(folder):
    """Networks of 25 days in which nodes keep appearing, and the moment until which they agree.

    From then on they differ in the ends, texts, labels and times of edges.
    """
    rows = draw_rows("bipartite", edges=400, nodes=30)
    for number, row in enumerate(rows):
        row["text"] = f"word{number % 7} of {row['target']}"
        row["label"] = ("no", "yes", "yes")[number % 3]
    moment = rows[LATE]["time"]
    one, other = _write(rows, folder / "one"), _write(_changed(rows, moment), folder / "other")
    assert one.node_index.ids == other.node_index.ids  # so that scores can be compared
    return one, other, int(one.times[LATE])


def _changed(rows, moment):
    """The rows with others from a moment on; nodes appear in the same order."""
    known, changed = set(), []
    for number, row in enumerate(rows):
        ends = {row["source"], row["target"]}
        if row["time"] >= moment:
            row = {**row, "label": ("yes", "no")[number % 2], "text": f"unlike word{number % 5}"}
            row["time"] += timedelta(days=number % 4)
            if ends <= known:
                row |= {"source": f"s{number % 3}", "target": f"t{number % 2}"}
        known |= ends
        changed.append(row)
    return changed


def _write(rows, folder):
    fields = ["time", "label"]
    table = EdgeTable.from_rows(lambda: rows, fields=fields, origin="rows", bipartite=True)
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.5, 0.2, 0.3))]
    config = PrepareConfig(tokenizer=None, progress=False, splits=splits, positive_labels=["yes"])
    return write_network(table, folder, config=config)


def scores_until(model, graph, moment):
    """The scores of all sources at each test time until a moment, after what is strictly earlier.

    [times, sources, candidates]
    """
    codes, times = graph.split("link"), graph.times
    later = np.flatnonzero(codes != TRAIN)
    later = later[np.argsort(times[later], kind="stable")]
    tables, start = [], 0
    for time in np.unique(times[(codes == TEST) & (times <= moment)]).tolist():
        stop = int(np.searchsorted(times[later], time))
        model.observe(later[start:stop])
        start = stop
        tables.append(np.array(model.scores_at(np.arange(graph.num_sources), time)))
    return np.stack(tables)


def check_reads_nothing_later(fit, networks):
    """Assert that the model that `fit` makes of a network scores both alike until the moment."""
    *graphs, moment = networks
    tables = [scores_until(fit(graph), graph, moment) for graph in graphs]
    assert len(tables[0]) > 4
    np.testing.assert_allclose(*tables, rtol=1e-5, atol=1e-5)
