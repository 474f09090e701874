"""LinkPredictor: fitted, asked, explained, saved and loaded."""

import gc
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import INFERENCE
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import SplitConfig
from edgeformers.errors import FormatError, InputError
from edgeformers.estimators import LinkPredictor, NotFittedError, load
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.inference.fitted_links import make_link_head
from tests.estimators.conftest import tiny
from tests.evaluation.test_rolling import draw_rows


def all_scores(predictor, node):
    """The score of a source with every target, pair by pair."""
    graph = predictor.fitted_.network.graph
    names = graph.node_names(candidate_nodes(graph))
    return dict(zip(names, predictor.score([(node, name) for name in names]), strict=True))


def assert_same(one, other):
    """The same nodes, their scores equal but for where weights lie in memory."""
    assert [found.node for found in one] == [found.node for found in other]
    assert [found.score for found in one] == pytest.approx([found.score for found in other])


def test_a_predictor_says_how_well_it_ranks_under_each_protocol(predictor):
    found = predictor.evaluate()
    for protocol in ("full", "sampled", "paper", "paper-shifted", "paper-unseen"):
        assert 0 < found[f"{protocol}/mrr"] <= 1
    low, high = found["full/mrr_interval"]
    assert low <= found["full/mrr"] <= high
    assert predictor.evaluate("val", protocols=["full"]).keys() >= {"full/hit@10", "groups"}


def test_an_evaluation_also_judges_what_is_recommended(predictor):
    judged = predictor.evaluate()["recommendations"]
    assert 0 < judged["coverage"] <= 1
    assert 0.1 < judged["diversity"] <= 2  # though all vectors of this small model are alike
    assert judged["novelty"] > 0
    assert judged["popularity_lift"] > -1


def test_nodes_that_are_never_recommended_do_not_count_for_diversity(make_network):
    rows = draw_rows("bipartite")
    split = SplitConfig(name="link", how="chronological", fractions=(0.5, 0.2, 0.3))
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=[split])
    graph = make_network(rows, config=config)
    fitted = LinkPredictor("scratch:2x32", recipe="fast", settings={"train.epochs": 1}, show=False)
    fitted = fitted.fit(graph).fitted_
    cold = fitted.scorer.is_hidden
    assert cold.any()
    pairs = fitted.network.part("test")
    judged = fitted.recommendation_metrics(pairs, k=int((~cold).sum()))
    assert judged["coverage"] == 1.0
    assert 0.5 < judged["diversity"] < 1.5  # everything that can be recommended, in lists of all


def test_recommendations_are_the_best_scores_of_what_is_not_linked_yet(predictor):
    graph, node = predictor.fitted_.network.graph, "user-000003"
    scores = all_scores(predictor, node)
    number = graph.node_number(node, "source")
    seen = set(graph.node_names(graph.dst[graph.src == number]))
    assert seen
    best = sorted(set(scores) - seen, key=scores.get, reverse=True)
    found = predictor.recommend(node, 4)
    assert [one.node for one in found] == best[:4]
    assert [one.score for one in found] == pytest.approx([scores[n] for n in best[:4]], rel=1e-5)
    every = predictor.recommend(node, 10_000, exclude_seen=False)
    assert len(every) == len(scores)
    assert len(predictor.recommend(node, 10_000)) == len(scores) - len(seen)


def test_popularity_is_known_before_anything_is_learned(simulated):
    objective = tiny(LinkPredictor, **{"links.popularity_bias": True}).make_objective(simulated)
    links = np.bincount(simulated.dst[objective.parts["train"]], minlength=simulated.num_nodes)
    bias = objective.head.bias.detach().numpy()
    seen = np.flatnonzero(links)
    level = np.log1p(links[seen])
    np.testing.assert_allclose(bias[seen], level - level.mean(), atol=1e-5)
    assert not np.delete(bias, seen).any()


def test_untrained_scores_depend_on_the_seed_only(simulated):
    settings = {"model.node_dropout": 0.5, "links.collaborative": True}
    scores = [
        tiny(LinkPredictor, **settings).make_objective(simulated).fitted.scorer.scores(np.arange(9))
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*scores)


