import numpy as np
import pytest

from edgeformers.baselines.base import (
    EdgeBaseline,
    LinkBaseline,
    ValidationRanking,
    best_setting,
    grid_search,
    training_links,
)
from edgeformers.baselines.registry import EDGE_BASELINES, LINK_BASELINES
from edgeformers.data.splits import TRAIN, VAL
from edgeformers.errors import InputError
from edgeformers.evaluation import FunctionScorer, LinkTable, rank_full
from edgeformers.evaluation.metrics import mrr
from edgeformers.evaluation.network_links import positive_links

ROWS = [
    {"source": "a", "target": "x", "text": "", "label": "yes", "split": "train"},
    {"source": "a", "target": "x", "text": "", "label": "yes", "split": "train"},
    {"source": "b", "target": "x", "text": "", "label": "no", "split": "train"},
    {"source": "b", "target": "y", "text": "", "label": "yes", "split": "val"},
    {"source": "a", "target": "y", "text": "", "label": "yes", "split": "train"},
]


def test_every_baseline_implements_its_protocol():
    assert all(isinstance(make(), EdgeBaseline) for make in EDGE_BASELINES.values())
    assert all(isinstance(make(), LinkBaseline) for make in LINK_BASELINES.values())


def test_links_are_distinct_positive_training_edges_with_counts(make_parts):
    graph = make_parts(ROWS, positive=["yes"])
    links = training_links(graph, "given")
    assert links.train.queries.tolist() == [0, 0]
    assert links.train.candidates.tolist() == [0, 1]
    assert links.train.counts.tolist() == [2, 1]
    assert (links.train.num_queries, links.train.num_candidates, links.first_candidate) == (2, 2, 2)
    assert links.popularity.tolist() == [2, 1]


def test_undirected_edges_are_links_in_both_directions(make_parts):
    graph = make_parts(ROWS, positive=["yes"], bipartite=False, directed=False)
    links = training_links(graph, "given").train
    a, x, _, y = range(4)
    pairs = list(zip(links.queries, links.candidates, strict=True))
    assert pairs == [(a, x), (a, y), (x, a), (y, a)]
    assert (links.num_queries, links.num_candidates) == (4, 4)


@pytest.mark.parametrize("bipartite", [True, False], ids=["bipartite", "one node type"])
def test_validation_ranking_agrees_with_full_ranking(make_parts, bipartite):
    random = np.random.default_rng(1)
    rows = [
        {"source": f"n{s}", "target": f"n{t}", "text": "", "split": part}
        for s, t, part in zip(
            random.integers(9, size=80),
            random.integers(9, size=80),
            random.choice(["train", "val", "test"], size=80),
            strict=True,
        )
        if s != t
    ]
    graph = make_parts(rows, bipartite=bipartite)
    scores = random.integers(0, 5, (graph.num_sources, graph.num_targets)).astype(np.float32)
    first = graph.num_sources if bipartite else 0
    links = positive_links(graph, "given", (VAL,))
    seen = positive_links(graph, "given", (TRAIN, VAL))
    known = seen.queries, seen.candidates
    if not bipartite:
        itself = np.arange(graph.num_nodes)
        known = np.append(known[0], itself), np.append(known[1], itself)
    ranks = rank_full(
        FunctionScorer(lambda rows: scores[rows], graph.num_targets),
        links.candidates,
        queries=links.queries,
        known=LinkTable.from_pairs(*known, graph.num_sources),
    )
    found = ValidationRanking(graph, "given").mrr(lambda q, c: scores[q][:, c - first])
    assert found == pytest.approx(mrr(ranks))


def test_grid_search_returns_the_best_model_and_all_trials():
    best, trials = grid_search([3, 1, 2], lambda x: -x, lambda fitted: -abs(fitted + 1))
    assert best == -1
    assert [(t.setting, t.score) for t in trials] == [(3, -2), (1, 0), (2, -1)]
    assert best_setting(trials) == 1


def test_grid_search_without_validation_fits_only_the_first_setting():
    fitted = []
    best, trials = grid_search([3, 1], lambda x: fitted.append(x) or x, lambda _: float("nan"))
    assert (best, fitted, best_setting(trials)) == (3, [3], 3)


def test_an_empty_grid_is_refused():
    with pytest.raises(InputError, match="empty"):
        grid_search([], lambda x: x, lambda _: 0.0)


def test_a_split_without_positive_training_edges_is_refused(make_parts):
    rows = [{**row, "label": "no"} for row in ROWS[:2]] + [ROWS[3]]
    graph = make_parts(rows, positive=["yes"])
    with pytest.raises(InputError, match="no positive training edge in the split 'given'"):
        training_links(graph, "given")
