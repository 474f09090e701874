"""Every listed model is trained, asked, saved and loaded by name, as Edgeformers are."""

import numpy as np
import pytest
import torch

from edgeformers.aliases import current_settings
from edgeformers.baselines.collaborative.netmf import netmf_vectors
from edgeformers.config import make_config
from edgeformers.data.sampler import EgoSampler
from edgeformers.errors import ConfigError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, load, run_config
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.registry import MODELS
from edgeformers.training.initialization import scale_vectors
from tests.estimators.conftest import tiny

EDGE_MODELS = [name for name, entry in MODELS.items() if entry.encodes == "edges"]
NODE_MODELS = [name for name, entry in MODELS.items() if entry.encodes == "nodes"]
QUICK = {
    "train.epochs": 1,
    "train.batch_size": 128,
    "data.source_neighbors": [2],
    "data.target_neighbors": [3],
    "model.bag_width": 24,
}


def fitted(kind, name, graph, run=None, **settings):
    made = tiny(kind, **{**QUICK, "model.name": name, **settings})
    return made.fit(graph, run=run)


def edges_of(graph, numbers):
    """Edges of a network as a user writes them."""
    src, dst = graph.node_names(graph.src[numbers]), graph.node_names(graph.dst[numbers])
    return list(zip(src, dst, graph.texts(numbers), strict=True))


@pytest.mark.parametrize("name", EDGE_MODELS)
def test_a_model_of_edges_is_trained_asked_saved_and_loaded(name, simulated, tmp_path):
    made = fitted(EdgeClassifier, name, simulated, tmp_path / "run")
    assert 0 <= made.evaluate("val", intervals=False)["micro_f1"] <= 1
    numbers = np.arange(30)
    probs = made.predict_proba(numbers)
    rows = edges_of(simulated, numbers)
    np.testing.assert_allclose(made.predict_proba(rows), probs, atol=1e-5)
    new = [("nobody", "nothing", "good tent"), (rows[0][0], "nothing", None)]
    loaded = load(tmp_path / "run")
    loaded.show = False
    np.testing.assert_allclose(loaded.predict_proba(numbers), probs, atol=1e-6)
    np.testing.assert_allclose(loaded.embed_edges(new), made.embed_edges(new), atol=1e-6)
    width = 32 if MODELS[name].text == "language-model" else 24
    assert made.embed_edges(numbers).shape == (30, width)
    assert run_config(made.task, file=tmp_path / "run/config.toml") == made.config


@pytest.mark.parametrize("name", NODE_MODELS)
def test_a_model_of_nodes_is_trained_asked_saved_and_loaded(name, simulated, tmp_path):
    made = fitted(LinkPredictor, name, simulated, tmp_path / "run")
    assert 0 < made.evaluate("val", protocols=["full"])["full/mrr"] <= 1
    nodes = np.arange(20)
    loaded = load(tmp_path / "run")
    loaded.show = False
    np.testing.assert_allclose(loaded.embed_nodes(nodes), made.embed_nodes(nodes), atol=1e-6)
    someone = simulated.node_names([0])[0]
    assert len(made.recommend(someone, k=3)) == 3
    edges = [(simulated.node_names([simulated.num_nodes - 1])[0], "good tent")]
    np.testing.assert_allclose(
        loaded.embed_new_nodes([edges, []]), made.embed_new_nodes([edges, []]), atol=1e-6
    )
    assert run_config(made.task, file=tmp_path / "run/config.toml") == made.config


def test_what_a_model_wants_stands_over_the_recipe_and_under_what_is_asked_for(tmp_path):
    name = {"model.name": "nenn"}
    assert make_config("link-prediction", "paper").model.node_init == "random"
    for recipe in ("default", "paper", "fast"):
        made = LinkPredictor(recipe=recipe, settings=name)
        assert made.config.model.node_init == "netmf"
        assert made.config == run_config("link-prediction", recipe, settings=name)
    asked = {**name, "model.node_init": "random"}
    assert LinkPredictor(settings=asked).config.model.node_init == "random"
    file = tmp_path / "mine.toml"
    file.write_text('[model]\nname = "nenn"\nnode_init = "random"\n', encoding="utf-8")
    assert run_config("link-prediction", file=file).model.node_init == "random"
    assert run_config("link-prediction") == make_config("link-prediction")


