import pytest
import torch
from torch import nn

from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.encoder import FeedForward, PostNormLayer, PreNormLayer

D, F, HEADS, B, T = 16, 24, 4, 5, 27
KINDS = pytest.mark.parametrize("kind", [PostNormLayer, PreNormLayer])


def make_layer(kind, **options):
    torch.manual_seed(0)
    attention = AsymmetricAttention(D, HEADS)
    norms = (nn.LayerNorm(D), nn.LayerNorm(D))
    for norm in norms:
        nn.init.normal_(norm.weight)
    return kind(attention, FeedForward(D, F), norms=norms, **options).eval()


def test_post_norm_agrees_with_torch(text, draw):
    layer = make_layer(PostNormLayer)
    torch_layer = nn.TransformerEncoderLayer(D, HEADS, F, activation="gelu", batch_first=True)
    parts = (layer.attention.query, layer.attention.key_value)
    torch_layer.self_attn.in_proj_weight.data = torch.cat([p.weight for p in parts])
    torch_layer.self_attn.in_proj_bias.data = torch.cat([p.bias for p in parts])
    torch_layer.self_attn.out_proj.load_state_dict(layer.attention.out.state_dict())
    torch_layer.linear1.load_state_dict(layer.ffn.up.state_dict())
    torch_layer.linear2.load_state_dict(layer.ffn.down.state_dict())
    torch_layer.norm1.load_state_dict(layer.attention_norm.state_dict())
    torch_layer.norm2.load_state_dict(layer.ffn_norm.state_dict())
    hidden = draw(T, D)
    padded = text.to_padded(hidden)
    expected = torch_layer.eval()(padded, src_key_padding_mask=~text.mask)[text.mask]
    torch.testing.assert_close(layer(hidden, text), expected)


def test_pre_norm_reads_normed_text_and_virtual_tokens_as_given(text, draw):
    layer, hidden, virtual = make_layer(PreNormLayer), draw(T, D), draw(B, 2, D)
    normed = layer.attention_norm(hidden)
    middle = hidden + layer.attention(normed, text, virtual)
    expected = middle + layer.ffn(layer.ffn_norm(middle))
    torch.testing.assert_close(layer(hidden, text, virtual), expected)
    louder = layer(hidden, text, 10 * virtual)
    assert not torch.allclose(louder, expected)


@KINDS
@pytest.mark.parametrize("num_virtual", [0, 2, 3])
def test_a_readout_row_is_that_row_of_the_whole(text, draw, kind, num_virtual):
    layer, hidden, virtual = make_layer(kind), draw(T, D), draw(B, num_virtual, D)
    whole = layer(hidden, text, virtual)[text.starts]
    got = layer(hidden, text, virtual, readout=hidden[text.starts])
    torch.testing.assert_close(got, whole)


@KINDS
def test_attention_maps_are_those_of_the_forward_pass(text, draw, kind):
    layer, hidden, virtual = make_layer(kind), draw(T, D), draw(B, 2, D)
    read = hidden if kind is PostNormLayer else layer.attention_norm(hidden)
    expected = layer.attention.attention_map(read, text, virtual)
    for ours, theirs in zip(layer.attention_map(hidden, text, virtual), expected, strict=True):
        assert torch.equal(ours, theirs)
    rows = layer.attention_map(hidden, text, virtual, readout=hidden[text.starts])
    for row, whole in zip(rows, expected, strict=True):
        torch.testing.assert_close(row, whole[:, :1])


@KINDS
def test_gradient_reaches_every_parameter_and_input(text, draw, kind):
    layer = make_layer(kind).train()
    hidden, virtual = draw(T, D).requires_grad_(), draw(B, 2, D).requires_grad_()
    layer(hidden, text, virtual).square().sum().backward()
    for tensor in (hidden, virtual, *layer.parameters()):
        assert tensor.grad.abs().sum() > 0


@KINDS
def test_dropout_acts_in_training_alone(text, draw, kind):
    layer, hidden = make_layer(kind, dropout=0.5), draw(T, D)
    torch.testing.assert_close(layer(hidden, text), make_layer(kind)(hidden, text))
    assert not torch.allclose(layer.train()(hidden, text), make_layer(kind)(hidden, text))


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("gelu", nn.GELU()),
        ("gelu_tanh", nn.GELU(approximate="tanh")),
        ("relu", nn.ReLU()),
        ("silu", nn.SiLU()),
    ],
)
def test_the_activation_is_the_one_named(draw, name, module):
    ffn, rows = FeedForward(D, F, activation=name), draw(7, D)
    torch.testing.assert_close(ffn(rows), ffn.down(module(ffn.up(rows))))


def test_a_gated_ffn_multiplies_by_the_second_half(draw):
    ffn, rows = FeedForward(D, F, gated=True, bias=False), draw(7, D)
    inner, gate = (rows @ half.T for half in ffn.up.weight.split(F))
    expected = (nn.functional.gelu(inner) * gate) @ ffn.down.weight.T
    torch.testing.assert_close(ffn(rows), expected)
    assert ffn.up.bias is None
