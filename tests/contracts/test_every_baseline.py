"""What every listed simple baseline must do, and how near each comes to what it could know."""

from datetime import UTC, datetime

import numpy as np
import pytest

from edgeformers.baselines.base import EdgeBaseline, LinkBaseline
from edgeformers.baselines.collaborative.als import ALSConfig
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.baselines.graph.alpharec import AlphaRecConfig
from edgeformers.baselines.graph.transformer import GraphTransformerConfig
from edgeformers.baselines.temporal.sasrec import SASRecConfig
from edgeformers.baselines.temporal.tgn import TGNConfig
from edgeformers.baselines.text.boosting import BoostingConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.data.simulate import simulate
from edgeformers.data.splits import TEST, TRAIN, VAL, SplitConfig
from edgeformers.evaluation import FunctionScorer, rank_full
from edgeformers.evaluation.metrics import micro_f1, mrr
from edgeformers.evaluation.network_links import positive_links
from edgeformers.registry import (
    BACKBONE_BASELINES,
    EDGE_BASELINES,
    LINK_BASELINES,
    ROLLING_BASELINES,
)
from tests.baselines.tiny import write_backbone

pytest.importorskip("sklearn")

EDGES = 2_400
NOISY = {"tgn"}  # one seed says little on so few links
EVERY_EDGE = pytest.mark.parametrize("name", EDGE_BASELINES)
EVERY_LINK = pytest.mark.parametrize("name", LINK_BASELINES)

