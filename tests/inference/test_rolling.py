"""A fitted link predictor ranks as of each moment, with nodes that training never saw."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import NONE, TEST, TRAIN, VAL, SplitConfig
from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.evaluation.rolling import RollingLinks
from edgeformers.inference.edge_history import unread_links
from edgeformers.inference.index import LinkIndex
from edgeformers.inference.rolling import RollingPredictor, compare_rolling, report_rolling
from edgeformers.inference.rolling_validation import RollingValidation
from edgeformers.inference.trained_components import TextComponent
from tests.baselines.tiny import write_backbone
from tests.evaluation.later_edges import check_reads_nothing_later, write_two_networks
from tests.evaluation.test_rolling import KINDS, draw_rows

SETTINGS = {
    "train.epochs": 1,
    "data.source_neighbors": [3],
    "data.target_neighbors": [3],
}


@pytest.fixture
def fitted(make_network):
    return fit(make_network, draw_rows("bipartite"))


def fit(make_network, rows, kind="bipartite", out="network", **options):
    split = SplitConfig(name="link", how="chronological", fractions=(0.5, 0.2, 0.3))
    options = {"splits": [split], "tokenizer": "train:200", "progress": False, **options}
    config = PrepareConfig(**options)
    predictor = LinkPredictor("scratch:2x32", recipe="fast", settings=SETTINGS, show=False)
    is_bipartite = kind == "bipartite"
    graph = make_network(rows, config=config, out=out, bipartite=is_bipartite, **KINDS[kind])
    return predictor.fit(graph).fitted_


def test_every_link_is_ranked_and_the_model_stays_as_it_is(fitted):
    graph = fitted.network.graph
    links = RollingLinks(graph, "link")
    before = fitted.scorer.scores(np.arange(graph.num_sources))
    report = links.rank(RollingPredictor(fitted))
    assert report.groups["new target"].any()
    assert report.groups["new source"].any()
    assert np.isfinite(report.ranks["rolling"]).all()
    np.testing.assert_array_equal(fitted.scorer.scores(np.arange(graph.num_sources)), before)


def test_nothing_as_late_as_the_query_is_read(tmp_path):
    networks = write_two_networks(tmp_path)
    backbone = write_backbone(
        tmp_path / "tiny", networks[0], layers=2
    )  # its words are those of one network

    def fit_rolling(graph):
        predictor = LinkPredictor(backbone, recipe="fast", settings=SETTINGS, show=False)
        return RollingPredictor(predictor.fit(graph).fitted_)

    check_reads_nothing_later(fit_rolling, networks)


def test_scores_equal_those_after_update_by_id(fitted):
    graph = fitted.network.graph
    links = RollingLinks(graph, "link")
    known = np.flatnonzero(fitted.network.loader.source_sampler.adjacency.degrees() > 0)
    later = np.concatenate([links.earlier, links.arriving])
    later = later[np.isin(graph.src[later], known) & np.isin(graph.dst[later], known)]
    assert len(later) > 2
    rolling = RollingPredictor(fitted)
    rolling.observe(later)
    targets, source = known[known >= graph.num_sources], int(graph.src[later[-1]])
    scores = rolling.scores_at(np.array([source]), 0)[0, targets - graph.num_sources]
    names = graph.node_names(np.arange(graph.num_nodes))
    ends = zip(graph.src[later], graph.dst[later], graph.texts(later), strict=True)
    fitted.update([(names[s], names[t], text) for s, t, text in ends], times=graph.times[later])
    by_id = fitted.score([(names[source], names[target]) for target in targets])
    np.testing.assert_allclose(scores, by_id, rtol=1e-4, atol=1e-4)


def test_scores_after_all_edges_equal_those_of_a_rolling_predictor(fitted):
    graph = fitted.network.graph
    links, rolling = RollingLinks(graph, "link"), RollingPredictor(fitted, growth=1.0)
    later = np.concatenate([links.earlier, links.arriving])
    assert sorted(unread_links(graph, fitted.network.split)) == sorted(later)
    rolling.observe(later)
    assert fitted.read_all_edges() == len(later)
    assert fitted.read_all_edges() == 0
    sources = np.arange(graph.num_sources)
    ours, theirs = fitted.scorer.scores(sources), rolling.scores_at(sources, 0)
    is_known = fitted.network.loader.source_sampler.adjacency.degrees() > 0
    assert not is_known.all()  # others have no vector of their own, which says next to nothing
    known = np.ix_(is_known[: graph.num_sources], is_known[graph.num_sources :])
    np.testing.assert_allclose(ours[known], theirs[known], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours, theirs, atol=0.1 * ours.std())


def test_only_nodes_with_edges_are_recommended(fitted):
    graph = fitted.network.graph
    has_edges = fitted.network.loader.source_sampler.adjacency.degrees()[graph.num_sources :] > 0
    source = graph.node_names(np.array([0]))[0]
    before = fitted.recommend(source, 100, exclude_seen=False)
    assert len(before) == has_edges.sum() < len(has_edges)
    fitted.read_all_edges()
    after = fitted.recommend(source, 100, exclude_seen=False)
    assert {each.node for each in after} > {each.node for each in before}


def test_edges_that_were_read_cannot_be_ranked(fitted):
    fitted.evaluate("test")
    fitted.read_all_edges()
    with pytest.raises(InputError):
        fitted.evaluate("test")


def test_edges_that_are_not_links_change_no_score(make_network):
    rows = [{**row, "label": str(at % 3)} for at, row in enumerate(draw_rows("bipartite"))]
    fitted = fit(make_network, rows, positive_labels=["1", "2"])
    graph = fitted.network.graph
    later = RollingLinks(graph, "link").arriving
    links = later[graph.is_positive[later]]
    assert 0 < len(links) < len(later)
    sources = np.arange(graph.num_sources)
    scores = []
    for edges in (later, links):
        rolling = RollingPredictor(fitted)
        rolling.observe(edges)
        scores.append(rolling.scores_at(sources, 0))
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("kind", KINDS)
def test_edges_observed_together_equal_edges_observed_one_by_one(make_network, kind):
    fitted = fit(make_network, draw_rows(kind), kind)
    graph, sources = fitted.network.graph, np.arange(fitted.network.graph.num_sources)
    links = RollingLinks(graph, "link")
    later = np.concatenate([links.earlier, links.arriving])
    together, one_by_one = (RollingPredictor(fitted, growth=1.0) for _ in range(2))
    together.observe(later)
    for edge in later:
        one_by_one.observe(np.array([edge]))
    expected = one_by_one.component_scores_at(sources, 0)
    np.testing.assert_allclose(together.component_scores_at(sources, 0), expected, atol=1e-4)


def test_removed_edges_are_not_read_again(fitted):
    graph = fitted.network.graph
    later = unread_links(graph, fitted.network.split)
    source = int(np.bincount(graph.src[later]).argmax())
    name, own = graph.node_names(np.array([source]))[0], graph.adjacency.edges_of(source)
    assert fitted.remove_edges(name, "source") == len(own)
    assert fitted.read_all_edges() == (graph.src[later] != source).sum()
    assert fitted._history.degrees[source] == 0


def test_removals_after_all_edges_were_read_count_each_edge_once(fitted):
    graph, edges = fitted.network.graph, fitted.network.graph.adjacency
    later = unread_links(graph, fitted.network.split)
    fitted.read_all_edges()
    source = int(np.bincount(graph.src[later]).argmax())
    target = int(graph.dst[later[graph.src[later] == source][0]])
    names = graph.node_names(np.array([source, target]))
    assert fitted.remove_edges(names[0], "source") == len(edges.edges_of(source))
    assert fitted.remove_edges(names[0], "source") == 0
    left = graph.src[edges.edges_of(target)] != source
    assert fitted.remove_edges(names[1], "target") == left.sum()


def test_a_target_that_loses_its_later_edges_is_not_recommended_any_more(fitted):
    graph = fitted.network.graph
    has_edges = fitted.network.loader.source_sampler.adjacency.degrees()[graph.num_sources :] > 0
    cold = graph.node_names(graph.num_sources + np.flatnonzero(~has_edges)[:1])[0]
    source = graph.node_names(np.array([0]))[0]
    fitted.update([(source, cold, "fine")])
    assert cold in {each.node for each in fitted.recommend(source, 100, exclude_seen=False)}
    fitted.remove_edges(cold, "target")
    assert cold not in {each.node for each in fitted.recommend(source, 100, exclude_seen=False)}


def test_with_an_index_every_node_is_read_once_after_all_edges(fitted, tmp_path, monkeypatch):
    LinkIndex.build(fitted, tmp_path / "index", show=False)
    indexed, read = replace(fitted, index_folder=tmp_path / "index"), []
    monkeypatch.setattr("edgeformers.inference.live_links.READ_EDGES", 2)
    encode = TextComponent._encode

    def recorded(component, nodes, edges):
        read.extend(nodes.tolist())
        return encode(component, nodes, edges)

    monkeypatch.setattr(TextComponent, "_encode", recorded)
    indexed.recommend(indexed.nodes.ids_of([0])[0], 1)
    assert indexed.read_all_edges() > 10
    assert read
    assert max(np.bincount(read)) == 1
    monkeypatch.undo()
    plain = replace(fitted)
    plain.read_all_edges()
    sources = np.arange(fitted.network.graph.num_sources)
    np.testing.assert_allclose(
        indexed.scorer.scores(sources), plain.scorer.scores(sources), rtol=1e-3, atol=1e-3
    )


def test_ranks_over_time_do_not_depend_on_an_index(fitted, tmp_path):
    links = RollingLinks(fitted.network.graph, "link")
    expected = links.rank(RollingPredictor(fitted)).ranks["rolling"]
    LinkIndex.build(fitted, tmp_path / "index", show=False)
    indexed = replace(fitted, index_folder=tmp_path / "index")
    np.testing.assert_array_equal(links.rank(RollingPredictor(indexed)).ranks["rolling"], expected)


def test_unused_edges_from_before_the_end_of_training_are_not_read(make_network):
    rows = [{**row, "split": "train"} for row in draw_rows("bipartite")]
    for at, row in enumerate(sorted(rows, key=lambda row: row["time"])):
        share = at / len(rows)
        early = "train" if at % 3 else ""
        row["split"] = early if share < 0.5 else "val" if share < 0.7 else "test"
    splits = [SplitConfig(name="link", how="column", column="split")]
    fitted = fit(make_network, rows, splits=splits)
    graph, codes = fitted.network.graph, fitted.network.graph.split("link")
    assert (codes == NONE).any()
    unread = unread_links(graph, "link")
    assert sorted(unread) == np.flatnonzero(np.isin(codes, (VAL, TEST))).tolist()
    assert fitted.read_all_edges() == len(unread)


def ranks_by_id(report, graph):
    ends = zip(graph.src[report.edges], graph.dst[report.edges], strict=True)
    names = [tuple(graph.node_names(np.array(pair, np.int64))) for pair in ends]
    return dict(zip(names, report.ranks["rolling"], strict=True))


def fit_split(make_network, rows, kind, fractions, out):
    split = SplitConfig.parse(f"link=chronological:{fractions}")
    return fit(make_network, rows, kind, splits=[split], out=out)


@pytest.mark.parametrize("fractions", ["0.6/0.2/0.2", "0.3/0.3/0.4"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_earlier_model_ranks_links_of_another_network(make_network, kind, fractions):
    """As on its own network, which has the same edges; nodes have other numbers."""
    rows = draw_rows(kind)
    earlier = fit(make_network, rows, kind)
    newest_first = sorted(rows, key=lambda row: row["time"], reverse=True)
    fitted = fit_split(make_network, newest_first, kind, fractions, "other")
    before, graph = earlier.network.graph, fitted.network.graph
    assert graph.node_index.ids.to_pylist() != before.node_index.ids.to_pylist()
    ours, theirs = compare_rolling(fitted, earlier)
    expected = ranks_by_id(report_rolling(earlier), before)
    found = ranks_by_id(theirs, graph)
    assert len(found) > 5
    assert found == {pair: expected[pair] for pair in found}
    own = ranks_by_id(report_rolling(fitted), graph)
    assert ranks_by_id(ours, graph) == {pair: own[pair] for pair in found}


@pytest.mark.parametrize("later", ["own", "other"])
def test_links_that_a_model_was_fitted_on_are_not_compared(make_network, later):
    """Neither those of one model nor those of the other, not even at the same moment."""
    rows = draw_rows("bipartite")
    models = [
        fit_split(make_network, rows, "bipartite", fractions, out)
        for fractions, out in (("0.3/0.2/0.5", "long"), ("0.4/0.3/0.3", "short"))
    ]
    fitted, other = models if later == "other" else models[::-1]
    ours, theirs = compare_rolling(fitted, other)
    graph = fitted.network.graph
    used = [
        model.network.graph.times[np.isin(model.network.graph.split("link"), (TRAIN, VAL))].max()
        for model in models
    ]
    assert len(ours.edges) > 5
    assert graph.times[ours.edges].min() > max(used)
    assert ours.edges.tolist() == theirs.edges.tolist()
    assert len(ours.edges) < len(report_rolling(models[0]).edges)
    assert not len(compare_rolling(fitted, other, "val")[0].edges)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"how": "random"}, "chronological"),
        ({"kind": "directed"}, "kind"),
        ({"prefix": "x"}, "ids"),
        ({"years": 30}, "overlap"),
    ],
)
def test_models_that_cannot_be_compared_are_refused(make_network, change, word):
    fitted = fit(make_network, draw_rows("bipartite"))
    rows = draw_rows(change.get("kind", "bipartite"))
    prefix, years = change.get("prefix", ""), change.get("years", 0)
    for row in rows:
        row |= {end: prefix + row[end] for end in ("source", "target")}
        row["time"] -= timedelta(days=365 * years)
    split = SplitConfig(
        name="link", how=change.get("how", "chronological"), fractions=(0.5, 0.2, 0.3)
    )
    kind = change.get("kind", "bipartite")
    other = fit(make_network, rows, kind, splits=[split], out="other")
    with pytest.raises(InputError, match=word):
        compare_rolling(fitted, other)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_are_read_together_score_like_those_read_one_by_one(make_network, kind):
    fitted = replace(fit(make_network, draw_rows(kind), kind), ensemble=None)
    validation = RollingValidation(fitted, [])
    predictor, tables = RollingPredictor(fitted), []
    links = RollingLinks(fitted.network.graph, fitted.network.split, "val")
    for block in links.blocks(predictor.observe):
        tables.append(predictor.component_scores_at(block.sources, block.time).sum(1))
    expected = np.concatenate(tables)
    assert expected.any(0).sum() > 3
    found = validation.tables[:, 0].numpy() / validation.scales[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_links_after_training_count_as_unread_until_they_are_read(fitted):
    waiting = unread_links(fitted.network.graph, fitted.network.split)
    assert fitted.num_unread == len(waiting) > 0
    source = fitted.network.graph.node_names(fitted.network.graph.src[waiting[:1]])[0]
    fitted.remove_edges(source, "source")
    assert 0 < fitted.num_unread < len(waiting)
    fitted.read_all_edges()
    assert fitted.num_unread == 0
