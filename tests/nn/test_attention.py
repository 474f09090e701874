import pytest
import torch
from torch import nn

from edgeformers.errors import ConfigError
from edgeformers.nn.attention import AsymmetricAttention, attend, join_virtual
from edgeformers.nn.packed import PackedText

D, HEADS = 16, 4
LENGTHS = (5, 1, 9, 3, 9)  # of the fixture `text`
B, T = len(LENGTHS), sum(LENGTHS)
VIRTUAL = pytest.mark.parametrize("num_virtual", [0, 2, 3], ids=["plain", "e", "n"])
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.fixture
def layer():
    return make_layer()


def make_layer(**options):
    torch.manual_seed(0)
    return AsymmetricAttention(D, HEADS, **options).eval()


def padded_reference(layer, hidden, text, virtual):
    """The same layer through torch's own padded attention, given the same weights."""
    torch_layer = nn.MultiheadAttention(D, HEADS, batch_first=True).eval()
    parts = (layer.query, layer.key_value)
    torch_layer.in_proj_weight.data = torch.cat([p.weight for p in parts])
    torch_layer.in_proj_bias.data = torch.cat([p.bias for p in parts])
    torch_layer.out_proj.load_state_dict(layer.out.state_dict())
    padded = text.to_padded(hidden)
    context = torch.cat([virtual, padded], dim=1)
    real = torch.cat([torch.ones(text.num_texts, virtual.size(1), dtype=torch.bool), text.mask], 1)
    return torch_layer(padded, context, context, key_padding_mask=~real)[0][text.mask]


def brute_force(q, k, v, text, num_virtual, window):
    """Every query row by itself, key by key."""
    out = torch.zeros_like(q)
    for index, first in enumerate(text.starts.tolist()):
        length, start = int(text.lengths[index]), first + index * num_virtual
        for row in range(length):
            near = [p for p in range(length) if window is None or abs(p - row) <= window]
            keys = [start + s for s in range(num_virtual)] + [start + num_virtual + p for p in near]
            scores = torch.einsum("hd,khd->hk", q[first + row], k[keys]) / q.size(-1) ** 0.5
            out[first + row] = torch.einsum("hk,khd->hd", scores.softmax(-1), v[keys])
    return out


@VIRTUAL
def test_agrees_with_torch_attention_on_padded_texts(layer, text, draw, num_virtual):
    hidden, virtual = draw(T, D), draw(B, num_virtual, D)
    expected = padded_reference(layer, hidden, text, virtual)
    torch.testing.assert_close(layer(hidden, text, virtual), expected)


@VIRTUAL
@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_agrees_with_brute_force_through_any_window(text, draw, num_virtual, window):
    q, k, v = draw(T, 2, 8), draw(T + B * num_virtual, 2, 8), draw(T + B * num_virtual, 2, 8)
    expected = brute_force(q, k, v, text, num_virtual, window)
    got = attend(q, k, v, text, num_virtual, window=window)
    torch.testing.assert_close(got, expected)


def test_no_virtual_token_and_none_of_them_are_the_same(layer, text, draw):
    hidden = draw(T, D)
    torch.testing.assert_close(layer(hidden, text), layer(hidden, text, draw(B, 0, D)))


def test_texts_of_one_length_need_no_mask_and_agree(layer, draw, make_text):
    text, hidden, virtual = make_text([4, 4, 4]), draw(12, D), draw(3, 2, D)
    expected = padded_reference(layer, hidden, text, virtual)
    torch.testing.assert_close(layer(hidden, text, virtual), expected)


@pytest.mark.parametrize("options", [{}, {"rotary_theta": 100.0}, {"window": 2}], ids=str)
def test_company_and_order_change_nothing(text, draw, options):
    layer, hidden, virtual = make_layer(**options), draw(T, D), draw(B, 2, D)
    together = layer(hidden, text, virtual).split(LENGTHS)
    rows, ids = hidden.split(LENGTHS), text.token_ids.split(LENGTHS)
    for chosen in ([2], [4, 0], [3, 1, 2, 0, 4]):
        some = PackedText.from_lists(ids[i].tolist() for i in chosen)
        got = layer(torch.cat([rows[i] for i in chosen]), some, virtual[chosen])
        torch.testing.assert_close(got, torch.cat([together[i] for i in chosen]))


@VIRTUAL
@pytest.mark.parametrize("options", [{}, {"rotary_theta": 100.0}, {"window": 2}], ids=str)
def test_a_readout_row_is_that_row_of_the_whole(text, draw, num_virtual, options):
    layer, hidden, virtual = make_layer(**options), draw(T, D), draw(B, num_virtual, D)
    whole = layer(hidden, text, virtual)[text.starts]
    got = layer(hidden, text, virtual, readout=hidden[text.starts])
    torch.testing.assert_close(got, whole)


def test_a_virtual_token_can_be_read_out(layer, text, draw):
    hidden, virtual = draw(T, D), draw(B, 2, D)
    got = layer(hidden, text, virtual, readout=virtual[:, 1])
    symmetric = PackedText.from_lists([[0] * (n + 2) for n in LENGTHS])  # virtual tokens ask too
    rows = layer(join_virtual(hidden, text, virtual), symmetric)
    torch.testing.assert_close(got, rows[symmetric.starts + 1])


