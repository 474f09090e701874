"""What every baseline that reads edges as they arrive must do under `rolling`."""

import numpy as np
import pytest

from edgeformers.baselines.registry import BACKBONE_BASELINES, LINK_BASELINES, ROLLING_BASELINES
from edgeformers.baselines.temporal.base import BUDGET
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingLinks
from tests.baselines.tiny import write_backbone
from tests.contracts.test_every_baseline import QUICK
from tests.evaluation.later_edges import (
    check_reads_nothing_later,
    scores_until,
    write_two_networks,
)

EVERY = pytest.mark.parametrize("name", sorted(ROLLING_BASELINES))


#: What a scorer could learn from later edges: counts of their ends, their labels, their texts.
LEAKS = {
    "targets": lambda graph: np.bincount(graph.dst, minlength=graph.num_nodes),
    "adjacency": lambda graph: graph.adjacency.degrees(),
    "labels": lambda graph: np.full(graph.num_nodes, graph.is_positive.mean()),
    "texts": lambda graph: np.full(graph.num_nodes, graph.text_lengths.mean()),
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    return write_two_networks(tmp_path_factory.mktemp("rolling"))


@pytest.fixture(scope="module")
def network(networks):
    return networks[0]


@pytest.fixture(scope="module")
def make(network, tmp_path_factory):
    backbone = write_backbone(tmp_path_factory.mktemp("backbone") / "tiny", network)

    def make(name):
        more = {"backbone": backbone} if name in BACKBONE_BASELINES else {}
        return LINK_BASELINES[name](seed=0, **QUICK.get(name, {}), **more)

    return make


class Leaking:
    """Scores by counts over the whole network, which no scorer may do."""

    def __init__(self, graph, leak):
        self.counts = LEAKS[leak](graph)[candidate_nodes(graph)]

    def observe(self, edges):
        pass

    def scores_at(self, sources, time):
        return np.tile(self.counts, (len(sources), 1))


@EVERY
def test_ranks_every_link_and_every_candidate(name, network, make):
    model = make(name).fit_rolling(network, "link")
    report = RollingLinks(network, "link").rank(model)
    assert len(report.ranks["rolling"]) > 20
    table = np.asarray(model.scores_at(np.arange(network.num_sources), 0))
    assert table.shape == (network.num_sources, len(candidate_nodes(network)))
    assert not np.isnan(table).any()


@EVERY
def test_nothing_as_late_as_the_query_is_read(name, networks, make):
    check_reads_nothing_later(lambda graph: make(name).fit_rolling(graph, "link"), networks)


@pytest.mark.parametrize("leak", LEAKS)
def test_a_scorer_that_reads_later_edges_is_caught(leak, networks):
    with pytest.raises(AssertionError):
        check_reads_nothing_later(lambda graph: Leaking(graph, leak), networks)


@EVERY
def test_what_arrives_changes_the_scores_of_what_is_asked_next(name, network, make):
    first, *_, last = scores_until(
        make(name).fit_rolling(network, "link"), network, network.times.max()
    )
    assert (first != last).any()


@EVERY
def test_the_search_budget_is_the_same_for_every_row(name):
    model = LINK_BASELINES[name](seed=0)
    settings = getattr(model, "memories", None) or model.grid
    assert len(settings) * len(getattr(model, "recency", [None])) == BUDGET