POOLINGS = [
    {"model.pooling": "attention"},
    {"model.pooling": "mean"},
    {"model.pooling": "max"},
    {"model.fidelity": "released"},
]


@pytest.mark.parametrize("settings", POOLINGS, ids=["attention", "mean", "max", "heads"])
@pytest.mark.parametrize("normalize", [True, False])
def test_what_texts_contribute_adds_up_to_the_text_part_of_the_score(
    simulated, settings, normalize
):
    made = tiny(LinkPredictor, **{"links.normalize": normalize}, **settings)
    made = made.make_objective(simulated).fitted
    made.model.eval()
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter.mul_(3)  # so that edges are weighed unequally without training
    for one in made.recommend("user-000003", 3, explain=99):
        pair = ("user-000003", one.node)
        query, key = (
            made.embed_nodes([name], side=side)[0]
            for name, side in zip(pair, ("source", "target"), strict=True)
        )
        if normalize:
            query, key = (v / np.linalg.norm(v) for v in (query, key))
        expected = float(query @ key) / made.config.links.temperature
        total = sum(reason.components.get("text", 0.0) for reason in one.because)
        assert total == pytest.approx(expected, rel=1e-4)


def training_texts(graph, source, target):
    """The texts of the training edges of a pair, by label."""
    numbers = graph.node_number(source, "source"), graph.node_number(target, "target")
    is_pair = (graph.src == numbers[0]) & (graph.dst == numbers[1]) & (graph.split("link") == 0)
    edges = np.flatnonzero(is_pair)
    labels = [graph.label_names[code] for code in graph.labels[edges]]
    return list(zip(graph.texts(edges), labels, strict=True))


def test_reasons_are_the_source_s_own_edges_and_quotes_are_those_of_others(predictor):
    graph = predictor.fitted_.network.graph
    reasons = 0
    for one in predictor.recommend("user-000001", 3, explain=2):
        history = [reason for reason in one.because if reason.kind == "history"]
        assert len(history) <= 2 >= len(one.quotes)
        for reason in history:
            own = training_texts(graph, "user-000001", reason.node)
            assert (reason.text, reason.label) in own
        for quote in one.quotes:
            assert quote.kind == "quote"
            assert (quote.text, quote.label) in training_texts(graph, quote.node, one.node)
        reasons += len(history)
    assert reasons


def test_a_new_source_is_described_by_its_texts(predictor):
    edges = [("item-000001", "My tent is great"), ("nothing known", "a poor garden hose")]
    found = predictor.recommend(edges=edges, k=3)
    assert len(found) == 3
    assert "item-000001" not in {one.node for one in found}
    assert predictor.recommend(edges=edges, k=3, explain=1)[0].because
    vectors = predictor.embed_new_nodes([edges, edges[:1], []])
    assert vectors.shape == (3, 32)
    assert not np.allclose(vectors[0], vectors[1])
    alone = predictor.embed_new_nodes([edges[:1]])[0]
    np.testing.assert_allclose(vectors[1], alone, atol=1e-5)
    assert predictor.embed_new_nodes([]).shape == (0, 32)


def test_nodes_are_embedded_by_name_number_or_all(predictor):
    graph = predictor.fitted_.network.graph
    whole = predictor.embed_nodes()
    assert whole.shape == (graph.num_nodes, 32)
    number = graph.node_number("item-000001", "target")
    by_name = predictor.embed_nodes(["item-000001"], side="target")
    np.testing.assert_allclose(by_name[0], whole[number], atol=1e-5)
    np.testing.assert_allclose(predictor.embed_nodes(np.array([number])), by_name, atol=1e-6)


def test_a_loaded_predictor_answers_as_it_did_where_its_network_is(predictor, tmp_path):
    loaded = load(predictor.save(tmp_path / "model"))
    assert_same(loaded.recommend("user-000003", 3), predictor.recommend("user-000003", 3))
    found, expected = loaded.evaluate("val"), predictor.evaluate("val")
    assert found["full/mrr"] == pytest.approx(expected["full/mrr"])