def test_a_model_of_another_kind_is_answered_with_those_there_are():
    with pytest.raises(ConfigError, match="'edgeformer-n'"):
        EdgeClassifier(settings={"model.name": "edgeformer-n"})
    with pytest.raises(ConfigError, match="available: edgeformer-n, "):
        LinkPredictor(settings={"model.name": "bert"})
    config = make_config("link-prediction", settings={"model.name": "ehgnn"})
    with pytest.raises(ConfigError, match="'ehgnn'"):
        LinkPredictor(config=config)
    with pytest.raises(ConfigError, match="'bert'"):
        EdgeClassifier(settings={"model.name": "brt"})


def test_a_setting_that_a_model_has_not_may_not_be_set(simulated):
    made = tiny(EdgeClassifier, **{"model.name": "bert", "model.pooling": "mean"})
    with pytest.raises(ConfigError, match=r"model\.pooling"):
        made.fit(simulated)
    made = tiny(EdgeClassifier, **{**QUICK, "model.name": "bert", "model.pooling": "attention"})
    made.make_objective(simulated)  # the default value is fine


def test_a_bag_of_words_is_of_training_texts_in_the_tokens_of_a_backbone_without_weights(
    simulated, tokenizer_folder
):
    settings = {**QUICK, "model.name": "ehgnn", "model.bag_words": 5}
    made = EdgeClassifier(str(tokenizer_folder), settings=settings, show=False, device="cpu")
    made.fit(simulated)
    bag = made.model.encoder
    assert isinstance(bag, BagOfWords)
    assert bag.config.words == 5
    assert bag.column[[2, 3]].tolist() == [-1, -1]  # [CLS] and [SEP]
    train = np.flatnonzero(simulated.split("edge") == 0)
    having = np.zeros(bag.config.vocab_size, int)
    for edge in train:
        ids, _ = made.fitted_.network.loader.tokens.take([edge], made.config.data.max_tokens)
        having[list(set(ids.tolist()) - {2, 3})] += 1
    expected = np.log((1 + len(train)) / (1 + np.sort(having)[::-1][:5])) + 1
    np.testing.assert_allclose(bag.idf.numpy(), expected, rtol=1e-6)


def test_what_is_for_language_models_does_not_touch_a_bag_of_words(simulated):
    plain = fitted(EdgeClassifier, "ehgnn", simulated)
    more = {"train.lora_rank": 4, "train.gradient_checkpointing": True, "train.frozen_layers": 1}
    other = fitted(EdgeClassifier, "ehgnn", simulated, **more)
    assert np.array_equal(plain.predict_proba(range(9)), other.predict_proba(range(9)))
    with pytest.raises(ConfigError, match="node_texts"):
        fitted(EdgeClassifier, "ehgnn", simulated, **{"model.node_texts": True})


def test_a_text_alone_leaves_the_node_table_as_it_was(simulated):
    settings = {**QUICK, "model.name": "bert", "train.epochs": 2}
    start = tiny(EdgeClassifier, **settings).make_objective(simulated).model
    trained = tiny(EdgeClassifier, **settings).fit(simulated).model
    assert torch.equal(trained.nodes.table, start.nodes.table)
    assert not torch.equal(
        trained.encoder.embeddings.tokens.weight, start.encoder.embeddings.tokens.weight
    )


@pytest.mark.parametrize("name", [n for n in EDGE_MODELS if MODELS[n].context])
def test_edges_around_come_from_the_training_part_of_the_split(name, simulated):
    loader = tiny(EdgeClassifier, **{**QUICK, "model.name": name}).make_objective(simulated).loader
    for sampler, size in ((loader.source_sampler, 2), (loader.target_sampler, 3)):
        assert sampler.sizes == (size,)
        found = EgoSampler(sampler.adjacency, [600]).sample(np.arange(simulated.num_nodes))
        edges = found.edge_ids[found.mask]
        assert set(edges.tolist()) == set(np.flatnonzero(simulated.split("edge") == 0).tolist())


def test_around_a_new_edge_is_what_the_network_has_around_its_known_ends(simulated):
    """An edge in words between known nodes is read as any edge between them."""
    estimator = tiny(EdgeClassifier, **{**QUICK, "model.name": "bert-ehgnn"})
    made = estimator.make_objective(simulated).fitted
    seen = []
    forward = made.model.forward
    made.model.forward = lambda batch: seen.append(batch) or forward(batch)
    made.model.eval()
    made.embed_edges([(*edges_of(simulated, [7])[0][:2], "words never seen")])
    made.embed_edges([7])
    new, known = seen
    for one, other in ((new.source, known.source), (new.target, known.target)):
        assert torch.equal(one.text.token_ids, other.text.token_ids)
        assert torch.equal(one.neighbor, other.neighbor)
    assert new.source.text.num_texts + new.target.text.num_texts > 0


