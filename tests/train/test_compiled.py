"""Compiled layers against plain ones, through a compiler that needs no tools of the machine."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from edgeformers.models.registry import make_tiny
from edgeformers.train.compiled import compiled_layers
from tests.train.batches import edges, egos, gradients, short, without_dropout

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of the compiler
close = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(autouse=True)
def forget():
    """Programs of other tests are not counted."""
    torch._dynamo.reset()


def twins(name, **settings):
    return [short(without_dropout(make_tiny(name, **settings))) for _ in range(2)]


@pytest.mark.parametrize(
    ("name", "batches"),
    [
        ("edgeformer-n", [egos(3, 0, 1, 2), egos(2, 5, 1, 4, 2, seed=1), egos(1, 1, seed=2)]),
        ("edgeformer-e", [edges(5), edges(9, seed=1), edges(3, seed=2)]),
        ("bert-gin", [egos(3, 0, 1, 2), egos(2, 5, 1, 4, 2, seed=1)]),
    ],
)
def test_compiled_layers_give_what_plain_ones_give_for_batches_of_any_size(name, batches):
    plain, model = twins(name)
    counter = CompileCounterWithBackend("aot_eager_decomp_partition")
    with compiled_layers(model.encoder, backend=counter):
        for batch in batches:
            expected, found = plain(batch), model(batch)
            torch.testing.assert_close(found, expected, **close)
            weights = torch.randn_like(expected)
            right, made = gradients(plain, expected, weights), gradients(model, found, weights)
            assert right.keys() == made.keys()
            for key in right:
                torch.testing.assert_close(made[key], right[key], **close)
    assert 0 < counter.frame_count <= 6  # three programs, each begun anew once


def test_in_evaluation_nothing_is_compiled():
    _, model = twins("edgeformer-n")
    counter = CompileCounterWithBackend("eager")
    with compiled_layers(model.encoder, backend=counter):
        model.eval()(egos(2, 2))
        with torch.no_grad():
            model.train()(egos(2, 2))
    assert counter.frame_count == 0


def test_afterwards_the_layers_are_as_they_were():
    _, model = twins("edgeformer-n")
    with compiled_layers(model.encoder, backend="eager"):
        assert all("forward" in vars(layer) for layer in model.encoder.layers)
    assert not any("forward" in vars(layer) for layer in model.encoder.layers)


def test_texts_that_are_not_short_are_read_as_ever():
    plain, model = twins("edgeformer-e")
    for layer in model.encoder.layers:
        layer.attention.backend = "bucketed"
    counter = CompileCounterWithBackend("eager")
    with compiled_layers(model.encoder, backend=counter):
        torch.testing.assert_close(model(edges(5)), plain(edges(5)), **close)
    assert counter.frame_count == 0
