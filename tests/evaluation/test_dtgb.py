"""DTGB's link tasks: which links and negatives they compare, and their metrics."""

import numpy as np
import pytest

from edgeformers.baselines.temporal.recent_popularity import RecentPopularity
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import TEST, TRAIN, SplitConfig
from edgeformers.evaluation.dtgb import DtgbReport, draw_negatives, rank_with_dtgb
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingBlock, RollingLinks
from tests.evaluation.test_rolling import KINDS, Recorder, draw_rows

SPLIT = SplitConfig(name="link", how="chronological", fractions=(0.5, 0.2, 0.3))


@pytest.fixture
def make_timed(make_network):
    """A network with a chronological split, from rows."""

    def make(rows, kind="bipartite", **more):
        config = PrepareConfig(tokenizer=None, progress=False, splits=[SPLIT])
        more |= {"bipartite": kind == "bipartite", **KINDS[kind]}
        return make_network(rows, config=config, **more)

    return make


def block_of(*, is_seen, is_linked, is_current, column):
    """One link of one source."""
    masks = (np.array([mask], bool) for mask in (is_seen, is_linked, is_current))
    return RollingBlock(np.array([7]), np.array([0]), np.array([column]), *masks, time=0)


BLOCK = block_of(
    is_seen=[1, 1, 1, 1, 1, 0],
    is_linked=[1, 0, 1, 1, 0, 0],
    is_current=[1, 0, 0, 0, 1, 0],
    column=0,  # linked before, and at this moment once more
)


def test_random_negatives_had_an_edge_but_have_none_with_the_source_now():
    assert sorted(draw_negatives(BLOCK, historical=False, count=4)[0]) == [-1, 1, 2, 3]


def test_historical_negatives_come_first_and_others_fill_up():
    assert sorted(draw_negatives(BLOCK, historical=True, count=2)[0]) == [2, 3]
    drawn = draw_negatives(BLOCK, historical=True, count=8)[0].tolist()
    assert sorted(drawn[:2]) == [2, 3]
    assert drawn[2:] == [1, -1, -1, -1, -1, -1]


def test_draws_are_uniform_and_without_replacement():
    links = np.arange(3000)
    seen = np.ones((3000, 6), bool)
    none = np.zeros_like(seen)
    block = RollingBlock(links, links, np.zeros(3000, int), seen, none, none, time=0)
    drawn = draw_negatives(block, historical=False, count=3)
    assert all(len(set(row)) == 3 for row in drawn.tolist())
    np.testing.assert_allclose(np.bincount(drawn.ravel()) / 9000, 1 / 6, atol=0.02)


def report_of(own, drawn, ranks, is_inductive):
    return DtgbReport(
        edges=np.arange(len(own)),
        is_inductive=np.array(is_inductive),
        own=np.array(own),
        drawn=np.array(drawn),
        ranks={"dtgb": np.array(ranks), "dtgb-historical": np.array(ranks) + 2},
    )


def test_metrics_equal_those_by_hand():
    results = report_of([0.9, 0.4], [0.6, 0.2], [1.0, 2.5], [True, False]).results()
    # ordered: link, negative, link, negative
    assert results["dtgb/ap"] == pytest.approx((1 + 2 / 3) / 2)
    assert results["dtgb/auc"] == pytest.approx(3 / 4)
    assert [results[f"dtgb/hit@{k}"] for k in (1, 3, 10)] == [0.5, 1, 1]
    assert [results[f"dtgb-historical/hit@{k}"] for k in (1, 3, 10)] == [0, 0.5, 1]
    assert results["dtgb-inductive/links"] == 1
    assert results["dtgb-inductive/auc"] == 1
    assert results["dtgb-historical-inductive/hit@3"] == 1


def test_a_link_without_any_negative_is_left_out_of_areas():
    results = report_of([0.9, 0.4], [np.nan, 0.6], [1.0, 1.0], [True, False]).results()
    assert results["dtgb/auc"] == 0
    assert np.isnan(results["dtgb-inductive/ap"])


