"""CUDA graphs against plain models, with a fake capturer, and when they are used."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from edgeformers.nn.fast import fast_paths
from edgeformers.registry import MODELS
from edgeformers.training.cuda_graphs import (
    NO_LIMIT,
    GraphedModel,
    launch_bound_tokens,
    max_graph_tokens,
    use_cuda_graphs,
)
from tests.nn.fast.padded_attention import replace_kernels
from tests.tiny_models import TINY_ENCODER, make_tiny
from tests.training.batches import edges, egos, gradients, short, without_dropout

close = {"atol": 1e-5, "rtol": 1e-4}
BERT = replace(TINY_ENCODER, width=768, heads=12, layers=12, ffn_width=3072)
CUDA = torch.device("cuda")
NOT_CAPTURED = ("bert-nodes", "nenn", "bert-nenn")  # need offsets on the host


class Rerun:
    """Reruns a function on the same memory, as a CUDA graph does."""

    def __init__(self):
        self.captured = 0

    def warm_up(self, run):
        run()

    def capture(self, run):
        run()
        self.captured += 1
        return run


@pytest.fixture(autouse=True)
def short_everywhere(monkeypatch):
    replace_kernels(monkeypatch)


def twins(name, **settings):
    """Two equal models."""
    made = [without_dropout(make_tiny(name, sparse=True, **settings)) for _ in range(2)]
    return [short(model) if hasattr(model.encoder, "layers") else model for model in made]


def batches(name):
    if MODELS[name].encodes == "edges":
        return [edges(5), edges(17, seed=1), edges(16, seed=2), edges(5)]
    return [egos(3, 0, 1, 2), egos(2, 2, 2, 2, 5, seed=1), egos(2, 3, 2, 2, 4, seed=2)]


def compare(plain, model, read, batch):
    """Assert that outputs and gradients of both models agree."""
    weights = torch.randn(len(batch), plain.width, generator=torch.Generator().manual_seed(3))
    expected, found = plain(batch), read(batch)
    torch.testing.assert_close(found, expected, **close)
    right, made = gradients(plain, expected, weights), gradients(model, found, weights)
    for name in right.keys() | made.keys():
        zero = torch.zeros_like(dict(model.named_parameters())[name])
        one, other = made.get(name, zero), right.get(name, zero)
        near = {**close, "atol": 1e-5 * max(1.0, float(other.abs().max()))}  # sums cancel
        torch.testing.assert_close(one, other, **near, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("name", [n for n, entry in MODELS.items() if not entry.context])
def test_a_graphed_model_matches_the_model(name):
    plain, model = twins(name)
    read = GraphedModel(model, max_tokens=10_000, capturer=Rerun())
    for batch in batches(name):
        compare(plain, model, read, batch)
    assert bool(read.graphs.failure) == (name in NOT_CAPTURED)
    assert (read.capturer.captured > 0) == (name not in NOT_CAPTURED)


def test_a_graphed_model_reads_the_summaries_of_a_batch():
    pair = twins("edgeformer-e", prior_classes=3, fusion=True)
    for model in pair:
        for number, parameter in enumerate(model.prior.parameters()):
            generator = torch.Generator().manual_seed(number)
            torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    plain, model = pair
    read = GraphedModel(model, max_tokens=10_000, capturer=Rerun())
    for seed, batch in enumerate(batches("edgeformer-e")):
        summaries = torch.rand(len(batch), 2, 3, 4, generator=torch.Generator().manual_seed(seed))
        compare(plain, model, read, replace(batch, summaries=summaries))
    assert read.capturer.captured > 0
    captured = read.capturer.captured
    compare(plain, model, read, edges(5))  # without them, they are looked up by node number
    assert read.capturer.captured == captured


def test_each_size_is_captured_once():
    _, model = twins("edgeformer-n")
    read = GraphedModel(model, max_tokens=10_000, capturer=Rerun())
    for seed in (1, 1, 1):
        read(egos(2, 2, 2, seed=seed)).sum().backward()
    assert read.capturer.captured == 2


def test_gradients_accumulate_over_passes():
    plain, model = twins("edgeformer-n")
    read = GraphedModel(model, max_tokens=10_000, capturer=Rerun())
    first, second = egos(2, 2, 2, seed=1), egos(1, 3, 2, seed=2)
    for batch in (first, second):
        plain(batch).square().sum().backward()
        read(batch).square().sum().backward()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        if other.grad is not None and not other.grad.is_sparse:
            torch.testing.assert_close(one.grad, other.grad, **close)


def test_only_rows_of_nodes_in_the_batch_get_a_gradient():
    _, model = twins("edgeformer-n")
    batch = egos(2, 2, seed=4)
    GraphedModel(model, max_tokens=10_000, capturer=Rerun())(batch).sum().backward()
    rows = set(model.nodes.table.grad.coalesce().indices()[0].tolist())
    numbers = torch.cat([batch.center, batch.neighbor])
    assert rows == {int(n) if n >= 0 else 7 for n in numbers}


def test_a_second_pass_before_the_backward_pass_of_the_first_is_independent():
    plain, model = twins("edgeformer-n")
    read = GraphedModel(model, max_tokens=10_000, capturer=Rerun())
    one, other = egos(2, 2, seed=1), egos(1, 3, seed=2)
    expected = gradients(plain, torch.cat([plain(one), plain(other)]), torch.tensor(2.0))
    found = gradients(model, torch.cat([read(one), read(other)]), torch.tensor(2.0))
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], **close)
    read(one)  # without backward pass
    before = read.capturer.captured
    read(one).sum().backward()
    assert read.capturer.captured == before


def test_evaluation_and_large_batches_run_without_graphs():
    _, model = twins("edgeformer-n")
    read = GraphedModel(model, max_tokens=20, capturer=Rerun())
    read(egos(5, 5, 5))
    with torch.no_grad():
        read(egos(1))
    model.eval()
    read(egos(1))
    assert read.capturer.captured == 0


def test_a_model_that_cannot_be_captured_runs_and_keeps_the_reason():
    plain, model = twins("bert-nenn")
    read = GraphedModel(model, max_tokens=10_000, capturer=Rerun())
    compare(plain, model, read, egos(2, 3))
    assert read.graphs.failure.startswith("InputError")


def test_a_failed_capture_is_not_repeated():
    _, model = twins("bert-nenn")
    capturer = Rerun()
    attempts = []
    capturer.warm_up = lambda run: (attempts.append(1), run())
    read = GraphedModel(model, max_tokens=10_000, capturer=capturer)
    for seed in range(3):
        read(egos(2, 3, seed=seed)).sum().backward()
    assert len(attempts) == 1


def test_a_capture_does_not_change_the_random_state():
    _, model = twins("edgeformer-n", node_dropout=0.5)
    torch.manual_seed(0)
    model.nodes(torch.zeros(4, dtype=torch.long))
    expected = torch.rand(3)
    torch.manual_seed(0)
    read = GraphedModel(model, max_tokens=10_000, capturer=Rerun())
    read(egos(1, 1))  # looks up two centers and two neighbors
    assert torch.equal(torch.rand(3), expected)


def test_graphs_are_used_for_small_batches_of_long_trainings_unless_set():
    assert max_graph_tokens(None, BERT, steps=20) == 0
    assert max_graph_tokens(None, BERT, steps=20_000) == launch_bound_tokens(BERT)
    assert max_graph_tokens(True, BERT, steps=1) == NO_LIMIT
    assert max_graph_tokens(False, BERT, steps=10**6) == 0


def test_a_batch_is_launch_bound_if_launches_take_longer_than_its_computation():
    """A layer of BERT has 7.08 million weights, with 6 operations each per token in both passes.

    5.5 ms at 4e14 operations per second are 2.2e12 operations, or 51,800 tokens; with half the
    width four times as many. The number of layers does not matter.
    """
    assert launch_bound_tokens(BERT) == pytest.approx(51_800, rel=1e-3)
    half = replace(BERT, width=384, ffn_width=1536)
    assert launch_bound_tokens(half) == pytest.approx(4 * 51_800, rel=1e-3)
    assert launch_bound_tokens(replace(BERT, layers=6)) == launch_bound_tokens(BERT)


@pytest.mark.parametrize("name", ["make_edges", "make_links"])
def test_models_with_a_text_encoder_use_graphs_in_training(name, request, monkeypatch):
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    objective = request.getfixturevalue(name)()
    with use_cuda_graphs(objective, None, device=CUDA, steps=10**6):
        assert isinstance(objective.read, GraphedModel)
    assert objective.read is objective.model


def test_on_a_cpu_with_other_objectives_and_when_disabled_no_graphs_are_used(make_edges):
    objective, other = make_edges(), SimpleNamespace(read=len)
    with use_cuda_graphs(objective, True, device=torch.device("cpu"), steps=10**6):
        assert objective.read is objective.model
    with fast_paths(False), use_cuda_graphs(objective, True, device=CUDA, steps=10**6):
        assert objective.read is objective.model
    with use_cuda_graphs(other, None, device=CUDA, steps=10**6):
        assert other.read is len
