from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from edgeformers.data.batch import EdgeBatch
from edgeformers.errors import ConfigError, InputError
from edgeformers.models.edgeformer_e import EdgeformerE, EdgeformerEConfig
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.backbones import load_backbone
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from tests.tiny_models import TINY_ENCODER, make_tiny

TEXTS = [[2, 5, 6, 3], [2], [2, 9, 9, 9, 9, 3]]


def make(**settings):
    return make_tiny("edgeformer-e", **settings)


def make_batch(src=(0, 1, 2), dst=(3, 4, 5), texts=TEXTS, **more):
    text = PackedText.from_lists(texts)
    return EdgeBatch(text=text, src=torch.tensor(src), dst=torch.tensor(dst), **more)


@pytest.fixture
def padded():
    ids = torch.tensor([text + [0] * (6 - len(text)) for text in TEXTS])
    mask = torch.tensor([[i < len(text) for i in range(6)] for text in TEXTS])
    return ids, mask, torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])


@torch.no_grad()
def test_without_virtual_tokens_it_is_the_published_model(tmp_path):
    shape = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20}
    torch.manual_seed(0)
    published = BertModel(BertConfig(vocab_size=30, num_hidden_layers=3, **shape)).eval()
    published.save_pretrained(tmp_path)
    config = EdgeformerEConfig(num_nodes=6, tokens=())
    model = EdgeformerE(config, load_backbone(tmp_path)).eval()
    ids = torch.tensor([text + [0] * (6 - len(text)) for text in TEXTS])
    mask = torch.tensor([[i < len(text) for i in range(6)] for text in TEXTS])
    theirs = published(ids, attention_mask=mask.long()).last_hidden_state[:, 0]
    torch.testing.assert_close(model(make_batch()), theirs, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_fusion_joins_the_text_and_the_node_vectors_once_more():
    plain, fused = make(), make(fusion=True)
    batch = make_batch()
    shared = {k: v for k, v in fused.state_dict().items() if not k.startswith("fusion")}
    plain.load_state_dict(shared)
    linear = fused.fusion[1]
    ends = [plain.nodes.table[batch.src], plain.nodes.table[batch.dst]]
    joined = torch.cat([plain(batch), *ends], dim=1)
    expected = nn.functional.gelu(joined @ linear.weight.T + linear.bias)
    torch.testing.assert_close(fused(batch), expected)
    assert make(fusion=True, tokens=()).fusion is None


@torch.no_grad()
def test_both_ends_are_felt_and_a_removed_one_is_not():
    both, source = make(), make(tokens=("source",))
    for model, feels_target in ((both, True), (source, False)):
        plain = model(make_batch())
        assert not torch.allclose(model(make_batch(src=(6, 1, 2)))[0], plain[0], atol=1e-3)
        same = torch.allclose(model(make_batch(dst=(6, 4, 5)))[0], plain[0], atol=1e-6)
        assert same != feels_target


@torch.no_grad()
def test_the_nodes_reach_an_edge_from_the_second_layer_on():
    """Layer 0 reads the text alone, so the attention of layer 0 knows no node."""
    model = make()
    here, there = (model.attention_maps(make_batch(src=src))[0] for src in [(0, 1, 2), (6, 1, 2)])
    torch.testing.assert_close(here[0].weights, there[0].weights)
    assert not torch.allclose(here[1].weights, there[1].weights)


@torch.no_grad()
def test_an_unseen_node_is_read_as_the_unknown_one():
    model = make()
    nn.init.normal_(model.nodes.table[-1:])
    known = model(make_batch())
    unknown = model(make_batch(src=(-1, 1, 2)))
    assert not torch.allclose(known[0], unknown[0], atol=1e-3)
    model.nodes.mark_seen(torch.tensor([False, True, True, True, True, True, True]))
    torch.testing.assert_close(model(make_batch()), unknown)


@torch.no_grad()
@pytest.mark.parametrize("direction", [False, True])
def test_direction_tells_source_from_target(direction):
    model = make(direction=direction)
    for projection in model.projections:
        if direction:
            nn.init.normal_(projection.role)
    there = model(make_batch(src=(0, 1, 2), dst=(3, 4, 5)))
    back = model(make_batch(src=(3, 4, 5), dst=(0, 1, 2)))
    assert torch.allclose(there, back, atol=1e-5) is not direction


@torch.no_grad()
def test_edge_types_have_projections_of_their_own():
    model = make(edge_types=2)
    first, second = (model(make_batch(edge_type=torch.tensor([k] * 3))) for k in (0, 1))
    mixed = model(make_batch(edge_type=torch.tensor([0, 1, 0])))
    assert not torch.allclose(first, second, atol=1e-3)
    torch.testing.assert_close(mixed, torch.stack([first[0], second[1], first[2]]))
    torch.testing.assert_close(model(make_batch()), first)


def test_gradients_agree_with_finite_differences():
    model = make().double()
    batch = make_batch(src=(0, -1, 2))
    names, values = zip(*model.named_parameters(), strict=True)
    sizes = [value.numel() for value in values]

    def encode(numbers):
        pairs = zip(names, numbers.split(sizes), values, strict=True)
        given = {name: part.view_as(value) for name, part, value in pairs}
        return torch.func.functional_call(model, given, (batch,))

    numbers = nn.utils.parameters_to_vector(values).detach().requires_grad_()
    assert torch.autograd.gradcheck(encode, numbers, fast_mode=True)


@torch.no_grad()
def test_attention_maps_name_the_virtual_tokens_and_sum_to_one():
    model = make()
    maps = model.attention_maps(make_batch())
    assert [len(of_text) for of_text in maps] == [3, 3, 3]
    for text, of_text in zip(TEXTS, maps, strict=True):
        assert [one.layer for one in of_text] == [0, 1, 2]
        assert [one.virtual for one in of_text] == [(), ("source", "target"), ("source", "target")]
        for one in of_text:
            columns = len(one.virtual) + len(text)
            assert one.weights.shape == (4, len(text), columns)
            torch.testing.assert_close(one.weights.sum(-1), torch.ones(4, len(text)))


@torch.no_grad()
def test_the_attention_of_the_readout_is_the_row_of_cls_in_the_last_layer():
    model = make()
    for row, maps in zip(
        model.readout_attention(make_batch()), model.attention_maps(make_batch()), strict=True
    ):
        torch.testing.assert_close(row, maps[-1].weights[:, 0].mean(0))


def test_forward_does_not_pay_for_attention_maps(monkeypatch):
    def refuse(*_args, **_more):
        raise AssertionError("forward asked for attention maps")

    monkeypatch.setattr(AsymmetricAttention, "attention_map", refuse)
    model = make()
    assert model(make_batch()).shape == (3, 16)
    with pytest.raises(AssertionError, match="attention maps"):
        model.attention_maps(make_batch())


@torch.no_grad()
def test_a_text_of_one_token_and_the_longest_one_are_read():
    model = make()
    longest = list(range(3, 15))
    both = model(make_batch(src=(0, 1), dst=(3, 4), texts=[[2], longest]))
    assert both.isfinite().all()
    with pytest.raises(InputError, match="13 tokens"):
        model(make_batch(src=(0,), dst=(3,), texts=[[*longest, 3]]))


@torch.no_grad()
def test_an_empty_padded_batch_gives_no_rows(padded):
    ids, mask, src, dst = (part[:0] for part in padded)
    assert make().encode_edges(ids, mask, src, dst).shape == (0, 16)


def changed(padded, place, value):
    return [value if i == place else part for i, part in enumerate(padded)]


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (0, lambda ids: ids.float(), r"token_ids must be integers \(got torch.float32\)"),
        (0, lambda ids: ids.bool(), r"token_ids must be integers \(got torch.bool\)"),
        (0, lambda ids: ids + 21, "token 30 is not in the backbone's vocabulary of 30; use the"),
        (0, lambda ids: ids - 3, "token -1 is not in the backbone's vocabulary of 30"),
        (0, lambda ids: ids[0], r"token_ids must be \[B, L\] \(got \[6\]\)"),
        (1, lambda mask: mask[:, :4], "same shape"),
        (1, lambda mask: mask & False, "text 0 has no token"),
        (2, lambda src: src + 5, "7"),
        (3, lambda dst: dst - 5, "-2"),
        (2, lambda src: src.float(), r"node numbers must be integers \(got torch.float32\)"),
        (3, lambda dst: dst[:2], r"one node per text, \[3\] \(got \[2\]\)"),
        (3, lambda dst: dst[:, None], r"one node per text, \[3\] \(got \[3, 1\]\)"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(padded, place, change, message):
    with pytest.raises(InputError, match=message):
        make().encode_edges(*changed(padded, place, change(padded[place])))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokens": ("target", "source")}, "tokens must be among"),
        ({"tokens": ("source", "source")}, r"each once .*\(got source, source\)"),
        ({"tokens": ("center",)}, r"\(got center\)"),
        ({"fidelity": "exact"}, r"fidelity must be one of paper, released"),
        ({"node_width": 0}, r"node_width must be at least 1 \(got 0\)"),
        ({"num_nodes": -1}, r"num_nodes must be at least 0 \(got -1\)"),
        ({"edge_types": 0}, r"edge_types must be at least 1 \(got 0\)"),
        ({"node_dropout": 1.0}, r"node_dropout must be 0 or more and below 1 \(got 1.0\)"),
        ({"node_shrinkage": -1.0}, r"node_shrinkage must be 0 or more \(got -1.0\)"),
        ({"num_node": 3}, "'num_node'; did you mean 'num_nodes'"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        EdgeformerEConfig.from_dict({"num_nodes": 7, **settings})


def test_an_encoder_of_one_layer_is_refused():
    encoder = TextEncoder(replace(TINY_ENCODER, layers=1))
    with pytest.raises(ConfigError, match="at least 2 layers"):
        EdgeformerE(EdgeformerEConfig(num_nodes=3), encoder)


def test_a_layer_must_be_left_for_the_node_tokens():
    with pytest.raises(ConfigError, match="text_layers=3"):
        EdgeformerE(EdgeformerEConfig(num_nodes=3, text_layers=3), TextEncoder(TINY_ENCODER))


@torch.no_grad()
@pytest.mark.parametrize("text_layers", [1, 2])
def test_nodes_enter_after_the_text_layers(text_layers):
    model = make(text_layers=text_layers).eval()
    assert len(model.projections) == len(model.encoder.layers) - text_layers
    states = []
    for index, layer in enumerate(model.encoder.layers):
        layer.register_forward_hook(lambda *call, at=index: states.append((at, call[-1])))
    model(make_batch(src=(0, 1, 2)))
    model(make_batch(src=(2, 0, 1)))
    count = len(model.encoder.layers)
    same = [torch.equal(states[i][1], states[count + i][1]) for i in range(count)]
    assert same == [index < text_layers for index in range(count)]


def test_settings_go_through_plain_values_and_back():
    config = EdgeformerEConfig(num_nodes=3, tokens=("source",))
    values = {**config.to_dict(), "tokens": ["source"]}  # as JSON gives it
    assert EdgeformerEConfig.from_dict(values) == config
