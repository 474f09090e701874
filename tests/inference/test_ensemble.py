"""Collaborative models beside a trained one: what they are, what they weigh, and what is kept."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgeformers.baselines.base import ValidationRanking, training_links
from edgeformers.baselines.collaborative.ease import EASE, LAMBDAS
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.errors import FormatError, InputError
from edgeformers.estimators import LinkPredictor, load
from edgeformers.evaluation import LinkTable, is_significant
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.inference.components import (
    GROUPS,
    Averaged,
    LinkEnsemble,
    Solved,
    Summed,
    edge_groups,
)
from edgeformers.inference.ensemble import (
    ALS_GRID,
    LIGHTGCN_GRID,
    Part,
    _lightgcn_part,
    collaborative_parts,
    fit_ensemble,
    weigh,
    weigh_groups,
)
from edgeformers.models.link_head import LinkHead

SETTINGS = {
    "train.epochs": 1,
    "train.batch_size": 64,
    "model.node_width": 8,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "links.uniform_negatives": 0,
    "links.logq": 0.0,
}


def make(**settings):
    return LinkPredictor(
        "scratch:2x32", settings={**SETTINGS, **settings}, show=False, device="cpu"
    )


@pytest.fixture(scope="module")
def fitted(simulated):
    return make().fit(simulated)


def random_part(rows, width=3, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((2, rows, width)).astype(np.float32)
    return Part(drawn[0], drawn[1])


def halved(graph, ranking, half):
    """A score that knows every second validation link."""
    right = np.zeros((graph.num_nodes, graph.num_nodes), np.float32)
    right[ranking.queries[half::2], ranking.positives[half::2] + graph.num_sources] = 1.0
    return Part(right, np.eye(graph.num_nodes, dtype=np.float32))


def test_the_score_is_the_trained_one_counted_as_found_and_the_products_beside_it():
    task = LinkHead(temperature=0.5, popularity_bias=True, num_nodes=6)
    with torch.no_grad():
        task.bias.copy_(torch.arange(6.0))
    nodes, h = torch.tensor([0, 4, -1]), torch.randn(3, 5)
    plain = task.factors("query", h, nodes) @ task.factors("key", h, nodes).T
    tables = [torch.randn(6, 2) for _ in range(3)]
    weights = torch.tensor([[0.3, 2.0], [0.5, 1.0], [0.0, 4.0]])
    group = torch.tensor([1, 0, 0, 0, 2, 0])
    task.set_ensemble(LinkEnsemble(*tables[:2], [Summed(tables[2])], weights=weights, group=group))
    both = task.factors("query", h, nodes) @ task.factors("key", h, nodes).T
    added = torch.zeros(3, 3)
    added[:2, :2] = tables[0][nodes[:2]] @ tables[1][nodes[:2]].T  # a new node has no vector
    own = weights[[1, 2, 0]]  # of sources with some edges, with many, and of one without any
    torch.testing.assert_close(both, own[:, :1] * plain + own[:, 1:] * added)
    for linked, row in (([1, -1, 2], 0), ([1, -1, 2, 1], 1), ([1] * 11, 2)):
        found = task.new_query(h[2:], torch.tensor(linked))
        folded = tables[2][sorted({*linked} - {-1})].sum(0)
        bare = torch.cat([2 * h[2], torch.ones(1)])  # without anything beside it
        right = torch.cat([weights[row, 0] * bare, weights[row, 1] * folded])
        torch.testing.assert_close(found, right)


def beside_of(query, key, new, own=1.0):
    """All sources are weighed alike."""
    weights = torch.tensor([[own] + [1.0] * len(new)] * GROUPS)
    return LinkEnsemble(query, key, new, weights=weights, group=torch.zeros(len(query)))


def folded(ensemble, linked):
    return ensemble.new_query(torch.ones(1), torch.tensor(linked))[1:]


def test_sources_are_told_apart_as_reports_do():
    found = edge_groups(torch.tensor([0, 1, 3, 4, 10, 11, 500]))
    assert found.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert GROUPS == 3


def test_a_new_source_is_made_by_every_part_in_its_own_way():
    left = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    gram = torch.tensor([[3.0]])
    ways = [Averaged(left, 10.0), Solved(left, gram, alpha=0.5, scale=2.0), Summed(left)]
    ensemble = beside_of(torch.zeros(4, 3), torch.zeros(4, 3), ways)
    found = folded(ensemble, [1, 2, -1, 1])  # node 1 twice, node 2 once, one unknown
    solved = 2 * (2 * (1 + 0.5 * 2) + 4 * (1 + 0.5)) / (3 + 0.5 * 2 * 2**2 + 0.5 * 4**2)
    torch.testing.assert_close(found, torch.tensor([30.0, solved, 6.0]))
    assert not folded(ensemble, [-1]).any()


def test_what_is_saved_says_how_each_part_is_made():
    left, gram = torch.randn(4, 2), torch.eye(2)
    ways = [Summed(left), Solved(left, gram, alpha=0.5, scale=2.0), Averaged(left, 0.1)]
    ensemble = beside_of(torch.randn(4, 6), torch.randn(4, 6), ways, own=0.3)
    state = {f"ensemble.{name}": value for name, value in ensemble.state_dict().items()}
    made = LinkEnsemble.like(dict(reversed(state.items())))  # a file keeps no order
    made.load_state_dict(ensemble.state_dict())
    assert torch.equal(folded(made, [3, 0, 3]), folded(ensemble, [3, 0, 3]))
    assert [type(one) for one in made.new.values()] == [Summed, Solved, Averaged]
    assert torch.equal(made.weights, ensemble.weights)
    assert LinkEnsemble.like({"bias": left}) is None


def test_what_an_earlier_version_saved_is_refused_with_a_sentence():
    state = {"ensemble.query": torch.zeros(4, 2), "ensemble.key": torch.zeros(4, 2)}
    with pytest.raises(FormatError, match=r"earlier version.* lacks group and weights; train it"):
        LinkEnsemble.like(state)


def test_a_network_too_large_for_any_of_them_leaves_the_model_alone(simulated, monkeypatch):
    for limit in ("EASE_TARGETS", "ALS_LINKS", "LIGHTGCN_LINKS", "LIGHTGCN_LINKS_GPU"):
        monkeypatch.setattr(f"edgeformers.inference.ensemble.{limit}", 1)
    monkeypatch.setattr("edgeformers.baselines.temporal.activity_profiles.MAX_NODES", 1)
    made = make().fit(simulated)
    assert made.head.ensemble is None
    target = made.names.ids_of(candidate_nodes(simulated)[:1])[0]
    assert len(made.recommend(edges=[(target, "a fine tent")], k=3)) == 3


def test_of_all_settings_only_the_best_and_the_last_are_held(simulated, fitted, monkeypatch):
    held = []

    def worth(part, others, ranking):
        held.append(sum(type(one) is Part for one in gc.get_objects()))
        return 0.0

    monkeypatch.setattr("edgeformers.inference.ensemble._worth", worth)
    fit_ensemble(fitted.objective, simulated, "link", seed=0)
    assert len(held) == len(LAMBDAS) + len(ALS_GRID) + len(LIGHTGCN_GRID)
    assert max(held) <= 7  # the model's own twice, those chosen, the best, the last twice


def test_tables_of_different_shapes_are_refused():
    new = [Summed(torch.zeros(6, 2))]
    with pytest.raises(InputError, match=r"got \[6, 2\], \[6, 3\] and \[2\]"):
        beside_of(torch.zeros(6, 2), torch.zeros(6, 3), new)
    with pytest.raises(InputError, match=r"got \[6, 3\], \[6, 3\] and \[2\]"):
        beside_of(torch.zeros(6, 3), torch.zeros(6, 3), new)


def test_ease_as_a_product_of_vectors_scores_as_ease_does(simulated):
    *_, family = collaborative_parts(simulated, "link", seed=0)
    part = next(family)
    ease = EASE(LAMBDAS[:1]).fit(simulated, "link")
    sources = np.flatnonzero(ease.links.train.degrees)
    theirs = ease.scores(sources, candidate_nodes(simulated))
    ours = part.scores(sources, candidate_nodes(simulated))
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.98


@pytest.mark.parametrize("at", range(3), ids=["lightgcn", "als", "ease"])
def test_a_new_source_has_the_vector_of_one_that_the_baseline_folded_in(simulated, at):
    split = "cold-source+drop-target"
    links = training_links(simulated, split)
    families = collaborative_parts(simulated, split, seed=0)
    part = next(list(families)[at]).scaled(0.7)
    fold_in = part.fold_in()
    assert len(links.cold_queries)
    for row in links.cold_queries:
        mine = links.known.queries == row
        nodes = torch.from_numpy(links.known.candidates[mine] + links.first_candidate)
        made = fold_in(nodes, torch.from_numpy(links.known.counts[mine])).numpy()
        np.testing.assert_allclose(made, part.query[row], rtol=1e-4, atol=1e-6)
        assert np.abs(made).max() > 0


def test_a_source_without_any_link_has_no_vector_of_lightgcn(simulated):
    links = training_links(simulated, "link").train
    model = LightGCN((PairwiseConfig(epochs=1),)).fit(simulated, "link")
    kept = links.queries != links.queries[0]
    sizes = links.num_queries, links.num_candidates
    fewer = LinkTable.from_pairs(links.queries[kept], links.candidates[kept], *sizes)
    model.links = replace(model.links, train=fewer, known=fewer)
    part = _lightgcn_part(model, simulated.num_nodes)
    assert not part.query[links.queries[0]].any()
    assert part.query[fewer.queries].any(1).all()


def test_lightgcn_is_for_networks_that_are_not_too_large(simulated, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    count = training_links(simulated, "link").train.num_links
    for most, families in ((count, 3), (count - 1, 2)):
        monkeypatch.setattr("edgeformers.inference.ensemble.LIGHTGCN_LINKS", most)
        assert len(list(collaborative_parts(simulated, "link", seed=0))) == families


def test_of_a_right_and_a_random_score_the_right_one_is_kept(simulated):
    ranking = ValidationRanking(simulated, "link")
    right = np.zeros((simulated.num_nodes, simulated.num_nodes), np.float32)
    right[ranking.queries, ranking.positives + simulated.num_sources] = 1.0
    known = Part(right, np.eye(simulated.num_nodes, dtype=np.float32))
    noise = random_part(simulated.num_nodes).scaled(0.1)
    weights = weigh([noise, known], ranking)
    assert weights[1] > 0
    assert ranking.mrr(known.scaled(weights[1]).scores) > ranking.mrr(noise.scores)


def test_all_that_help_are_kept_and_what_clearly_harms_is_left_out(simulated):
    ranking = ValidationRanking(simulated, "link")
    halves = [halved(simulated, ranking, half) for half in (0, 1)]
    noise = random_part(simulated.num_nodes).scaled(10.0)
    assert weigh([halves[0], noise, halves[1]], ranking) == [1.0, 0.0, 1.0]


def test_what_neither_helps_nor_harms_is_kept(simulated):
    ranking = ValidationRanking(simulated, "link")
    half = halved(simulated, ranking, 0)
    nothing = Part(np.zeros_like(half.query), half.key)
    assert weigh([half, half, nothing], ranking) == [1.0, 1.0, 1.0]


def test_what_ranks_below_the_best_collaborative_model_alone_is_left_out(simulated):
    ranking = ValidationRanking(simulated, "link")
    right = np.zeros((simulated.num_nodes, simulated.num_nodes), np.float32)
    right[ranking.queries, ranking.positives + simulated.num_sources] = 1.0
    row, column = ranking.queries[0], ranking.positives[0] + simulated.num_sources
    wrong = np.zeros_like(right)  # one link is ranked lower: worse, though not clearly so
    wrong[row] = 2.0
    wrong[row, column] = 0.0
    eye = np.eye(simulated.num_nodes, dtype=np.float32)
    spoiled, known = Part(wrong, eye), Part(right, eye)
    together = ranking.reciprocal_ranks(lambda q, c: spoiled.scores(q, c) + known.scores(q, c))
    lost = ranking.reciprocal_ranks(known.scores) - together
    assert lost.mean() > 0
    assert not is_significant(lost)
    assert weigh([spoiled, known], ranking) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("silent", "words"),
    [
        ([0, 1, 2], "to whom here: by validation"),
        ([0, 2], "here for sources with 0 to 3 edges or 11 edges or more: by validation"),
        ([], ""),
    ],
)
def test_where_texts_add_nothing_it_is_said(simulated, monkeypatch, capsys, silent, words):
    weights = np.ones((GROUPS, 4))
    weights[silent, 0] = 0.0
    monkeypatch.setattr("edgeformers.inference.ensemble.weigh_groups", lambda *_: weights)
    made = make()
    made.show = True
    made.fit(simulated)
    told = capsys.readouterr().err
    assert words in told
    assert ("the texts add nothing" in told) == bool(silent)


def test_texts_that_do_not_count_are_named_with_a_weight_of_0(simulated, fitted, tmp_path, capsys):
    made = load(fitted.save(tmp_path / "model"), network=simulated)
    made.show = True
    name, target = made.names.ids_of(np.array([0, candidate_nodes(simulated)[0]]))
    for asked in ({"node": name}, {"edges": [(target, "a fine tent")]}):
        made.head.ensemble.weights[:, 0] = 1.0
        heard = {one.node: one.because for one in made.recommend(**asked, k=99, explain=2)}
        assert "do not count" not in capsys.readouterr().err
        made.head.ensemble.weights[:, 0] = 0.0
        unheard = {one.node: one.because for one in made.recommend(**asked, k=99, explain=2)}
        assert "the texts named do not count in this ranking" in capsys.readouterr().err
        assert any(one.weight for because in heard.values() for one in because)
        for node, because in unheard.items():
            assert [one.text for one in because] == [one.text for one in heard[node]]
            assert not any(one.weight for one in because)


def test_sources_with_few_edges_and_with_many_are_weighed_apart(simulated, monkeypatch):
    monkeypatch.setattr("edgeformers.inference.ensemble.FEW_LINKS", 10)
    ranking = ValidationRanking(simulated, "link")
    # As if every second link had a source with many edges.
    group = np.arange(len(ranking.queries)) % 2
    table = np.zeros((simulated.num_nodes, simulated.num_nodes), np.float32)
    table[ranking.queries, ranking.positives + simulated.num_sources] = np.where(
        group == 0, 1.0, -3.0
    )
    eye = np.eye(simulated.num_nodes, dtype=np.float32)
    for_few, for_many = Part(table, eye), Part(-table / 3 - 2 * (table > 0) * table, eye)
    found = weigh_groups([for_few, for_many], ranking, group)
    assert found[:2].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert found[2].tolist() == weigh([for_few, for_many], ranking)  # no link: as all are


def test_a_model_that_is_best_alone_has_nothing_beside_it(simulated, fitted, monkeypatch):
    weights = np.tile([1.0, 0.0, 0.0, 0.0], (GROUPS, 1))
    monkeypatch.setattr("edgeformers.inference.ensemble.weigh_groups", lambda *_: weights)
    assert fit_ensemble(fitted.objective, simulated, "link", seed=0) is None


def test_it_does_not_rank_validation_clearly_worse_than_any_part_alone(simulated, fitted):
    ranking = ValidationRanking(simulated, "link")
    scorer = fitted.objective.scorer(np.arange(simulated.num_sources), candidate_nodes(simulated))
    together = ranking.reciprocal_ranks(lambda q, c: scorer.scores(q, c - simulated.num_sources))
    plain = make(**{"links.ensemble": False}).fit(simulated)
    bare = plain.objective.scorer(np.arange(simulated.num_sources), candidate_nodes(simulated))
    alone = [ranking.reciprocal_ranks(lambda q, c: bare.scores(q, c - simulated.num_sources))]
    for family in collaborative_parts(simulated, "link", seed=0):
        alone.append(min((ranking.reciprocal_ranks(part.scores) for part in family), key=np.mean))
    assert not any(is_significant(one - together) for one in alone)
    assert together.mean() > np.mean(alone)


def test_it_is_saved_loaded_and_used_for_sources_never_met(simulated, fitted, tmp_path):
    loaded = load(fitted.save(tmp_path / "model"), network=simulated)
    names = fitted.names.ids_of(np.arange(3))
    for name in names:
        same = zip(fitted.recommend(name, 3), loaded.recommend(name, 3), strict=True)
        assert all(a.node == b.node and a.score == pytest.approx(b.score) for a, b in same)
    ours, theirs = loaded.evaluate("val"), fitted.evaluate("val")
    for metric in ("full/mrr", "paper-shifted/mrr", "paper-unseen/mrr"):
        assert ours[metric] == pytest.approx(theirs[metric])
    assert loaded.report("val").corrections == fitted.report("val").corrections
    target = fitted.names.ids_of(candidate_nodes(simulated)[:1])[0]
    found = fitted.recommend(edges=[(target, "a fine tent")], k=3)
    assert len(found) == 3
    assert target not in [one.node for one in found]
