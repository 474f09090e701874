"""Every listed model learns of a simulated network what its information allows, and no more.

The simulation says what the best rule of each kind of evidence answers, edge by edge and link by
link. A model and its limit are compared on the same test examples, and the 95 % interval of their
difference says how much of it may be chance. What reads the text alone comes within 3 points of
the limit of the text, and not beyond it; what knows the two ends of an edge as well comes as near
to the limit of both. What reads other edges around lies between the two limits.

Links follow taste alone here: targets of one topic are equally popular, and words and links both
tell topics. So there is one best ranking, that of the true taste. The limit of the text lies lower,
since of a source two texts are read: `taste_given_topics` makes the best of what these say.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import INFERENCE
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.simulate import Simulation, SimulationConfig, simulate
from edgeformers.data.simulate.best import BestRules
from edgeformers.data.splits import TEST, SplitConfig
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import (
    InnerProductScorer,
    LinkTable,
    bootstrap_interval,
    node_positions,
    rank_full,
)
from edgeformers.evaluation.network_links import candidate_nodes, known_links, link_parts
from edgeformers.registry import MODELS
from tests.baselines.tiny import write_backbone
from tests.data.topic_taste import taste_given_topics

POINTS = 0.03

TEXT_OF_EDGES = ["bert"]
TEXTS_AROUND = ["graphformers", "bert-max-sage", "ehgnn", "bert-ehgnn"]
TEXTS_OF_NODES = ["bert-n", "graphformers-n"]


def know_nodes(encodes):
    """The models of a kind that know nodes: all that are not listed above."""
    texts = {*TEXT_OF_EDGES, *TEXTS_AROUND, *TEXTS_OF_NODES}
    return [n for n, entry in MODELS.items() if entry.encodes == encodes and n not in texts]


#: Over the recipe `default`: sizes, and rates for an encoder that has learned nothing before.
SMALL = {
    "model.node_width": 8,
    "model.bag_width": 32,
    "data.source_neighbors": [2],
    "train.lr": 5e-3,
}
EDGES = {
    **SMALL,
    "data.target_neighbors": [1],
    "train.epochs": 4,
    "train.batch_size": 32,
    "train.node_lr": 2e-2,
    "train.head_lr": 5e-3,
}
LINKS = {
    **SMALL,
    "data.target_neighbors": [2],
    "train.epochs": 4,
    "train.batch_size": 64,
    "train.head_lr": 2e-3,
    "links.uniform_negatives": 0,
    "links.ensemble": False,  # a model is asked here, not what is set beside it
}


def make_graph(simulation, folder, split):
    config = PrepareConfig(tokenizer=None, progress=False, splits=[SplitConfig.parse(split)])
    return write_network(simulation.table, folder / "network", config=config)


def make_backbone(folder, graph, width):
    """Two untrained layers that drop nothing, drawn so wide that texts differ from the start."""
    sure = dict.fromkeys(("dropout", "attention_dropout", "embedding_dropout"), 0.0)
    return write_backbone(folder / "backbone", graph, width=width, std=0.1, layers=2, **sure)


def fitted(kind, name, problem, settings):
    settings = {**settings, "model.name": name}
    return kind(problem.backbone, settings=settings, show=False, device="cpu").fit(problem.graph)


def compare(found, limit, groups=None):
    """How far a model's results [n] are above those of a limit, and between what."""
    return bootstrap_interval(found - limit, seed=0, groups=groups)


def assert_reached(gain):
    assert gain.value >= -POINTS
    assert gain.low <= 0  # what stands above is chance


def assert_between(gain_over_less, gain_over_all):
    assert gain_over_less.low > 0
    assert gain_over_all.low <= 0


# --- edges ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reviews:
    """Test edges of a network, and where the best rules are right: 1, else 0."""

    graph: EdgeTextGraph
    backbone: str
    test: np.ndarray
    stars: np.ndarray
    text: np.ndarray
    both: np.ndarray

    def hits(self, name, **settings):
        """Where a model is right that learned the other edges."""
        classifier = fitted(EdgeClassifier, name, self, {**EDGES, **settings})
        return (np.array(classifier.predict(self.test), int) - 1 == self.stars).astype(int)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    simulation = simulate(
        SimulationConfig(
            num_edges=4_000,
            num_sources=30,
            num_targets=24,
            classes=2,
            topics=2,
            temper=1.0,
            quality=1.0,
            mean_words=10,
            seed=5,
        )
    )
    folder = tmp_path_factory.mktemp("reviews")
    graph = make_graph(simulation, folder, "edge=random:0.6/0.1/0.3")
    test = np.flatnonzero(graph.split("edge") == TEST)
    rules, draws = BestRules(simulation.model), simulation.model.draw(test)
    text, _, both = rules.cells(draws)
    return Reviews(
        graph=graph,
        backbone=make_backbone(folder, graph, 16),
        test=test,
        stars=draws.stars,
        text=(rules.text.most_accurate[text] == draws.stars).astype(int),
        both=(rules.both.most_accurate[both] == draws.stars).astype(int),
    )


def test_a_text_tells_less_than_a_text_and_its_ends(reviews):
    assert compare(reviews.both, reviews.text).low > 5 * POINTS


@pytest.mark.parametrize("name", TEXT_OF_EDGES)
def test_a_text_alone_reaches_the_limit_of_the_text(name, reviews):
    assert_reached(compare(reviews.hits(name), reviews.text))