def test_a_loaded_predictor_whose_network_moved_is_given_it(predictor, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(predictor.fitted_.network.graph.path, moved)
    predictor.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    lost = replace(loaded.fitted_, network_path=tmp_path / "gone")
    with pytest.raises(InputError, match="gone"):
        lost.recommend("user-000003")
    found = loaded.attach(moved).recommend("user-000003", 3)
    assert_same(found, predictor.recommend("user-000003", 3))
    assert (
        load(tmp_path / "model", network=EdgeTextGraph.open(moved)).fitted_.network.graph.path
        == moved
    )


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 12, (150, 2))
    return pd.DataFrame(
        {
            "source": [f"n{a}" for a, _ in pairs],
            "target": [f"m{b}" for _, b in pairs],
            "text": [f"word{a % 3} word{b % 3}" for a, b in pairs],
        }
    )


ANSWER = """
import sys, edgeformers
for folder, next_folder in zip(sys.argv[1:], sys.argv[2:]):
    loaded = edgeformers.load(folder, device="cpu")
    loaded.show = False
    print(loaded.recommend("n3", 1, explain=1)[0].because[0].text)
    print(float(loaded.score([("n3", "m4")])[0]))
    print(loaded.evaluate()["full/mrr"])
    loaded.save(next_folder)
"""


def test_a_predictor_of_a_frame_is_saved_with_its_network(frame, tmp_path):
    made = tiny(LinkPredictor).fit(frame)
    expected = [
        made.recommend("n3", 1, explain=1)[0].because[0].text,
        pytest.approx(float(made.score([("n3", "m4")])[0]), rel=1e-4),
        pytest.approx(made.evaluate()["full/mrr"], rel=1e-4),
    ]
    first, moved, second = (tmp_path / name for name in ("model", "moved", "second"))
    made.save(first)
    made.save(first)  # again, in place of itself
    del made
    gc.collect()
    first.rename(moved)
    command = [sys.executable, "-c", ANSWER, *map(str, (moved, second, second))]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for words, score, mrr in (told[:3], told[3:]):
        assert [words, float(score), float(mrr)] == expected


def test_saving_copies_the_network_or_says_that_it_does_not(predictor, tmp_path, capsys):
    fitted = replace(predictor.fitted_, options=replace(predictor.fitted_.options, show=True))
    fitted.save(tmp_path / "without")
    assert str(fitted.network.graph.path) in capsys.readouterr().err
    fitted.save(tmp_path / "with", include_network=True)
    assert not capsys.readouterr().err
    loaded = load(tmp_path / "with")
    loaded.show = False
    assert loaded.fitted_.network.graph.path == tmp_path / "with" / "network"


def test_a_network_of_the_user_is_recorded_not_copied(predictor, frame, tmp_path):
    predictor.save(tmp_path / "model")
    assert not (tmp_path / "model" / "network").exists()
    again = load(tmp_path / "model")
    again.save(tmp_path / "again")
    assert (
        load(tmp_path / "again").fitted_.network_path
        == predictor.fitted_.network.graph.path.resolve()
    )
    tiny(LinkPredictor).fit(frame).save(tmp_path / "frame")
    shutil.copytree(tmp_path / "frame" / "network", tmp_path / "mine")
    given = load(tmp_path / "frame", network=tmp_path / "mine")
    given.save(tmp_path / "given")
    assert not (tmp_path / "given" / "network").exists()
    shutil.copytree(tmp_path / "mine", tmp_path / "given" / "network")  # the user's own, there
    with pytest.raises(InputError, match=r"given is not overwritten.*\(network/"):
        given.save(tmp_path / "given")


def test_a_network_exchanged_in_a_saved_model_is_named(frame, tmp_path):
    tiny(LinkPredictor).fit(frame).save(tmp_path / "model")
    with (tmp_path / "model" / "network" / "network.json").open("a") as file:
        file.write(" ")
    with pytest.raises(FormatError, match="network"):
        load(tmp_path / "model")


def test_no_backbone_is_opened_to_attach_a_network(predictor, tmp_path, monkeypatch):
    from edgeformers.estimators import build

    monkeypatch.setattr(build, "open_backbone", None)
    stores = predictor.fitted_.network.graph.token_stores()
    loaded = load(predictor.save(tmp_path / "model"))
    assert loaded.fitted_.network.graph is not None
    assert predictor.fitted_.network.graph.token_stores() == stores  # none was made anew


