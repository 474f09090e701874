"""Links of a network ranked by any scorer, and what is chosen on validation alone."""

from unittest.mock import patch

import numpy as np
import pytest

from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.data.network import write_network
from edgeformers.data.readers.authors import read_authors_pairs
from edgeformers.errors import InputError
from edgeformers.evaluation import PROTOCOLS, FunctionScorer, network_links
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.evaluation.network_links import (
    candidate_nodes,
    known_links,
    link_parts,
    order_links,
    rank_links,
    seen_links,
)
from tests.conftest import PLAIN


def scorer_of(scores):
    """What makes scorers of functions of nodes."""

    def scorer(queries, candidates):
        return FunctionScorer(lambda rows: scores(queries[rows], candidates), len(candidates))

    return scorer


class Batches(FunctionScorer):
    """Scores links by the numbers in their ids, and keeps the ids of all batches."""

    def __init__(self, graph, queries, candidates):
        self.sources, self.targets = (
            np.array([int(name[1:]) for name in graph.node_names(nodes)])
            for nodes in (queries, candidates)
        )
        super().__init__(self.all_scores, len(candidates))
        self.__dict__["batches"] = []

    def all_scores(self, rows):
        return np.sin(self.sources[rows][:, None] * (1.0 + self.targets))

    def scores(self, rows, columns=None):
        if columns is not None:
            self.batches.append((self.sources[rows], self.targets[columns[: len(rows)]]))
        return super().scores(rows, columns)


def rank_batches(graph, split="column"):
    """The report of the test links, the links themselves, and their batches."""
    parts, made = link_parts(graph, split), []

    def scorer(queries, candidates):
        made.append(Batches(graph, queries, candidates))
        return made[0]

    def as_given(scorer, rows, columns):
        return scorer.scores(rows, columns)

    with patch("edgeformers.evaluation.ranking.batch_scores", as_given):
        report = rank_links(
            graph,
            parts,
            parts["test"],
            scorer,
            adjacency=graph.training_adjacency(split),
            protocols=("paper",),
        )
    return report, parts["test"], made[0].batches


def edges_by_target(targets=600, each=5):
    """Test edges grouped by target, as in the raw files of Amazon, and a few others."""
    count = targets * each
    rows = [
        {"source": f"s{i * 7 % (count // 3)}", "target": f"t{i // each}", "split": "test"}
        for i in range(count)
    ]
    rows += [{"source": f"s{i}", "target": f"t{i}", "split": "train"} for i in range(9)]
    rows += [{"source": "s0", "target": "t9", "split": "val"}]
    return [{**row, "text": ""} for row in rows]


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
    val = parts["val"][order_links(simulated, parts["val"])]
    assert nodes[validation.queries].tolist() == simulated.src[val].tolist()
    assert nodes[asked["queries"]].tolist() == simulated.src[parts["test"]].tolist()
    assert candidates[validation.positives].tolist() == simulated.dst[val].tolist()
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


def test_paper_takes_links_source_by_source(make_network):
    _, links, batches = rank_batches(make_network(edges_by_target()))
    assert [len(sources) for sources, _ in batches] == [100] * 30
    assert min(len(set(targets)) for _, targets in batches) > 80  # 20 in the order of the file
    sources = np.concatenate([sources for sources, _ in batches])
    assert len(links) == len(sources) == 3_000
    assert (np.diff(sources) != 0).sum() + 1 == 1_000  # three links each, one after the other
    assert not np.array_equal(sources, np.sort(sources))


def test_the_order_of_the_file_does_not_affect_paper(make_network):
    rows = edges_by_target(targets=100)
    shuffled = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    reports = []
    for out, table in (("grouped", rows), ("shuffled", shuffled)):
        graph = make_network(table, out=out)
        report, links, _ = rank_batches(graph)
        names = zip(
            *(graph.node_names(ends[links]) for ends in (graph.src, graph.dst)), strict=True
        )
        ranks = dict(zip(names, report.ranks["paper"].tolist(), strict=True))
        reports.append((report.metrics("paper"), ranks))
    assert reports[0][0] == pytest.approx(reports[1][0])
    assert reports[0][1] == reports[1][1]


def test_ranks_are_in_the_order_of_the_links_and_means_over_batches(make_network):
    report, links, batches = rank_batches(make_network(edges_by_target(targets=50)))
    ranks, means = {}, []
    for sources, targets in batches:
        scores = np.sin(sources[:, None] * (1.0 + targets))
        own = np.diagonal(scores)[:, None]
        found = 1 + (scores > own).sum(1) + ((scores == own).sum(1) - 1) / 2
        ranks |= {
            (f"s{s}", f"t{t}"): rank for s, t, rank in zip(sources, targets, found, strict=True)
        }
        means.append((1 / found).mean())
    edges = [(row["source"], row["target"]) for row in edges_by_target(targets=50)[: len(links)]]
    assert report.ranks["paper"].tolist() == [ranks[edge] for edge in edges]
    assert report.metrics("paper")["mrr"] == pytest.approx(np.mean(means))


def test_pairs_of_the_authors_keep_their_order(tmp_path):
    pairs = [(3, 1), (1, 2), (2, 2), (1, 1), (2, 3)]
    for part, chosen in {"train": [(1, 3), (2, 1)], "val": [(3, 3)], "test": pairs}.items():
        lines = [
            rf"s{s}\*\*late\*\*t{s}\$\$t{t}\*\*\*\*\$\$1" for s, t in chosen
        ]  # each source has the text of its edge to the target of the same number
        (tmp_path / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    graph = write_network(read_authors_pairs(tmp_path), tmp_path / "network", config=PLAIN)
    _, _, ((sources, targets),) = rank_batches(graph)
    assert [*zip(sources, targets, strict=True)] == pairs


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


@pytest.mark.parametrize("directed", [True, False])
def test_what_several_sources_have_seen_is_found_at_once(directed, make_network):
    pairs = ["ab", "ab", "ac", "ba", "ca", "cd", "dd"]
    table = [{"source": s, "target": t, "text": ""} for s, t in pairs]
    graph = make_network(table, bipartite=False, directed=directed)
    number = {name: at for at, name in enumerate(graph.node_names(np.arange(4)))}
    seen = seen_links(graph, np.array([number[name] for name in "dac"]))
    found = [
        {name for name, at in number.items() if at in seen.candidates[start:stop]}
        for start, stop in zip(seen.indptr, seen.indptr[1:], strict=False)
    ]
    assert found == ([{*"d"}, {*"abc"}, {*"acd"}] if directed else [{*"cd"}, {*"abc"}, {*"acd"}])