def test_removed_edges_are_not_read_around_a_new_edge(simulated):
    made = tiny(EdgeClassifier, **{**QUICK, "model.name": "bert-ehgnn"}).make_objective(simulated)
    seen, forward = [], made.fitted.model.forward
    made.fitted.model.forward = lambda batch: seen.append(batch) or forward(batch)
    made.fitted.model.eval()
    edge = [(*edges_of(simulated, [7])[0][:2], "words never seen")]
    made.fitted.embed_edges(edge)
    made.fitted.remove_edges(edge[0][0], "source")
    made.fitted.embed_edges(edge)
    before, after = seen
    assert before.source.text.num_texts > 0
    assert after.source.text.num_texts == 0
    assert after.target.text.num_texts <= before.target.text.num_texts


def test_reasons_of_a_model_that_is_not_divided_among_edges_sum_to_the_score(simulated):
    model = fitted(LinkPredictor, "mean-sage-words", simulated)
    for recommended in model.recommend(simulated.node_names([0])[0], k=2, explain=1):
        weights = [reason.weight for reason in recommended.because]
        assert sum(weights) == pytest.approx(recommended.score, abs=1e-5)


def test_what_was_found_best_for_a_baseline_is_not_set_over_the_recipe_of_the_paper():
    settings = {"model.name": "bert-gin"}
    assert run_config("link-prediction", settings=settings).links.temperature == 0.2
    assert run_config("link-prediction").links.temperature == 0.1
    paper = run_config("link-prediction", "paper", settings=settings)
    assert (paper.links.temperature, paper.train.node_lr) == (None, 1e-5)
    assert not paper.links.ensemble


@pytest.mark.parametrize("name", [n for n in NODE_MODELS if MODELS[n].text == "none"])
def test_a_model_without_texts_is_given_none(name, simulated):
    made = fitted(LinkPredictor, name, simulated)
    loader = made.fitted_.network.loader
    special = set(loader.tokens.meta.prefix + loader.tokens.meta.suffix)
    for batch in (loader.nodes(np.arange(5)), loader.links(np.arange(4), np.arange(0), epoch=0)):
        text = batch.text if hasattr(batch, "text") else batch.egos.text
        assert set(text.token_ids.tolist()) <= special
    start = netmf_vectors(simulated, "link", made.config.model.node_width)
    table = tiny(LinkPredictor, **{**QUICK, "model.name": name}).make_objective(simulated).model
    assert made.config.model.node_init == "netmf"
    torch.testing.assert_close(table.nodes.table[:-1], scale_vectors(start))


def test_a_run_of_0_1_names_its_model_as_0_1_did():
    settings = {"model.name": "gin", "model.node_table": "factorized"}  # now node_init
    assert current_settings(settings) == {
        "model.name": "gin-words",
        "model.node_init": "factorized",
    }
    assert current_settings({"model.name": "gin"}) == {"model.name": "gin"}


@pytest.mark.parametrize("name", ["graphformers", "bert-max-sage"])
def test_node_texts_are_of_training_edges_without_the_edge_itself(name, simulated):
    made = tiny(EdgeClassifier, **{**QUICK, "model.name": name}).make_objective(simulated)
    train = np.flatnonzero(simulated.split("edge") == 0)[:64]
    batch = made.loader.batch(train, epoch=0)
    for egos, other in ((batch.source, batch.edge.dst), (batch.target, batch.edge.src)):
        assert len(egos.neighbor) > 0
        assert not (egos.neighbor == other[egos.owner]).any()
    encoded = []
    embed = made.model.encoder.embed
    made.model.encoder.embed = lambda text: encoded.append(text) or embed(text)
    made.model(batch)
    with_texts = len(batch.source.occupied) + len(batch.target.occupied)
    assert [text.num_texts for text in encoded] == [len(batch) + with_texts]
    assert encoded == [batch.node_texts.text]  # joined by the loader, not in the training step


def test_a_text_model_trains_node_vectors_only_for_the_collaborative_term(simulated):
    start = fitted(LinkPredictor, "bert-n", simulated, **{"train.node_lr": 0.0})
    for collaborative in (True, False):
        model = fitted(LinkPredictor, "bert-n", simulated, **{"links.collaborative": collaborative})
        table = model.fitted_.model.nodes.table
        assert torch.equal(table, start.fitted_.model.nodes.table) != collaborative