OPTIONS = {
    "links.temperature": 0.1,
    "links.learn_temperature": True,
    "links.logq": 0.5,
    "links.uniform_negatives": 5,
    "links.collaborative": False,
    "links.popularity_bias": False,
    "model.node_init": "factorized",
    "model.direction": True,
    "model.readout": "neighbor",
    "train.select_metric": "sampled/ndcg",
}


def test_options_of_links_are_kept_when_saved(simulated, tmp_path):
    made = tiny(LinkPredictor, **OPTIONS)
    head = make_link_head(made.config.links, simulated.num_nodes)
    assert head.scale().item() == pytest.approx(10)  # learning begins at 1 / temperature
    made.fit(simulated)
    loaded = load(made.save(tmp_path / "model"))
    assert loaded.config == made.config
    head = loaded.fitted_.head
    assert head.uniform_negatives == 5
    assert torch.equal(head.log_scale, made.fitted_.head.log_scale)
    pairs = [("user-000003", "item-000001"), ("user-000001", "item-000004")]
    np.testing.assert_allclose(loaded.score(pairs), made.score(pairs), rtol=1e-5)


def test_nodes_of_one_kind_are_ranked_without_themselves(tmp_path):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 12, (150, 2))
    frame = pd.DataFrame(
        {
            "source": [f"n{a}" for a, _ in pairs],
            "target": [f"n{b}" for _, b in pairs],
            "text": [f"word{a % 3} word{b % 3}" for a, b in pairs],
        }
    )
    sizes = {"data.source_neighbors": [1], "data.target_neighbors": [3]}
    made = tiny(LinkPredictor, **sizes).fit(frame, bipartite=False)
    assert made.fitted_.nodes.num_sources is None
    found = made.recommend("n3", 50, exclude_seen=True, explain=1)
    graph, number = made.fitted_.network.graph, made.fitted_.network.graph.node_number("n3")
    around = set(graph.dst[graph.src == number]) | {number}  # who wrote to it may be answered
    assert {one.node for one in found} == {f"n{i}" for i in range(12)} - set(
        graph.node_names(np.array(sorted(around)))
    )
    loader = made.fitted_.network.loader
    nodes = np.arange(4)
    as_key = loader.target_sampler.sample(nodes, epoch=INFERENCE).sizes
    assert loader.nodes(nodes, side="target").text.num_texts == as_key.sum()
    query, key = (made.embed_nodes(["n3"], side=side) for side in ("source", "target"))
    assert not np.allclose(query, key)
    assert made.evaluate()["full/mrr"] > 0


def test_what_cannot_be_asked_is_answered(predictor, make_network, tmp_path):
    with pytest.raises(NotFittedError, match="fit first"):
        LinkPredictor("scratch:2x32").recommend("a")
    with pytest.raises(InputError, match="no source 'user-00003'"):
        predictor.recommend("user-00003")
    with pytest.raises(InputError, match="target 'zzz'"):
        predictor.score([("user-000001", "zzz")])
    with pytest.raises(InputError, match="item-000001"):
        predictor.embed_nodes(["item-000001"])
    with pytest.raises(InputError, match="user-000001"):
        predictor.embed_nodes("user-000001")
    with pytest.raises(InputError, match="either"):
        predictor.recommend()
    with pytest.raises(InputError, match="k must"):
        predictor.recommend("user-000001", 0)
    with pytest.raises(InputError, match="other nodes or labels"):
        predictor.attach(make_network())
    with pytest.raises(InputError, match="strata"):
        tiny(LinkPredictor, **{"data.source_neighbors": [2, 2]}).fit(
            predictor.fitted_.network.graph
        )
    rows = [{"source": f"s{i % 3}", "target": f"t{i % 5}", "text": "good"} for i in range(60)]
    with pytest.raises(InputError, match="node texts"):
        tiny(LinkPredictor, **{"model.node_texts": True}).fit(make_network(rows, out="plain"))