@pytest.mark.parametrize("options", [{}, {"rotary_theta": 100.0}, {"window": 2}], ids=str)
@pytest.mark.parametrize("num_virtual", [0, 3])
def test_attention_maps_sum_to_one_and_give_the_output(text, draw, options, num_virtual):
    layer, hidden, virtual = make_layer(**options), draw(T, D), draw(B, num_virtual, D)
    maps = layer.attention_map(hidden, text, virtual)
    values = layer.key_value(join_virtual(hidden, text, virtual))[:, D:].unflatten(1, (HEADS, -1))
    mixed = []
    pieces = values.split([n + num_virtual for n in LENGTHS])
    for length, one, value in zip(LENGTHS, maps, pieces, strict=True):
        assert one.shape == (HEADS, length, num_virtual + length)
        torch.testing.assert_close(one.sum(-1), torch.ones(HEADS, length))
        mixed.append(torch.einsum("hqk,khd->qhd", one, value).flatten(1))
    torch.testing.assert_close(layer.out(torch.cat(mixed)), layer(hidden, text, virtual))


def test_the_attention_map_of_a_readout_has_one_row(layer, text, draw):
    hidden, virtual = draw(T, D), draw(B, 2, D)
    one = layer.attention_map(hidden, text, virtual, hidden[text.starts])
    whole = layer.attention_map(hidden, text, virtual)
    for row, full in zip(one, whole, strict=True):
        torch.testing.assert_close(row, full[:, :1])


def test_a_window_hides_far_tokens_and_no_virtual_token(draw, make_text):
    layer, text = make_layer(window=1), make_text([6])
    (seen,) = layer.attention_map(draw(6, D), text, draw(1, 2, D))
    expected = torch.ones(6, 6).triu(-1).tril(1).bool()
    assert torch.equal(seen[0] > 0, torch.cat([torch.ones(6, 2).bool(), expected], 1))


def test_rotary_attention_depends_on_distance_alone(draw, make_text):
    layer, row = make_layer(rotary_theta=100.0), draw(1, D)
    (seen,) = layer.attention_map(row.expand(6, D), make_text([6]))
    scores = seen.log()[:, 1:-1]  # equal tokens: a row's scores differ by distance alone
    ratio_left = scores[:, 1:, 2:] - scores[:, 1:, 1:-1]
    ratio_right = scores[:, :-1, 1:-1] - scores[:, :-1, :-2]
    torch.testing.assert_close(ratio_left, ratio_right)
    assert ratio_left.abs().max() > 1e-4


def test_virtual_tokens_stand_at_position_zero(draw, make_text):
    layer, text, hidden = make_layer(rotary_theta=100.0), make_text([4]), draw(4, D)
    (seen,) = layer.attention_map(hidden, text, hidden[:1][None])  # [CLS] again, as virtual token
    torch.testing.assert_close(seen[:, :, 0], seen[:, :, 1])


def test_an_empty_batch_gives_no_rows_and_reaches_every_weight(layer):
    none = PackedText.from_lists([])
    out = layer(torch.zeros(0, D), none, torch.zeros(0, 2, D))
    assert out.shape == (0, D)
    out.sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


@pytest.mark.parametrize("options", [{}, {"rotary_theta": 10.0, "window": 1}], ids=str)
@pytest.mark.parametrize("readout", [False, True])
def test_gradients_are_right(options, readout, make_text):
    torch.manual_seed(0)
    layer = AsymmetricAttention(4, 2, **options).double()
    text = make_text([3, 1])
    hidden = torch.randn(4, 4, dtype=torch.double, requires_grad=True)
    virtual = torch.randn(2, 2, 4, dtype=torch.double, requires_grad=True)

    def run(hidden, virtual):
        return layer(hidden, text, virtual, virtual[:, 1] if readout else None)

    assert torch.autograd.gradcheck(run, (hidden, virtual))


def test_dropout_acts_in_training_alone(text, draw):
    layer, hidden = make_layer(dropout=0.5), draw(T, D)
    torch.testing.assert_close(layer(hidden, text), make_layer()(hidden, text))
    assert not torch.allclose(layer.train()(hidden, text), make_layer()(hidden, text))


@pytest.mark.parametrize("options", [{}, {"rotary_theta": 100.0}], ids=str)
def test_a_compiled_layer_gives_the_same(draw, make_text, options):
    layer = make_layer(**options)
    compiled = torch.compile(layer, backend="eager", fullgraph=True, dynamic=True)
    for lengths in ([4, 4], [6, 2, 6]):
        text, hidden = make_text(lengths), draw(sum(lengths), D)
        virtual = draw(len(lengths), 2, D)
        expected = layer(hidden, text, virtual)  # prepares the batch outside the graph
        torch.testing.assert_close(compiled(hidden, text, virtual), expected)


def test_varlen_without_a_gpu_is_refused_with_a_sentence(text, draw):
    q = draw(T, 2, 8)
    with pytest.raises(ConfigError, match="CUDA"):
        attend(q, q, q, text, backend="varlen")


@on_gpu
@VIRTUAL
@pytest.mark.parametrize("readout", [False, True])
@pytest.mark.parametrize("window", [None, 3])
def test_varlen_agrees_with_bucketed(text, draw, num_virtual, readout, window):
    if window and (num_virtual or readout):
        pytest.skip("left to bucketed")
    text = text.to("cuda")
    rows = (B if readout else T), T + B * num_virtual, T + B * num_virtual
    sources = [draw(n, 2, 16).cuda().bfloat16() for n in rows]
    results = []
    for backend in ("varlen", "bucketed"):
        inputs = [x.clone().requires_grad_() for x in sources]
        options = {"readout": readout, "window": window, "backend": backend}
        out = attend(*inputs, text, num_virtual, **options)
        out.square().sum().backward()
        results.append([out, *(x.grad for x in inputs)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=3e-2, rtol=3e-2)


@on_gpu
def test_varlen_refuses_a_window_past_virtual_tokens(text, draw):
    q, k = draw(T, 2, 8).cuda().bfloat16(), draw(T + 2 * B, 2, 8).cuda().bfloat16()
    with pytest.raises(ConfigError, match="window"):
        attend(q, k, k, text.to("cuda"), 2, window=1, backend="varlen")