class Constant(Recorder):
    """Scores all candidates alike, except for an offset that depends on the source."""

    def scores_at(self, sources, time):
        return np.zeros_like(self.table[sources]) + sources[:, None] + time


def test_ties_gain_nothing_and_offsets_of_a_source_change_nothing(make_timed):
    graph = make_timed(draw_rows("bipartite"))
    _, report = rank_with_dtgb(RollingLinks(graph, "link"), Constant(graph))
    results = report.results()
    assert results["dtgb/ap"] == results["dtgb/auc"] == 0.5
    assert results["dtgb/hit@1"] == results["dtgb-historical/hit@1"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_groups_equal_those_by_hand(make_timed, kind):
    graph = make_timed(draw_rows(kind), kind)
    links, model = RollingLinks(graph, "link"), Recorder(graph)
    rolling, report = rank_with_dtgb(links, model)
    np.testing.assert_array_equal(
        rolling.ranks["rolling"], links.rank(Recorder(graph)).ranks["rolling"]
    )
    times, codes, first = graph.times, graph.split("link"), candidate_nodes(graph)[0]
    trained = {*graph.src[codes == TRAIN].tolist(), *graph.dst[codes == TRAIN].tolist()}
    expected = {}
    for edge in np.flatnonzero((codes == TEST) & (times > times[codes == TRAIN].max())).tolist():
        read = times < times[edge]
        seen = set(graph.dst[read].tolist())
        if kind != "bipartite":
            seen = (seen | set(graph.src[read].tolist())) - {int(graph.src[edge])}
        source, target = int(graph.src[edge]), int(graph.dst[edge])
        if target in seen:
            own = model.table[source, target - first]
            below = [model.table[source, n - first] for n in seen - {target}]
            share = np.mean([1.0 * (s < own) + 0.5 * (s == own) for s in below])
            expected[edge] = (not {source, target} <= trained, share)
    assert len(expected) > len(rolling.ranks["rolling"])  # pairs that are linked once more
    assert sorted(report.edges.tolist()) == sorted(expected)
    for edge, is_inductive, share in zip(
        report.edges.tolist(), report.is_inductive, report.own, strict=True
    ):
        assert (is_inductive, pytest.approx(share)) == expected[edge]
    assert 0 < report.is_inductive.sum() < len(report.edges)


@pytest.mark.parametrize("kind", KINDS)
def test_negatives_never_include_links_of_the_moment(make_timed, kind):
    graph = make_timed(draw_rows(kind), kind)
    first = candidate_nodes(graph)[0]
    for block in RollingLinks(graph, "link").blocks(lambda edges: None, repeated=True):
        read, now = graph.times < block.time, graph.times == block.time
        pairs = set(zip(graph.src[now].tolist(), graph.dst[now].tolist(), strict=True))
        seen = {*graph.dst[read].tolist(), *(graph.src[read].tolist() if first == 0 else ())}
        for historical in (False, True):
            drawn = draw_negatives(block, historical=historical)
            for source, row in zip(block.sources.tolist(), drawn.tolist(), strict=True):
                targets = {column + first for column in row if column >= 0}
                assert targets <= seen - {source}
                assert not {(source, target) for target in targets} & pairs


def test_nothing_later_changes_a_result(make_timed):
    rows = draw_rows("bipartite")
    last = rows[-1]["time"]
    later = [row["target"] for row in rows if row["time"] == last]
    changed = [dict(row) for row in rows]
    moved = iter(later[1:] + later[:1])
    for row in changed:
        if row["time"] == last:
            row["target"] = next(moved)
    outcomes = []
    for own in (rows, changed):
        graph = make_timed(own, overwrite=True)
        model = RecentPopularity((2.0,)).fit_rolling(graph, "link")
        _, report = rank_with_dtgb(RollingLinks(graph, "link"), model)
        is_earlier = graph.times[report.edges] < graph.times.max()
        columns = report.edges, report.own, report.drawn, *report.ranks.values()
        outcomes.append([values[is_earlier] for values in columns])
        assert is_earlier.sum() > 10
    for before, after in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(before, after)
