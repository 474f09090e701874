"""Protocol `rolling`: each link is ranked with all that is strictly earlier, and nothing else."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from edgeformers.baselines.temporal.recent_popularity import DecayedCounts, RecentPopularity
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import NONE, TEST, TRAIN, VAL, SplitConfig
from edgeformers.errors import InputError
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingLinks

KINDS = {"bipartite": {}, "directed": {"directed": True}, "undirected": {"directed": False}}


def draw_rows(kind, seed=0, edges=120, nodes=12, days=25):
    """Edges of a few days, many on the same day, with repeated pairs and nodes that come late."""
    draw = np.random.default_rng(seed)
    rows = []
    for at in range(edges):
        newest = 3 + at * (nodes - 3) // edges  # nodes appear one after another
        source, target = draw.integers(0, newest + 1, 2).tolist()
        if kind != "bipartite" and source == target:
            target = (source + 1) % (newest + 1)
        names = (
            (f"s{source}", f"t{target}") if kind == "bipartite" else (f"n{source}", f"n{target}")
        )
        time = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=int(at * days / edges))
        rows.append({"source": names[0], "target": names[1], "text": "x", "time": time})
    return rows


@pytest.fixture
def make_timed(make_network):
    """A network with a chronological split."""

    def make(kind="bipartite", how="chronological", **more):
        splits = [SplitConfig(name="link", how=how, fractions=(0.5, 0.2, 0.3))]
        config = PrepareConfig(tokenizer=None, progress=False, splits=splits)
        rows = draw_rows(kind, **more)
        return make_network(rows, config=config, bipartite=kind == "bipartite", **KINDS[kind])

    return make


class Recorder:
    """Scores at random but always alike; keeps what it was told and when it was asked."""

    def __init__(self, graph):
        self.graph, self.observed, self.asked = graph, [], []
        shape = graph.num_nodes, len(candidate_nodes(graph))
        self.table = np.random.default_rng(1).integers(0, 4, shape).astype(float)

    def observe(self, edges):
        self.observed.extend(edges.tolist())

    def scores_at(self, sources, time):
        self.asked.append((time, list(self.observed)))
        return self.table[sources]


def ranks_by_hand(graph, table, part):
    """The rank of every link, from lists of all edges that are strictly earlier."""
    times, codes = graph.times, graph.split("link")
    first = candidate_nodes(graph)[0]
    end = times[codes == TRAIN].max()
    ranks = []
    for edge in sorted(np.flatnonzero(codes == part), key=lambda e: times[e]):
        is_read = (times < times[edge]) & (codes <= part)
        pairs = set(zip(graph.src[is_read].tolist(), graph.dst[is_read].tolist(), strict=True))
        if not graph.is_bipartite and not graph.is_directed:
            pairs |= {(target, source) for source, target in pairs}
        seen = set(graph.dst[is_read].tolist())
        if not graph.is_bipartite:
            seen |= set(graph.src[is_read].tolist())
        source, target = int(graph.src[edge]), int(graph.dst[edge])
        if times[edge] <= end or target not in seen or (source, target) in pairs:
            continue
        rank = 1.0
        for other in seen - {target}:
            if (source, other) not in pairs and (graph.is_bipartite or other != source):
                ours, theirs = table[source, target - first], table[source, other - first]
                rank += 1.0 * (theirs > ours) + 0.5 * (theirs == ours)
        ranks.append(rank)
    return sorted(ranks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("part", "code"), [("val", VAL), ("test", TEST)])
def test_ranks_equal_those_by_hand(make_timed, kind, part, code):
    graph = make_timed(kind)
    model = Recorder(graph)
    report = RollingLinks(graph, "link", part).rank(model)
    by_hand = ranks_by_hand(graph, model.table, code)
    assert len(by_hand) == RollingLinks(graph, "link", part).num_links > 5
    np.testing.assert_allclose(np.sort(report.ranks["rolling"]), by_hand)


def test_nothing_as_late_as_a_query_is_ever_read(make_timed):
    graph = make_timed()
    model = Recorder(graph)
    RollingLinks(graph, "link").rank(model)
    later = np.flatnonzero(graph.split("link") != TRAIN)
    assert sorted(model.observed) == later.tolist()  # everything arrives, once
    for time, read in model.asked:
        assert set(read) == set(later[graph.times[later] < time].tolist())


@pytest.mark.parametrize("every", [2, 5])
def test_one_in_many_links_is_ranked_with_all_that_is_earlier(make_timed, every):
    graph = make_timed()
    links = RollingLinks(graph, "link", "val")

    def ask(every):
        observed, blocks = [], {}
        for block in links.blocks(lambda edges: observed.extend(edges.tolist()), every=every):
            seen, others = sorted(observed), block.is_other
            blocks |= {edge: (seen, others[at].tolist()) for at, edge in enumerate(block.links)}
        return blocks, sorted(observed)

    everything, sample = ask(1), ask(every)
    assert sample[1] == everything[1]
    assert 0 < len(sample[0]) < len(everything[0])
    assert all(everything[0][edge] == known for edge, known in sample[0].items())


def test_a_limit_stops_after_the_first_edges(make_timed):
    graph = make_timed()
    whole, first = (RollingLinks(graph, "link", "val", limit=limit) for limit in (None, 10))
    assert first.arriving.tolist() == whole.arriving[:10].tolist()
    ranks = {block.links[0] for block in first.blocks(lambda edges: None)}
    assert ranks
    assert ranks <= set(first.arriving.tolist())


def test_a_second_model_starts_from_training(make_timed):
    graph = make_timed()
    links = RollingLinks(graph, "link")
    first, second = (links.rank(Recorder(graph)).ranks["rolling"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_links_are_grouped_by_what_training_knew(make_timed):
    graph = make_timed()
    report = RollingLinks(graph, "link").rank(Recorder(graph))
    groups = report.groups
    known = groups["both known"]
    assert 0 < known.sum() < len(known)
    np.testing.assert_array_equal(known, ~groups["new source"] & ~groups["new target"])


def test_a_random_split_is_refused(make_timed):
    with pytest.raises(InputError, match="chronological"):
        RollingLinks(make_timed(how="random"), "link")


def test_a_part_that_is_not_ranked_may_be_empty(make_network):
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.7, 0.3, 0.0))]
    config = PrepareConfig(tokenizer=None, progress=False, splits=splits)
    graph = make_network(draw_rows("bipartite"), config=config)
    report = RollingLinks(graph, "link", "val").rank(Recorder(graph))
    by_hand = ranks_by_hand(graph, Recorder(graph).table, VAL)
    np.testing.assert_allclose(np.sort(report.ranks["rolling"]), by_hand)
    with pytest.raises(InputError, match="test"):
        RollingLinks(graph, "link", "test")


def test_decayed_counts_equal_sums_and_do_not_underflow():
    day, counts = 86_400_000_000, DecayedCounts(4, memory=2.0)
    counts.add(np.array([0, 1, 0]), np.array([0, 0, 3]) * day)
    counts.add(np.array([1, 2]), np.array([5, 9_000]) * day)
    ages = {0: [9_000, 8_997], 1: [9_000, 8_995], 2: [0]}
    for column, own in ages.items():
        expected = np.logaddexp.reduce([-age / 2.0 for age in own])
        assert counts.now()[column] == pytest.approx(expected)
    assert counts.now()[3] == -np.inf


@pytest.mark.parametrize("kind", KINDS)
def test_recent_popularity_ranks_what_is_new_first(make_timed, kind):
    graph = make_timed(kind)
    links = RollingLinks(graph, "link")
    recent = links.rank(RecentPopularity((0.5,)).fit_rolling(graph, "link")).metrics("rolling")
    ever = links.rank(RecentPopularity((1e9,)).fit_rolling(graph, "link")).metrics("rolling")
    assert recent["mrr"] != ever["mrr"]


def test_the_memory_is_chosen_on_validation(make_timed):
    graph = make_timed()
    model = RecentPopularity((1e9, 0.5, 3.0)).fit_rolling(graph, "link")
    scores = {}
    for memory in (1e9, 0.5, 3.0):
        alone = RecentPopularity((memory,)).fit_rolling(graph, "link")
        scores[memory] = RollingLinks(graph, "link", "val").rank(alone).metrics("rolling")["mrr"]
    assert model.setting["memory_days"] == max(scores, key=scores.get)


def test_edges_outside_of_all_parts_arrive_but_are_not_ranked(make_network):
    """Links of known pairs, which the split drops."""
    rows = draw_rows("bipartite", edges=200)
    how = {"how": "chronological", "fractions": (0.5, 0.2, 0.3), "new_pairs": True}
    splits = [SplitConfig(name="link", **how)]
    graph = make_network(rows, config=PrepareConfig(tokenizer=None, progress=False, splits=splits))
    codes, times = graph.split("link"), graph.times
    dropped = np.flatnonzero(codes == NONE)
    test, val = RollingLinks(graph, "link"), RollingLinks(graph, "link", "val")
    assert len(dropped)
    assert np.isin(dropped, [*test.earlier, *test.arriving]).all()
    assert not set(dropped) & {link for block in test.blocks(np.size) for link in block.links}
    own = val.arriving[codes[val.arriving] == NONE]
    assert len(own)
    assert (times[own] < times[codes == TEST].min()).all()
    assert not (codes[val.arriving] == TEST).any()
