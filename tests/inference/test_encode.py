"""Vectors of many edges and nodes do not depend on how they are cut into batches."""

import threading
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.inference import encode
from edgeformers.inference.encode import (
    CACHED_TOKENS,
    EncodeOptions,
    _bounded,
    _cut,
    encode_edges,
    encode_nodes,
)
from tests.tiny_models import make_tiny

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@given(st.lists(st.integers(1, 64), max_size=200), st.integers(1, 300), st.integers(1, 20))
def test_chunks_keep_the_order_and_their_budget(tokens, budget, batch):
    work = np.array(tokens, np.int64)
    order = np.argsort(work, kind="stable")[::-1]
    chunks = _cut(order, work, budget, batch)
    assert np.concatenate([order[:0], *chunks]).tolist() == order.tolist()
    for chunk in chunks:
        assert len(chunk) == 1 or work[chunk].sum() <= budget
        assert 1 <= len(chunk) <= 4 * batch


def test_a_cpu_reads_no_more_of_a_language_model_at_once_than_its_caches_like():
    model, bag = make_tiny("edgeformer-e"), make_tiny("censnet")
    assert _bounded(10**6, model, CPU) == CACHED_TOKENS
    assert _bounded(100, model, CPU) == 100
    assert _bounded(10**6, model, GPU) == 10**6
    assert _bounded(10**6, bag, CPU) == 10**6


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_edges_are_the_same_in_batches_of_any_size(make_edges, batch):
    objective = make_edges()
    ids = objective.parts["val"][::-1].copy()
    found = encode_edges(
        objective.model, objective.loader, ids, EncodeOptions(device=CPU, batch=batch)
    )
    one_by_one = [
        encode_edges(objective.model, objective.loader, ids[i : i + 1], EncodeOptions(device=CPU))
        for i in range(len(ids))
    ]
    np.testing.assert_allclose(found, np.concatenate(one_by_one), atol=1e-5)


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_nodes_are_the_same_in_batches_of_any_size(make_links, batch):
    objective = make_links()
    nodes = np.arange(objective.loader.graph.num_nodes)[::3][::-1].copy()
    found = encode_nodes(
        objective.model, objective.loader, nodes, EncodeOptions(device=CPU, batch=batch)
    )
    one_by_one = [
        encode_nodes(objective.model, objective.loader, nodes[i : i + 1], EncodeOptions(device=CPU))
        for i in range(len(nodes))
    ]
    np.testing.assert_allclose(found, np.concatenate(one_by_one), atol=1e-5)


def test_layers_are_laid_out_for_a_cpu_where_there_is_more_than_one_batch(make_edges, monkeypatch):
    objective, seen = make_edges(), []
    monkeypatch.setattr(
        encode, "onednn_inference", lambda layers: seen.append(layers) or nullcontext()
    )
    ids = objective.parts["val"]
    encode_edges(objective.model, objective.loader, ids[:1], EncodeOptions(device=CPU))
    assert seen == []
    encode_edges(objective.model, objective.loader, ids[:9], EncodeOptions(device=CPU, batch=1))
    assert seen == [objective.model.encoder.layers]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_threads_that_read_chunks_of_their_own_give_the_same(make_edges, two_threads):
    objective = make_edges()
    ids = objective.parts["val"]
    found = encode_edges(objective.model, objective.loader, ids, EncodeOptions(device=CPU, batch=1))
    torch.set_num_threads(1)
    expected = encode_edges(
        objective.model, objective.loader, ids, EncodeOptions(device=CPU, batch=1)
    )
    torch.set_num_threads(2)
    np.testing.assert_array_equal(found, expected)


def test_each_of_several_threads_multiplies_alone(make_edges, two_threads, monkeypatch):
    objective, seen = make_edges(), set()
    forward = objective.model.forward

    def count(batch):
        seen.add(
            (threading.get_ident(), torch.get_num_threads(), torch.is_inference_mode_enabled())
        )
        return forward(batch)

    monkeypatch.setattr(objective.model, "forward", count)
    encode_edges(
        objective.model,
        objective.loader,
        objective.parts["val"],
        EncodeOptions(device=CPU, batch=1),
    )
    assert {(number, reads) for _, number, reads in seen} == {(1, True)}
    assert threading.get_ident() not in {ident for ident, *_ in seen}


def test_what_fails_in_a_thread_is_raised_where_it_was_wanted(make_edges, two_threads, monkeypatch):
    objective = make_edges()

    def fail(batch):
        raise ValueError("no such batch")

    monkeypatch.setattr(objective.model, "forward", fail)
    with pytest.raises(ValueError, match="no such batch"):
        encode_edges(
            objective.model,
            objective.loader,
            objective.parts["val"],
            EncodeOptions(device=CPU, batch=1),
        )