@pytest.mark.parametrize("name", know_nodes("edges"))
def test_a_text_and_its_ends_reach_the_limit_of_both(name, reviews):
    assert_reached(compare(reviews.hits(name, **{"train.epochs": 6}), reviews.both))


@pytest.mark.parametrize("name", TEXTS_AROUND)
def test_texts_around_tell_more_than_a_text_alone(name, reviews):
    hits = reviews.hits(name, **{"data.source_neighbors": [4]})  # they tell of a source's style
    assert_between(compare(hits, reviews.text), compare(hits, reviews.both))


# --- links ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Visits:
    """Test links of a network, and how targets are ranked by what is known of a source's taste."""

    simulation: Simulation
    graph: EdgeTextGraph
    backbone: str
    topic: np.ndarray  # of each target, [candidates]
    sources: np.ndarray  # those of the test links
    row: np.ndarray  # of each test link, its source's place among these
    column: np.ndarray  # and its target's place among the candidates
    known: LinkTable

    def fit(self, name, **more):
        """A predictor that learned the other links, and its reciprocal ranks."""
        predictor = fitted(LinkPredictor, name, self, {**LINKS, **more})
        return predictor, 1 / predictor.report(protocols=["full"]).ranks["full"]

    def told(self, predictor):
        """Reciprocal ranks by what the texts tell that the predictor reads of each source."""
        read = predictor.fitted_.network.loader.source_sampler.sample(self.sources, epoch=INFERENCE)
        topics = self.topic[node_positions(read.neighbors[read.mask], candidate_nodes(self.graph))]
        counts = np.zeros((len(self.sources), self.simulation.config.topics), int)
        np.add.at(counts, (np.nonzero(read.mask)[0], topics), 1)
        return self.reciprocal_ranks(taste_given_topics(self.simulation.model, counts))

    def taste(self):
        """P(topic | source), [sources, topics]."""
        return self.simulation.model.taste(simulated_numbers(self.graph, self.sources))

    def reciprocal_ranks(self, taste):
        """Means over all orders of equal targets, ranked by P(topic) [sources, topics].

        Known links are left out, as the protocol `full` does.
        """
        table = taste[:, self.topic]  # [sources, candidates]
        own = table[self.row, self.column][:, None]
        table[self.known.of(np.arange(len(table)))] = -1
        better = (table[self.row] > own * (1 + 1e-9)).sum(1)
        equal = (np.abs(table[self.row] - own) <= own * 1e-9).sum(1)
        total = np.append(0, np.cumsum(1 / np.arange(1, table.shape[1] + 1)))
        return (total[better + equal + 1] - total[better]) / (equal + 1)


def simulated_numbers(graph, nodes):
    """Of nodes of a network, those the simulation has for them: "user-000012" is 12."""
    return np.array([int(name.rpartition("-")[2]) for name in graph.node_names(nodes)])


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    simulation = simulate(
        SimulationConfig(
            num_edges=5_000,
            num_sources=120,
            num_targets=120,
            source_skew=1,
            target_skew=1,
            taste=0.9,
            mean_words=10,
            seed=5,
        )
    )
    folder = tmp_path_factory.mktemp("visits")
    graph = make_graph(simulation, folder, "link=per-source:0.6/0.1/0.3+new-pairs")
    test, candidates = link_parts(graph, "link")["test"], candidate_nodes(graph)
    sources, row = np.unique(graph.src[test].astype(np.int64), return_inverse=True)
    return Visits(
        simulation=simulation,
        graph=graph,
        backbone=make_backbone(folder, graph, 32),
        topic=simulation.model.topic[simulated_numbers(graph, candidates)],
        sources=sources,
        row=row,
        column=node_positions(graph.dst[test], candidates),
        known=known_links(graph, sources),
    )


def test_the_best_ranking_is_that_of_the_true_taste_with_lots_drawn_among_equals(visits):
    table, lots, drawn = visits.taste()[:, visits.topic], np.random.default_rng(0), []
    for _ in range(200):
        scorer = InnerProductScorer(table + 1e-6 * lots.random(table.shape), np.eye(table.shape[1]))
        ranks = rank_full(scorer, visits.column, queries=visits.row, known=visits.known)
        drawn.append(np.mean(1 / ranks))
    error = np.std(drawn) / len(drawn) ** 0.5
    assert abs(np.mean(drawn) - visits.reciprocal_ranks(visits.taste()).mean()) < 4 * error


@pytest.mark.parametrize("name", TEXTS_OF_NODES)
def test_texts_of_nodes_alone_reach_the_limit_of_the_texts_that_are_read(name, visits):
    predictor, found = visits.fit(name, **{"links.collaborative": False})
    taste = visits.taste()
    popularity = visits.reciprocal_ranks(np.broadcast_to(taste.mean(0), taste.shape))
    assert compare(found, popularity, visits.row).low > POINTS
    assert_reached(compare(found, visits.told(predictor), visits.row))


@pytest.mark.parametrize("name", know_nodes("nodes"))
def test_nodes_and_texts_rank_better_than_the_texts_tell_and_no_better_than_taste(name, visits):
    predictor, found = visits.fit(name)
    best = visits.reciprocal_ranks(visits.taste())
    over_text = compare(found, visits.told(predictor), visits.row)
    assert_between(over_text, compare(found, best, visits.row))
