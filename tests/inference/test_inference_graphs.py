"""CUDA graphs of inference against plain models, with a fake capturer, and when they are used."""

from threading import Thread

import pytest
import torch

from edgeformers.inference import cuda_graphs
from edgeformers.inference.cuda_graphs import MIN_USES, GraphedEncoder
from edgeformers.inference.encode import EncodeOptions
from edgeformers.registry import MODELS
from tests.nn.fast.padded_attention import replace_kernels
from tests.tiny_models import make_tiny
from tests.training.batches import edges, egos, short
from tests.training.test_cuda_graphs import NOT_CAPTURED, Rerun

CPU = torch.device("cpu")
close = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(autouse=True)
def short_everywhere(monkeypatch):
    replace_kernels(monkeypatch)


def make_encoder(name="edgeformer-n"):
    model = make_tiny(name).eval()
    model = short(model) if hasattr(model.encoder, "layers") else model
    return model, GraphedEncoder(model, CPU, capturer=Rerun())


def run(encoder, *batches):
    with torch.inference_mode():
        return [encoder(batch) for batch in batches]


@pytest.mark.parametrize("name", [n for n, entry in MODELS.items() if not entry.context])
def test_a_graphed_encoder_matches_the_model(name):
    model, encoder = make_encoder(name)
    if MODELS[name].encodes == "edges":
        batches = [edges(5, seed=seed) for seed in range(5)] + [edges(17)]
    else:
        batches = [egos(3, 0, 1, 2, seed=seed) for seed in range(5)] + [egos(2, 5, 2)]
    for batch, found in zip(batches, run(encoder, *batches), strict=True):
        with torch.inference_mode():
            torch.testing.assert_close(found, model(batch), **close)
    assert bool(encoder.graphs.failure) == (name in NOT_CAPTURED)
    assert (encoder._capturer.captured > 0) == (name not in NOT_CAPTURED)


def test_a_size_is_captured_once_it_returns():
    _, encoder = make_encoder()
    for seed in range(MIN_USES - 1):
        run(encoder, egos(2, 2, seed=seed))
    assert encoder._capturer.captured == 0
    run(encoder, *(egos(2, 2, seed=seed) for seed in range(4)))
    assert encoder._capturer.captured == 1


def test_results_are_not_overwritten_by_the_next_batch():
    _, encoder = make_encoder()
    first, *_, last = run(encoder, *[egos(2, 2, seed=1)] * MIN_USES, egos(2, 2, seed=2))
    assert not torch.equal(first, last)
    *_, again, _ = run(encoder, egos(2, 2, seed=1), egos(2, 2, seed=2))
    torch.testing.assert_close(again, first, **close)


def test_changed_weights_are_used(monkeypatch):
    model, encoder = make_encoder()
    batch = egos(2, 2)
    run(encoder, *[batch] * MIN_USES)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    (found,) = run(encoder, batch)
    torch.testing.assert_close(found, model(batch).detach(), **close)
    monkeypatch.setattr(cuda_graphs, "_address", lambda model: 1)  # moved
    run(encoder, batch)
    assert encoder._capturer.captured == 2


def test_training_large_and_empty_batches_and_further_sizes_run_without_graphs(monkeypatch):
    model, encoder = make_encoder()
    run(encoder, *[egos(0, 0)] * MIN_USES)
    monkeypatch.setattr(cuda_graphs, "MAX_INFERENCE_TOKENS", 20)
    run(encoder, *[egos(5, 5, 5)] * MIN_USES)
    monkeypatch.undo()
    replace_kernels(monkeypatch)
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 0)
    run(encoder, *[egos(2, 2)] * MIN_USES)
    monkeypatch.undo()
    replace_kernels(monkeypatch)
    model.train()
    run(encoder, *[egos(2, 2)] * MIN_USES)
    assert encoder._capturer.captured == 0


def test_threads_do_not_disturb_each_other():
    model, encoder = make_encoder()
    batches = [egos(2, 2, seed=seed) for seed in range(8)]
    run(encoder, *batches[:3])
    found = {}

    def work(index):
        (found[index],) = run(encoder, batches[index])

    threads = [Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, batch in enumerate(batches):
        with torch.inference_mode():
            torch.testing.assert_close(found[index], model(batch), **close)


def test_options_hold_the_graphs_of_one_model_on_a_gpu(monkeypatch):
    options = EncodeOptions(device=CPU)
    model, _ = make_encoder()
    options.encode(model, egos(2))
    assert not options.graphed  # on a CPU
    monkeypatch.setattr("edgeformers.inference.encode.can_use_graphs", lambda *_: True)
    for each in (model, model, make_encoder()[0]):
        expected = each(egos(2)).detach()
        torch.testing.assert_close(options.encode(each, egos(2)), expected, **close)
        assert list(options.graphed) == [each]
