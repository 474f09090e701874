"""What every baseline that reads edges as they arrive must do under `rolling`."""

import numpy as np
import pytest

from edgeformers.baselines.registry import BACKBONE_BASELINES, LINK_BASELINES, ROLLING_BASELINES
from edgeformers.baselines.temporal.base import BUDGET
from edgeformers.baselines.temporal.history import DAY
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import TRAIN, SplitConfig
from edgeformers.data.table import EdgeTable
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingLinks
from tests.baselines.tiny import write_backbone
from tests.contracts.test_every_baseline import QUICK
from tests.evaluation.test_rolling import draw_rows

EVERY = pytest.mark.parametrize("name", sorted(ROLLING_BASELINES))


def write(folder, *, late="of"):
    """A network of 25 days in which nodes keep appearing; `late` is a word of its last texts."""
    rows = draw_rows("bipartite", edges=400, nodes=30)
    for number, row in enumerate(rows):
        word = "of" if number < 350 else late
        row["text"] = f"word{number % 7} {word} {row['target']}"
    table = EdgeTable.from_rows(lambda: rows, fields=["time"], origin="rows", bipartite=True)
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.6, 0.2, 0.2))]
    config = PrepareConfig(tokenizer=None, progress=False, splits=splits)
    return write_network(table, folder, config=config)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return write(tmp_path_factory.mktemp("rolling") / "network")


@pytest.fixture(scope="module")
def make(network, tmp_path_factory):
    backbone = write_backbone(tmp_path_factory.mktemp("backbone") / "tiny", network)

    def make(name):
        more = {"backbone": backbone} if name in BACKBONE_BASELINES else {}
        return LINK_BASELINES[name](seed=0, **QUICK.get(name, {}), **more)

    return make


def scores_before(model, graph, time):
    """The scores of all sources as of a moment, after reading all that is strictly earlier."""
    later = np.flatnonzero((graph.split("link") != TRAIN) & (graph.times < time))
    model.observe(later[np.argsort(graph.times[later], kind="stable")])
    return np.asarray(model.scores_at(np.arange(graph.num_sources), time))


@EVERY
def test_ranks_every_link_and_every_candidate(name, network, make):
    model = make(name).fit_rolling(network, "link")
    report = RollingLinks(network, "link").rank(model)
    assert len(report.ranks["rolling"]) > 20
    table = np.asarray(model.scores_at(np.arange(network.num_sources), 0))
    assert table.shape == (network.num_sources, len(candidate_nodes(network)))
    assert not np.isnan(table).any()


@EVERY
def test_nothing_as_late_as_the_query_is_read(name, network, make, tmp_path):
    """Texts, targets and times of all later edges are changed; no score of that moment changes."""
    moment = int(network.times[350])
    is_later = network.times >= moment
    twin = write(tmp_path / "twin", late="unlike")
    draw = np.random.default_rng(0)
    twin.dst, twin.times = np.array(network.dst), np.array(network.times)
    twin.dst[is_later] = draw.permutation(twin.dst[is_later])
    twin.times[is_later] += draw.integers(0, 5, is_later.sum()) * DAY
    tables = [
        scores_before(make(name).fit_rolling(graph, "link"), graph, moment)
        for graph in (network, twin)
    ]
    np.testing.assert_allclose(*tables, rtol=1e-5, atol=1e-5)


@EVERY
def test_what_arrives_changes_the_scores_of_what_is_asked_next(name, network, make):
    model = make(name).fit_rolling(network, "link")
    before = np.array(model.scores_at(np.arange(network.num_sources), 0))
    after = scores_before(model, network, int(network.times.max()) + 1)
    assert (before != after).any()


@EVERY
def test_the_search_budget_is_the_same_for_every_row(name):
    model = LINK_BASELINES[name](seed=0)
    settings = getattr(model, "memories", None) or model.grid
    assert len(settings) * len(getattr(model, "recency", [None])) == BUDGET
