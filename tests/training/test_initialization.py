"""Where training starts from: backbones, factorized tables, what saves memory."""

import numpy as np
import pytest
import torch

from edgeformers.errors import ConfigError
from edgeformers.inference.encode import (
    EncodeOptions,
    OutOfMemoryError,
    encode_edges,
    encode_nodes,
    make_autocast,
)
from edgeformers.training.initialization import (
    backbone_tokens,
    factorize,
    make_bag_of_words,
    open_backbone,
)

CPU = torch.device("cpu")


def test_an_untrained_backbone_reads_the_words_of_its_network(simulated):
    encoder, tokens = open_backbone("scratch:2x32", simulated, show=False)
    assert (len(encoder.layers), encoder.config.width) == (2, 32)
    assert encoder.config.vocab_size == tokens.vocab_size
    again, _ = open_backbone("scratch:2x32", simulated, show=False)
    other, _ = open_backbone("scratch:2x32", simulated, seed=1, show=False)
    one, two, three = (e.embeddings.tokens.weight for e in (encoder, again, other))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


@pytest.mark.parametrize("name", ["scratch", "scratch:1x32", "scratch:2x20"])
def test_an_untrained_backbone_of_an_impossible_shape_is_refused(simulated, name):
    with pytest.raises(ConfigError, match=name):
        open_backbone(name, simulated, show=False)


def test_factorized_vectors_tell_linked_nodes_from_others(simulated):
    vectors = factorize(simulated, "link", 8).numpy()
    train = simulated.split("link") == 0
    src, dst = simulated.src[train], simulated.dst[train]
    linked = (vectors[src] * vectors[dst]).sum(1).mean()
    shuffled = (vectors[src] * vectors[np.random.default_rng(0).permutation(dst)]).sum(1).mean()
    assert linked > 1.5 * abs(shuffled)
    assert (vectors**2).mean() == pytest.approx(1 / 8, rel=1e-4)
    torch.testing.assert_close(torch.from_numpy(vectors), factorize(simulated, "link", 8))
    assert factorize(simulated, "link", 999).shape == (simulated.num_nodes, 999)


@pytest.mark.parametrize("task", ["edges", "links"])
def test_layers_computed_again_give_the_same_gradients(task, make_edges, make_links, monkeypatch):
    make = make_edges if task == "edges" else make_links
    found, calls = [], []
    for again in (False, True):
        objective = make(**{"train.gradient_checkpointing": again, "model.node_dropout": 0.2})
        up = objective.model.encoder.layers[0].ffn.up
        up.register_forward_hook(lambda *_, mode=again: calls.append(mode))
        torch.manual_seed(3)
        loss = objective.backward([objective.make(objective.batches(0)[0], 0, None)])
        grads = {n: p.grad.to_dense() for n, p in objective.modules.named_parameters()}
        found.append((loss, grads))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(grad, found[1][1][name]) for name, grad in found[0][1].items())
    assert calls.count(True) == 2 * calls.count(False)
    assert objective.evaluate("val")


def test_bf16_is_taken_where_asked_and_float32_on_the_cpu_otherwise():
    x = torch.ones(2, 2)
    for precision, kind in (("auto", torch.float32), ("bf16", torch.bfloat16)):
        with make_autocast(CPU, precision)():
            assert (x @ x).dtype == kind


def test_bf16_trains_too(make_edges, make_trainer):
    objective = make_edges(**{"train.precision": "bf16"})
    progress = make_trainer(objective, epochs=1).fit()
    assert progress.step == len(objective.batches(0))
    assert all(p.dtype == torch.float32 for p in objective.modules.parameters())


def test_vectors_come_in_the_order_asked_for_whatever_the_batch(make_edges, make_links):
    edges, links = make_edges(), make_links()
    ids = np.array([7, 3, 500, 3, 80])
    whole = encode_edges(edges.model, edges.loader, ids, EncodeOptions(device=CPU))
    ones = encode_edges(edges.model, edges.loader, ids, EncodeOptions(device=CPU, batch=1))
    np.testing.assert_allclose(whole, ones, atol=1e-5)
    assert edges.model.training  # left as it was
    nodes = np.array([links.loader.graph.num_nodes - 1, 0, 3, 25])  # targets and sources mixed
    whole = encode_nodes(links.model, links.loader, nodes, EncodeOptions(device=CPU))
    for node, vector in zip(nodes, whole, strict=True):
        alone = encode_nodes(links.model, links.loader, np.array([node]), EncodeOptions(device=CPU))
        np.testing.assert_allclose(vector, alone[0], atol=1e-5)
    assert encode_nodes(links.model, links.loader, nodes[:0], EncodeOptions(device=CPU)).shape == (
        0,
        32,
    )
    assert encode_edges(edges.model, edges.loader, ids[:0], EncodeOptions(device=CPU)).shape == (
        0,
        32,
    )


def test_memory_that_ends_in_evaluation_names_the_setting_to_lower(make_edges):
    objective = make_edges()

    def no_memory(batch):
        raise torch.OutOfMemoryError("CUDA out of memory")

    objective.model.forward = no_memory
    with pytest.raises(OutOfMemoryError, match="encoding 256 edges at once; lower train"):
        objective.evaluate("val")


def test_documents_are_counted_as_they_are_cut_and_special_tokens_are_in_none(simulated):
    tokens, edges = open_backbone("scratch:2x32", simulated, show=False)[1], np.arange(5, 90)
    counts = tokens.count_documents(edges, 9, chunk=20)
    expected = np.zeros(tokens.vocab_size, int)
    for edge in edges:
        text = set(tokens.take([edge], 9)[0].tolist()) - {2, 3}  # [CLS] and [SEP]
        expected[list(text)] += 1
    np.testing.assert_array_equal(counts, expected)
    assert counts.sum() < tokens.count_documents(edges, 64).sum()


def test_a_bag_is_drawn_from_its_seed_and_needs_no_backbone(simulated):
    tokens, edges = backbone_tokens("scratch:2x32", simulated, show=False), np.arange(300)
    state = torch.get_rng_state()
    one, same, other = (
        make_bag_of_words(tokens, edges, 32, words=50, width=8, seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.table, same.table)
    assert not torch.equal(one.table, other.table)
    assert (one.config.words, int((one.column >= 0).sum())) == (50, 50)
    counts = tokens.count_documents(edges, 32)
    assert counts[one.column.numpy() < 0].max() <= counts[one.column.numpy() >= 0].min()
