"""Links of a network ranked by any scorer, and what is chosen on validation alone."""

import numpy as np
import pytest

from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.errors import InputError
from edgeformers.evaluation import PROTOCOLS, FunctionScorer, network_links
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.evaluation.network_links import (
    candidate_nodes,
    known_links,
    link_parts,
    rank_links,
)


def scorer_of(scores):
    """What makes scorers of functions of nodes."""

    def scorer(queries, candidates):
        return FunctionScorer(lambda rows: scores(queries[rows], candidates), len(candidates))

    return scorer


def tastes(graph, parts):
    """Popularity twice over, and a liking of the links of validation and test."""
    first, count = candidate_nodes(graph)[0], graph.num_targets
    links = np.bincount(graph.dst[parts["train"]] - first, minlength=count)
    table = np.tile(np.log1p(links), (graph.num_sources, 1))
    for part in ("val", "test"):
        table[graph.src[parts[part]], graph.dst[parts[part]] - first] += 0.5
    return scorer_of(lambda queries, candidates: table[np.ix_(queries, candidates - first)])


def ranked(graph, parts, pairs, scorer, protocols=PROTOCOLS):
    adjacency = graph.training_adjacency("link")
    return rank_links(graph, parts, pairs, scorer, adjacency=adjacency, protocols=protocols)


def test_test_links_do_not_affect_the_correction(simulated):
    parts = link_parts(simulated, "link")
    scorer = tastes(simulated, parts)
    found = ranked(simulated, parts, parts["test"], scorer)
    assert found.corrections["paper-shifted"].shift > 0
    half = {**parts, "test": parts["test"][::2]}
    for pairs in (half["test"], parts["val"], parts["train"][:7]):
        assert ranked(simulated, half, pairs, scorer).corrections == found.corrections
    assert found.metrics("paper-shifted")["mrr"] > found.metrics("paper")["mrr"]


def test_the_correction_uses_validation_links_and_training_popularity(simulated, monkeypatch):
    asked = {}

    def evaluate(scorer, positives, *, queries, validation, **rest):
        asked.update(scorer=scorer, positives=positives, queries=queries, validation=validation)

    monkeypatch.setattr(network_links, "evaluate_links", evaluate)
    parts = link_parts(simulated, "link")
    candidates, made = candidate_nodes(simulated), []

    def scorer(queries, among):
        made.extend(queries)
        return FunctionScorer(lambda rows: rows, len(among))

    ranked(simulated, parts, parts["test"], scorer)
    nodes, validation = np.array(made), asked["validation"]
    assert nodes[validation.queries].tolist() == simulated.src[parts["val"]].tolist()
    assert nodes[asked["queries"]].tolist() == simulated.src[parts["test"]].tolist()
    assert candidates[validation.positives].tolist() == simulated.dst[parts["val"]].tolist()
    links = [int((simulated.dst[parts["train"]] == node).sum()) for node in candidates]
    assert validation.popularity.tolist() == links
    train = simulated.split("link") == 0  # links and what is none alike
    ends = zip(simulated.src[train].tolist(), simulated.dst[train].tolist(), strict=True)
    seen = {(made.index(source), target) for source, target in ends if source in made}
    rows, columns = validation.seen.of(np.arange(len(nodes)))
    assert {*zip(rows.tolist(), candidates[columns].tolist(), strict=True)} == seen


@pytest.mark.parametrize("part", ["val", "test"])
def test_other_protocols_do_not_depend_on_corrected_ones(simulated, part):
    parts = link_parts(simulated, "link")
    pairs, scorer = parts[part][:40], tastes(simulated, parts)
    every = ranked(simulated, parts, pairs, scorer)
    plain = ranked(simulated, parts, pairs, scorer, ("full", "sampled", "paper"))
    assert every.ranks.keys() - plain.ranks.keys() == {"paper-shifted", "paper-unseen"}
    for protocol in plain.ranks:
        assert plain.ranks[protocol].tolist() == every.ranks[protocol].tolist()


def test_popularity_gains_nothing_from_its_own_correction(simulated):
    parts = link_parts(simulated, "link")
    scorer = scorer_of(Popularity().fit(simulated, "link").scores)
    found = ranked(simulated, parts, parts["test"], scorer)
    assert found.ranks["paper-shifted"].tolist() == found.ranks["paper"].tolist()


def test_a_part_without_labels_or_links_is_refused(make_network):
    rows = [{"source": f"s{i}", "target": f"t{i % 3}", "text": "good"} for i in range(6)]
    plain = make_network(rows)
    with pytest.raises(InputError, match="no labels"):
        labeled_edge_parts(plain, "edge")
    rows = [{**row, "label": None if i else "5"} for i, row in enumerate(rows)]
    labeled = make_network(rows, out="few")
    with pytest.raises(InputError, match="no labeled edge"):
        labeled_edge_parts(labeled, "edge")
    with pytest.raises(InputError, match="'train' of the split 'link' has 0 links"):
        link_parts(plain, "link")


def test_known_links_include_the_query_in_a_network_with_one_node_type(make_network):
    rows = [{"source": "a", "target": "b", "text": "x"}, {"source": "b", "target": "c", "text": ""}]
    graph = make_network(rows, bipartite=False)
    known = known_links(graph, np.array([0, 1]))
    assert [known.of(np.array([q]))[1].tolist() for q in (0, 1)] == [[0, 1], [1, 2]]


def test_known_links_of_an_undirected_network_go_both_ways(make_network):
    rows = [{"source": "a", "target": "b", "text": "x"}, {"source": "b", "target": "c", "text": ""}]
    graph = make_network(rows, bipartite=False, directed=False)
    known = known_links(graph, np.array([2, 1]))
    found = [sorted(known.of(np.array([q]))[1].tolist()) for q in (0, 1)]
    assert found == [[1, 2], [0, 1, 2]]