#: One quick setting where the defaults take long; a baseline not named here has its defaults.
ONE_C = {"grid": [3.0]}
PAIRS = {"grid": [PairwiseConfig(width=16, lr=0.03, batch=512, epochs=30)]}
QUICK = {
    "node-ids": ONE_C,
    "tfidf": ONE_C,
    "tfidf-nodes": ONE_C,
    "frozen": {"grid": [30.0]},
    "frozen-boosting": {"grid": [BoostingConfig(trees=15)]},
    "als": {"grid": [ALSConfig()]},
    "mf": {"grid": [ALSConfig()]},
    "bpr": PAIRS,
    "lightgcn": PAIRS,
    "recent-lightgcn": PAIRS,
    "sasrec": {"grid": [SASRecConfig(width=32, lr=3e-3, epochs=8, length=20)]},
    "sasrec-text": {"grid": [SASRecConfig(width=32, lr=3e-3, epochs=8, length=20)]},
    "tgn": {"grid": [TGNConfig(width=16, epochs=8, batch=100, lr=3e-3)]},
    "alpharec": {"grid": [AlphaRecConfig(epochs=30, batch=512)]},
    "graph-transformer": {"grid": [GraphTransformerConfig(width=32, steps=40)]},
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A simulated network, whose best scores are known; its links to be found are new pairs."""
    splits = [SplitConfig.parse(text) for text in ("edge=random", "link=per-source+new-pairs")]
    config = PrepareConfig(tokenizer=None, progress=False, splits=splits)
    path = tmp_path_factory.mktemp("baselines") / "network"
    return prepare_simulated(path, num_edges=EDGES, config=config)


@pytest.fixture(scope="module")
def backbone(graph, tmp_path_factory):
    return write_backbone(tmp_path_factory.mktemp("backbone") / "tiny", graph, width=128)


@pytest.fixture(scope="module")
def make(backbone):
    def make(name, seed=0):
        more = {"backbone": backbone} if name in BACKBONE_BASELINES else {}
        listed = EDGE_BASELINES | LINK_BASELINES
        return listed[name](seed=seed, **QUICK.get(name, {}), **more)

    return make


@pytest.fixture(scope="module")
def fitted(graph, make):
    """Each baseline once, fitted on the network as it is."""
    known = {}

    def fit(name):
        if name not in known:
            split = "edge" if name in EDGE_BASELINES else "link"
            known[name] = make(name).fit(graph, split)
        return known[name]

    return fit


def changed(graph, **arrays):
    """The same network with other arrays in place of its own."""
    twin = EdgeTextGraph.open(graph.path)
    for name, array in arrays.items():
        setattr(twin, name, array)
    return twin


def held_out(graph):
    edges = np.flatnonzero(graph.split("edge") == TEST)
    return edges, np.asarray(graph.labels)[edges]


def ends(graph):
    first = graph.num_sources if graph.is_bipartite else 0
    return np.arange(graph.num_sources), np.arange(first, graph.num_nodes)


def without_training(graph, split):
    """The network with no training edge at its first source and target, and these two nodes."""
    source, target = int(graph.src[0]), int(graph.dst[0])
    codes = np.array(graph.split(split))
    touched = (graph.src == source) | (graph.dst == target)
    codes[touched] = TEST
    splits = {**graph.splits, split: codes}
    return changed(graph, splits=splits), source, target


@EVERY_EDGE
def test_predicts_probabilities_of_every_class(name, graph, fitted):
    model, (edges, _) = fitted(name), held_out(graph)
    table = model.predict_proba(edges)
    assert isinstance(model, EdgeBaseline)
    assert table.shape == (len(edges), len(graph.label_names))
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.predict(edges), table.argmax(1))
    np.testing.assert_allclose(model.predict_proba(edges[[7, 2]]), table[[7, 2]], atol=1e-6)


@EVERY_EDGE
def test_accepts_no_edges(name, graph, fitted):
    assert fitted(name).predict_proba([]).shape == (0, len(graph.label_names))
    assert fitted(name).predict(np.empty(0, np.int64)).shape == (0,)


@EVERY_EDGE
def test_beats_the_majority_class(name, graph, fitted):
    edges, labels = held_out(graph)
    chance = np.bincount(labels).max() / len(labels)
    assert micro_f1(labels, fitted(name).predict(edges)) > chance + 0.05


@EVERY_EDGE
def test_probabilities_depend_only_on_the_seed_and_training_labels(name, graph, make, fitted):
    labels, edges = np.array(graph.labels), np.arange(graph.num_edges)
    outside = graph.split("edge") != TRAIN
    labels[outside] = (labels[outside] + 1) % len(graph.label_names)
    again = make(name).fit(changed(graph, labels=labels), "edge")
    np.testing.assert_array_equal(again.predict_proba(edges), fitted(name).predict_proba(edges))


@EVERY_EDGE
def test_an_edge_of_unseen_nodes_is_classified(name, graph, make):
    twin, source, target = without_training(graph, "edge")
    [edge] = np.flatnonzero((graph.src == source) & (graph.dst == target))[:1]
    table = make(name).fit(twin, "edge").predict_proba([edge])
    assert table.sum() == pytest.approx(1)
    assert table.max() < 1


@EVERY_EDGE
def test_the_setting_of_an_edge_baseline_is_empty_before_fit(name, make, fitted):
    assert make(name).setting == {}
    assert fitted(name).setting
    assert len(fitted(name).trials) == 1


def rank_test_links(graph, model):
    test = np.flatnonzero((graph.split("link") == TEST) & graph.is_positive)
    queries, candidates = ends(graph)
    rows, columns = graph.src[test].astype(np.int64), graph.dst[test] - candidates[0]
    known = positive_links(graph, "link", (TRAIN, VAL, TEST))
    return mrr(
        rank_full(
            FunctionScorer(lambda some: model.scores(queries[some], candidates), len(candidates)),
            columns,
            queries=rows,
            known=known,
        )
    )


@EVERY_LINK
def test_gives_a_finite_score_for_every_pair(name, graph, fitted):
    model, (queries, candidates) = fitted(name), ends(graph)
    table = model.scores(queries, candidates)
    assert isinstance(model, LinkBaseline)
    assert table.shape == (len(queries), len(candidates))
    assert table.dtype == np.float32
    assert np.isfinite(table).all()
    few = model.scores(queries[[4, 1]], candidates[[3, 0, 7]])
    np.testing.assert_allclose(few, table[[4, 1]][:, [3, 0, 7]], rtol=1e-4, atol=1e-5)


@EVERY_LINK
def test_accepts_no_queries_and_no_candidates(name, graph, fitted):
    queries, candidates = ends(graph)
    assert fitted(name).scores([], candidates).shape == (0, len(candidates))
    assert fitted(name).scores(queries, []).shape == (len(queries), 0)


@EVERY_LINK
def test_ranks_links_better_than_random(name, graph, make, fitted):
    places = np.arange(1, graph.num_targets + 1)
    more = [make(name, seed).fit(graph, "link") for seed in (1, 2)] if name in NOISY else []
    found = [rank_test_links(graph, model) for model in (fitted(name), *more)]
    assert np.mean(found) > 1.3 * np.mean(1 / places)


@EVERY_LINK
def test_scores_depend_only_on_the_seed_and_not_on_test_links(name, graph, make, fitted):
    targets, test = np.array(graph.dst), graph.split("link") == TEST
    targets[test] = np.random.default_rng(0).permutation(targets[test])
    again = make(name).fit(changed(graph, dst=targets), "link")
    np.testing.assert_array_equal(again.scores(*ends(graph)), fitted(name).scores(*ends(graph)))


@EVERY_LINK
def test_a_query_without_training_links_gets_popular_candidates(name, graph, make):
    twin, source, target = without_training(graph, "link")
    candidates = ends(graph)[1]
    found = make(name).fit(twin, "link").scores([source], candidates)[0]
    if name in ROLLING_BASELINES:  # recent popularity, with unseen candidates last
        assert found[target - candidates[0]] == found.min()
        return
    training = graph.dst[twin.split("link") == TRAIN]
    np.testing.assert_array_equal(
        found, np.bincount(training, minlength=graph.num_nodes)[candidates]
    )
    assert found[target - candidates[0]] == 0


@EVERY_LINK
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_all_nodes_are_ranked_in_a_network_with_one_node_type(
    name, directed, graph, make, make_network
):
    random = np.random.default_rng(5)
    pairs = [(s, (s + 2 * step) % 20) for s in range(20) for step in (1, 2, 3, 8, 9)]
    rows = [
        {
            "source": f"n{s}",
            "target": f"n{t}",
            "text": ("even", "odd")[s % 2],
            "split": part,
            "time": datetime(2020, 1, 1, tzinfo=UTC),
        }
        for (s, t), part in zip(
            pairs, random.permutation(["train"] * 60 + ["val"] * 20 + ["test"] * 20), strict=True
        )
    ]
    config = PrepareConfig(
        tokenizer=None,
        progress=False,
        splits=[SplitConfig(name="link", how="column", column="split")],
    )
    one_kind = make_network(rows, bipartite=False, directed=directed, config=config)
    model = make(name).fit(one_kind, "link")
    scores = model.scores(*ends(one_kind))
    assert scores.shape == (20, 20)
    assert np.isfinite(scores).all()
    if name in ("popularity", "recent-popularity") or (name == "reciprocity" and not directed):
        return  # who asks does not count
    if name == "tgn":
        return  # learns nothing from 60 links of one moment
    number = np.array([int(name[1:]) for name in one_kind.node_names(np.arange(20))])
    alike = (number[:, None] - number) % 2 == 0  # links never join an even and an odd node
    np.fill_diagonal(scores, np.nan)
    assert np.nanmean(scores[alike]) > np.nanmean(scores[~alike])


@EVERY_LINK
def test_the_setting_of_a_link_baseline_is_empty_before_fit(name, make, fitted):
    assert make(name).setting == {}
    assert isinstance(fitted(name).setting, dict)


#: How far below the best that its evidence allows a baseline may stay, in accuracy. Of the rules
#: of the simulation a bag of words lacks which phrase comes first, and an untrained encoder much.
REACHES = {"tfidf": ("text", 0.09), "frozen": ("text", 0.16), "node-ids": ("nodes", 0.16)}


@pytest.mark.parametrize("name", REACHES)
def test_approaches_but_does_not_exceed_the_best_score_of_its_inputs(name, graph, fitted):
    edges, labels = held_out(graph)
    sees, distance = REACHES[name]
    best = getattr(simulate(num_edges=EDGES).best_scores(sample=edges), sees).accuracy
    noise = 2 * np.sqrt(best * (1 - best) / len(edges))
    found = micro_f1(labels, fitted(name).predict(edges))
    assert best - distance < found < best + noise


def test_words_and_nodes_together_exceed_the_best_score_of_either(graph, fitted):
    edges, labels = held_out(graph)
    best = simulate(num_edges=EDGES).best_scores(sample=edges)
    noise = 2 * np.sqrt(0.25 / len(edges))
    found = micro_f1(labels, fitted("tfidf-nodes").predict(edges))
    assert max(best.text.accuracy, best.nodes.accuracy) + noise < found < best.both.accuracy
