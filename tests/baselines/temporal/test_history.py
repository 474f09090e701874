"""Links by source and candidate that grow, and scores of the heuristics worked out by hand."""

from datetime import UTC, datetime

import numpy as np
import pytest

from edgeformers.baselines.temporal.base import Recency
from edgeformers.baselines.temporal.history import LinkHistory, timed_links
from edgeformers.baselines.temporal.last_neighbors import LastNeighbors, LastNeighborsConfig
from edgeformers.baselines.temporal.recent_ease import RecentEASE, RecentEASEConfig
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import TRAIN, SplitConfig
from edgeformers.errors import InputError

#: Day, source, target; the last two are validation and test.
EDGES = [(1, "a", "x"), (2, "a", "y"), (3, "b", "y"), (4, "b", "z"), (5, "c", "x"), (5, "c", "y")]
LATER = [(7, "d", "z"), (9, "a", "w")]


@pytest.fixture
def graph(make_network):
    parts = ["train"] * len(EDGES) + ["val", "test"]
    rows = [
        {
            "source": source,
            "target": target,
            "text": "t",
            "time": datetime(2020, 1, day, tzinfo=UTC),
            "split": part,
        }
        for (day, source, target), part in zip(EDGES + LATER, parts, strict=True)
    ]
    splits = [SplitConfig(name="link", how="column", column="split")]
    config = PrepareConfig(tokenizer=None, progress=False, splits=splits)
    return make_network(rows, config=config, bipartite=True)


def numbers(graph, names):
    every = graph.node_names(np.arange(graph.num_nodes))
    return np.array([every.index(name) for name in names])


def trained(graph):
    return np.flatnonzero(graph.split("link") == TRAIN)


def test_a_history_grows_and_its_copy_does_not(graph):
    history = LinkHistory(graph, trained(graph))
    grown = history.copy()
    grown.add(np.array([6, 7]))
    a, d = numbers(graph, ["a", "d"]).tolist()
    [w] = numbers(graph, ["w"]) - graph.num_sources
    assert history.degrees(np.array([a, d])).tolist() == [2, 0]
    assert grown.degrees(np.array([a, d])).tolist() == [3, 1]
    assert grown.columns[grown.of_source(a)][-1] == w
    assert grown.sources[grown.of_column(w)].tolist() == [a]
    assert grown.now - history.now == 4 * 86_400_000_000


def test_an_undirected_edge_is_a_link_in_both_directions(make_network):
    rows = [{"source": "a", "target": "b", "text": "t"}, {"source": "b", "target": "c", "text": ""}]
    config = PrepareConfig(tokenizer=None, progress=False)
    graph = make_network(rows, config=config, bipartite=False, directed=False)
    links = timed_links(graph, np.arange(2))
    assert set(zip(links.sources.tolist(), links.columns.tolist(), strict=True)) == {
        (0, 1),
        (1, 0),
        (1, 2),
        (2, 1),
    }


def test_last_neighbors_count_what_others_linked_to(graph):
    """The last link of a is y, of a, b and c: x twice, y three times, z once."""
    model = LastNeighbors([LastNeighborsConfig(last=1)], [Recency()]).fit(graph, "link")
    columns = numbers(graph, ["x", "y", "z"])
    x, y, z = model.scores(numbers(graph, ["a"]), columns)[0]  # standardized
    by_hand = np.array([2 / np.sqrt(2), 3 / np.sqrt(3), 1.0])
    assert (y - x) / (y - z) == pytest.approx((by_hand[1] - by_hand[0]) / (by_hand[1] - 1.0))


def test_last_neighbors_follow_what_arrives(graph):
    model = LastNeighbors([LastNeighborsConfig(last=1)], [Recency()]).fit(graph, "link")
    d, columns = numbers(graph, ["d"]), numbers(graph, ["x", "y", "z"])
    model.observe(np.array([6]))  # d -> z, as b, which also linked to y
    x, y, z = model.scores(d, columns)[0]
    assert z > y > x


def test_ease_with_recency_prefers_what_follows_from_recent_links(graph):
    settings = [RecentEASEConfig(penalty=1.0), RecentEASEConfig(penalty=1.0, history_memory=0.01)]
    even, recent = (RecentEASE([one], [Recency()]).fit(graph, "link") for one in settings)
    b, columns = numbers(graph, ["b"]), numbers(graph, ["x", "y", "z"])
    x, _, _ = (even.scores(b, columns) - recent.scores(b, columns))[0]
    assert x != 0  # y, which suggests x, is older than z


def test_recency_ranks_by_recent_links_if_its_weight_is_large(graph):
    model = LastNeighbors(recency=[Recency(1e6, 1.0)]).fit(graph, "link")
    order = model.scores(numbers(graph, ["a"]), numbers(graph, ["x", "y", "z"]))[0].argsort()
    assert order.tolist() == [2, 0, 1]  # y twice lately, x on the last day, z before


def test_an_empty_grid_is_refused():
    with pytest.raises(InputError, match="grid"):
        LastNeighbors([])
