"""oneDNN layers against the plain layers."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.fast import fast_paths
from edgeformers.nn.fast.int8 import quantize_int8
from edgeformers.nn.fast.onednn_layers import (
    PLAIN_ATTENTION_TOKENS,
    OneDNNLayer,
    PackedLinear,
    equal_length_runs,
    onednn_inference,
)
from edgeformers.nn.packed import PackedText
from tests.tiny_models import TINY_ENCODER, make_tiny
from tests.training.batches import edges, egos

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="needs a torch with oneDNN"
)
close = {"atol": 1e-5, "rtol": 1e-5}


def texts(*lengths):
    generator = torch.Generator().manual_seed(sum(lengths))
    return PackedText.from_lists(
        torch.randint(0, TINY_ENCODER.vocab_size, (n,), generator=generator).tolist()
        for n in lengths
    )


def make_encoder(**settings):
    encoder = random_backbone(replace(TINY_ENCODER, **settings), seed=0)
    encoder.initialize(0, std=0.2)
    return encoder.eval()


@pytest.fixture
def calls(monkeypatch):
    """Grows with every attention of a oneDNN layer."""
    seen = []
    for name in ("attend_text", "attend_rows"):
        call = getattr(OneDNNLayer, name)
        monkeypatch.setattr(OneDNNLayer, name, lambda *a, c=call: seen.append(1) or c(*a))
    return seen


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("edgeformer-e", edges(9)),
        ("edgeformer-n", egos(3, 0, 1, 5)),
        ("edgeformer-n", egos(0, 0)),
        ("bert-gin", egos(2, 1, 4)),
    ],
)
def test_models_give_the_same_results(name, batch):
    for fidelity in [{"fidelity": "released"}, {}] if name.startswith("edgeformer") else [{}]:
        model = make_tiny(name, **fidelity)
        with torch.inference_mode():
            expected = model(batch)
            with onednn_inference(model.encoder.layers):
                torch.testing.assert_close(model(batch), expected, **close)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.integers(0, 3))
def test_layers_give_the_same_results_for_any_order_of_texts(lengths, num_virtual):
    encoder, text = make_encoder(), texts(*lengths)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(text.num_tokens, 16, generator=generator)
    virtual = torch.randn(len(lengths), num_virtual, 16, generator=generator)
    virtual = virtual if num_virtual else None
    layer = encoder.layers[0]
    with torch.inference_mode():
        for readout in (None, hidden[text.starts], torch.randn(len(lengths), 16)):
            expected = layer(hidden, text, virtual, readout=readout)
            with onednn_inference(encoder.layers):
                found = layer(hidden, text, virtual, readout=readout)
            torch.testing.assert_close(found, expected, **close)


@pytest.mark.parametrize(
    "settings",
    [
        {"activation": "gelu_tanh"},
        {"activation": "relu"},
        {"attention_bias": False, "ffn_bias": False},
        {"windows": (1, None, 40)},
        {"family": "modernbert", "position_kind": "rotary"},
        {"gated": True},
        {"norm_place": "pre"},
    ],
)
def test_encoders_of_all_kinds_give_the_same_results(settings):
    encoder, text = make_encoder(**settings), texts(5, 12, 1, 5, 7)
    with torch.inference_mode():
        expected = encoder.encode(text)
        with onednn_inference(encoder.layers):
            torch.testing.assert_close(encoder.encode(text), expected, **close)


def test_texts_longer_than_plain_attention_give_the_same_results():
    encoder = make_encoder(max_positions=PLAIN_ATTENTION_TOKENS + 9)
    text = texts(*(PLAIN_ATTENTION_TOKENS + more for more in (9, 0, 1, 9)), 3)
    with torch.inference_mode():
        expected = encoder(text)
        with onednn_inference(encoder.layers):
            torch.testing.assert_close(encoder(text), expected, **close)


def test_equal_length_runs_by_hand():
    """Lengths 2 1 2 1: texts 1 and 3 come first, then 0 and 2; tokens 2, 5, then 0 1 3 4."""
    runs = equal_length_runs(texts(2, 1, 2, 1))
    assert runs.slices == [(slice(0, 2), slice(0, 2), 1), (slice(2, 4), slice(2, 6), 2)]
    assert runs.sort_groups(torch.arange(4)).tolist() == [1, 3, 0, 2]
    assert runs.sort_rows(torch.arange(6)).tolist() == [2, 5, 0, 1, 3, 4]
    for count, sort, restore in (
        (4, runs.sort_groups, runs.restore_groups),
        (6, runs.sort_rows, runs.restore_rows),
    ):
        assert restore(sort(torch.arange(count))).tolist() == list(range(count))


@pytest.mark.parametrize("lengths", [(3, 3, 2), (1, 4, 4), (5,), (2, 9, 3)])
def test_texts_of_one_length_after_another_are_not_copied(lengths):
    runs = equal_length_runs(texts(*lengths))
    assert (runs.groups, runs.rows) == (None, None)
    for groups, rows, length in runs.slices:
        assert groups.stop - groups.start == lengths.count(length)
        assert rows.stop - rows.start == lengths.count(length) * length


def test_packed_linear_maps_match_linear_maps():
    torch.manual_seed(0)
    first, second, rows = nn.Linear(8, 4), nn.Linear(8, 6), torch.randn(5, 8)
    with torch.inference_mode():
        both = torch.cat([first(rows), second(rows)], dim=1)
        torch.testing.assert_close(PackedLinear(first, second)(rows), both, **close)
        activated = torch.nn.functional.gelu(first(rows))
        torch.testing.assert_close(PackedLinear(first)(rows, "gelu"), activated, **close)
        residual = torch.randn(5, 4)
        added = PackedLinear(first).add(rows, residual)
        torch.testing.assert_close(added, residual + first(rows), **close)


def test_plain_layers_run_with_gradients_in_training_and_under_autocast(calls):
    model, batch = make_tiny("edgeformer-e"), edges(4)
    with onednn_inference(model.encoder.layers):
        model(batch).sum().backward()
        assert model.encoder.layers[0].ffn.up.weight.grad is not None
        with torch.no_grad():
            model.train()(batch)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            model.eval()(batch)
        assert not calls
        with torch.no_grad():
            model(batch)
    assert len(calls) == len(model.encoder.layers)


def test_after_the_block_plain_layers_run_with_their_new_weights():
    model, batch = make_tiny("edgeformer-e"), edges(4)
    with torch.inference_mode(), onednn_inference(model.encoder.layers):
        before = model(batch)
    with torch.no_grad():
        model.encoder.layers[1].ffn.down.weight.mul_(2)
        assert not torch.allclose(model(batch), before)
    assert all(layer.inference_layer is None for layer in model.encoder.layers)


def test_int8_layers_and_other_layers_are_not_replaced():
    eight = quantize_int8(make_tiny("edgeformer-e"))
    for layers in (eight.encoder.layers, make_encoder(norm_place="pre").layers, [nn.Identity()]):
        with onednn_inference(layers):
            assert not any(getattr(layer, "inference_layer", None) for layer in layers)


def test_the_switch_turns_onednn_layers_off(calls):
    model = make_tiny("edgeformer-e")
    with torch.no_grad(), fast_paths(False), onednn_inference(model.encoder.layers):
        model(edges(4))
    assert not calls
