"""Recorded passes against plain ones, with a recorder that runs again what it recorded."""

import pytest
import torch

from edgeformers.registry import MODELS
from edgeformers.training.cuda_graphs import GraphedModel
from tests.tiny_models import make_tiny
from tests.training.batches import edges, egos, gradients, short, without_dropout

close = {"atol": 1e-5, "rtol": 1e-4}
REFUSES = ("bert-nodes", "nenn", "bert-nenn", "graphformers-n")  # ask the host where texts lie


class Again:
    """Runs a function once more, on the memory it was given: what a GPU's graph does."""

    def __init__(self):
        self.recorded = 0

    def warm(self, run):
        run()

    def record(self, run):
        run()
        self.recorded += 1
        return run


@pytest.fixture(autouse=True)
def short_everywhere(monkeypatch):
    monkeypatch.setattr("edgeformers.nn.attention.short_attention_obstacle", lambda *shape: "")


def twins(name, **settings):
    """A model to be recorded, and the same to compare it with."""
    made = [without_dropout(make_tiny(name, sparse=True, **settings)) for _ in range(2)]
    return [short(model) if hasattr(model.encoder, "layers") else model for model in made]


def batches(name):
    if MODELS[name].encodes == "edges":
        return [edges(5), edges(17, seed=1), edges(16, seed=2), edges(5)]
    return [egos(3, 0, 1, 2), egos(2, 2, 2, 2, 5, seed=1), egos(2, 3, 2, 2, 4, seed=2)]


def compare(plain, model, read, batch):
    """Both ways of the two models agree; the output of the second."""
    weights = torch.randn(len(batch), plain.width, generator=torch.Generator().manual_seed(3))
    expected, found = plain(batch), read(batch)
    torch.testing.assert_close(found, expected, **close)
    right, made = gradients(plain, expected, weights), gradients(model, found, weights)
    for name in right.keys() | made.keys():
        zero = torch.zeros_like(dict(model.named_parameters())[name])
        one, other = made.get(name, zero), right.get(name, zero)
        torch.testing.assert_close(one, other, **close, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("name", [n for n, entry in MODELS.items() if not entry.context])
def test_a_replayed_model_gives_what_the_model_gives(name):
    plain, model = twins(name)
    read = GraphedModel(model, most_tokens=10_000, recorder=Again())
    for batch in batches(name):
        compare(plain, model, read, batch)
    assert bool(read.failure) == (name in REFUSES)
    assert (read.recorder.recorded > 0) == (name not in REFUSES)


def test_a_size_is_recorded_once_both_ways():
    _, model = twins("edgeformer-n")
    read = GraphedModel(model, most_tokens=10_000, recorder=Again())
    for seed in (1, 1, 1):
        read(egos(2, 2, 2, seed=seed)).sum().backward()
    assert read.recorder.recorded == 2


def test_gradients_of_several_passes_add_up():
    plain, model = twins("edgeformer-n")
    read = GraphedModel(model, most_tokens=10_000, recorder=Again())
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
    GraphedModel(model, most_tokens=10_000, recorder=Again())(batch).sum().backward()
    rows = set(model.nodes.table.grad.coalesce().indices()[0].tolist())
    numbers = torch.cat([batch.center, batch.neighbor])
    assert rows == {int(n) if n >= 0 else 7 for n in numbers}


def test_a_second_pass_before_the_way_back_of_the_first_is_not_confused_with_it():
    plain, model = twins("edgeformer-n")
    read = GraphedModel(model, most_tokens=10_000, recorder=Again())
    one, other = egos(2, 2, seed=1), egos(1, 3, seed=2)
    expected = gradients(plain, torch.cat([plain(one), plain(other)]), torch.tensor(2.0))
    found = gradients(model, torch.cat([read(one), read(other)]), torch.tensor(2.0))
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], **close)
    read(one)  # nobody wants this one's way back
    before = read.recorder.recorded
    read(one).sum().backward()
    assert read.recorder.recorded == before


def test_evaluation_and_large_batches_run_as_they_are():
    _, model = twins("edgeformer-n")
    read = GraphedModel(model, most_tokens=20, recorder=Again())
    read(egos(5, 5, 5))
    with torch.no_grad():
        read(egos(1))
    model.eval()
    read(egos(1))
    assert read.recorder.recorded == 0


def test_a_model_that_cannot_be_recorded_runs_as_it_is_and_says_why():
    plain, model = twins("bert-nenn")
    read = GraphedModel(model, most_tokens=10_000, recorder=Again())
    compare(plain, model, read, egos(2, 3))
    assert read.failure == (
        "InputError: where the texts of a recorded batch lie is not known on the host"
    )


def test_a_model_that_refuses_is_asked_once():
    _, model = twins("bert-nenn")
    recorder = Again()
    asked = []
    recorder.warm = lambda run: (asked.append(1), run())
    read = GraphedModel(model, most_tokens=10_000, recorder=recorder)
    for seed in range(3):
        read(egos(2, 3, seed=seed)).sum().backward()
    assert len(asked) == 1


def test_recording_leaves_the_random_numbers_as_they_were():
    _, model = twins("edgeformer-n", node_dropout=0.5)
    torch.manual_seed(0)
    model.nodes(torch.zeros(4, dtype=torch.long))
    expected = torch.rand(3)
    torch.manual_seed(0)
    read = GraphedModel(model, most_tokens=10_000, recorder=Again())
    read(egos(1, 1))  # looks up two centers and two neighbors
    assert torch.equal(torch.rand(3), expected)
