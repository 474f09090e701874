"""Fused text embeddings: results, gradients, saved tensors, and when they apply.

Plain PyTorch functions replace the kernels; with Triton, the same tests run in its interpreter.
"""

import os
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from edgeformers.nn.encoder import EncoderConfig, TextEmbeddings, TextEncoder
from edgeformers.nn.fast import dispatch, fast_paths, fused_ops
from edgeformers.nn.fast.dispatch import can_fuse_embedding
from edgeformers.nn.fast.fused_ops import Tables, embed_norm
from edgeformers.nn.packed import PackedText

D, WORDS = 20, 30
#: From Triton's interpreter.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
KINDS = {
    "bert": {},
    "roberta": {"position_offset": 3, "type_vocab": 1},
    "distilbert": {"type_vocab": 0},
    "types alone": {"position_kind": "rotary"},
    "modernbert": {"position_kind": "rotary", "type_vocab": 0, "norm_bias": False},
}


def _mask(shape, drop):
    seed, dropout = drop
    if seed is None:
        return torch.ones(shape)
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(int(seed)))
    return (drawn >= dropout) / (1 - dropout)


def _sum(ids, places, tables):
    tokens, positions, types = tables
    rows = tokens[ids]
    rows = rows if positions is None else rows + positions[places]
    return rows if types is None else rows + types[0]


def _embed_norm(ids, places, tables, norm, drop, dtype):
    weight, shift, eps = norm
    rows = _sum(ids, places, tables)
    out = _mask(rows.shape, drop) * F.layer_norm(rows, weight.shape, weight, shift, eps)
    rstd = (rows.var(1, correction=0) + eps).rsqrt()
    return out.to(dtype), torch.stack([rows.mean(1), rstd])


def _embed_norm_backward(grad, ids, places, tables, weight, moments, drop):
    rows, (mean, rstd) = _sum(ids, places, tables), moments[:, :, None]
    drows, *sums = torch.ops.aten.native_layer_norm_backward(
        _mask(grad.shape, drop) * grad, rows, weight.shape, mean, rstd, weight, weight, [True] * 3
    )
    return drows, torch.stack([*sums, drows.sum(0)])


@pytest.fixture
def kernels(monkeypatch):
    """The kernels or their replacements, used on a CPU."""
    monkeypatch.setattr(fused_ops, "can_fuse_embedding", lambda *given: True)
    if INTERPRETED:
        from edgeformers.nn.fast import triton_embedding as embedding_kernels

        return embedding_kernels
    plain = SimpleNamespace(
        launch_embed_norm=_embed_norm, launch_embed_norm_backward=_embed_norm_backward
    )
    monkeypatch.setitem(sys.modules, "edgeformers.nn.fast.triton_embedding", plain)
    return plain


@pytest.fixture
def text():
    """Enough tokens for several tiles per program."""
    torch.manual_seed(1)
    lengths = (3, 14, 1, 5) * 15
    return PackedText.from_lists([torch.randint(0, WORDS, (n,)).tolist() for n in lengths])


def _config(dropout=0.0, **kind):
    shape = {"width": D, "heads": 2, "layers": 2, "ffn_width": 32, "max_positions": 16}
    none = {"dropout": 0.0, "attention_dropout": 0.0}
    return EncoderConfig(vocab_size=WORDS, embedding_dropout=dropout, **shape, **none, **kind)


def _embeddings(dropout=0.0, **kind):
    """Embeddings with random weights."""
    torch.manual_seed(0)
    made = TextEmbeddings(_config(dropout, **kind))
    for one in made.parameters():
        nn.init.normal_(one)
    return made


def _given(text):
    return torch.randn(text.num_tokens, D, generator=torch.Generator().manual_seed(4)).bfloat16()


def _learn(embeddings, text, forward=None):
    """Output and gradients under autocast to bfloat16."""
    embeddings.zero_grad()
    torch.manual_seed(3)
    with torch.autocast("cpu", torch.bfloat16):
        out = (forward or embeddings)(text)
    out.backward(_given(text).to(out.dtype))
    return [out.detach(), *(one.grad for one in embeddings.parameters())]


def _expect(embeddings, text, mask):
    """The same in float32, by one-hot products."""
    rows = F.one_hot(text.token_ids, WORDS).float() @ embeddings.tokens.weight
    if (table := embeddings.positions) is not None:
        places = text.positions + embeddings.offset
        rows = rows + F.one_hot(places, table.num_embeddings).float() @ table.weight
    if embeddings.types is not None:
        rows = rows + embeddings.types.weight[:1]
    centered = rows - rows.mean(1, keepdim=True)
    rows = centered / (centered.square().mean(1, keepdim=True) + embeddings.norm.eps).sqrt()
    out = rows * embeddings.norm.weight
    out = mask * (out if embeddings.norm.bias is None else out + embeddings.norm.bias)
    grads = torch.autograd.grad(out, list(embeddings.parameters()), _given(text).float())
    return [out.detach(), *grads]


def _dropped(kernels, text, dropout):
    """The dropout mask of the first seed [T, D]: 0 or the scale."""
    torch.manual_seed(3)
    seed = torch.empty(1, dtype=torch.int64).random_() if dropout else None
    norm, tables = (torch.zeros(D), torch.ones(D), 1e-6), (torch.zeros(WORDS, D), None, None)
    given = (text.token_ids, text.positions, tables, norm, (seed, dropout), torch.float32)
    return kernels.launch_embed_norm(*given)[0]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_results_and_gradients_match_float32(kernels, text, kind, dropout):
    embeddings, mask = _embeddings(dropout, **kind), _dropped(kernels, text, dropout)
    assert (mask == 0).any() == (dropout > 0)
    found, *grads = _learn(embeddings, text)
    expected, *others = _expect(embeddings, text, mask)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected.bfloat16(), atol=1e-5, rtol=2**-7)
    for one, other in zip(grads, others, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_pre_norm_layers_get_float32_rows(kernels, text):
    embeddings = _embeddings(norm_place="pre")
    found = _learn(embeddings, text)
    torch.testing.assert_close(found, _expect(embeddings, text, 1.0), atol=1e-4, rtol=1e-4)


def test_dropout_changes_from_call_to_call(kernels, text):
    embeddings = _embeddings(0.3)
    with torch.autocast("cpu", torch.bfloat16):
        first, other = embeddings(text), embeddings(text)
    assert not torch.equal(first == 0, other == 0)


def test_no_rows_are_saved_for_the_backward_pass(kernels, text):
    """Only the tables, the indices, two moments per token and a seed."""
    kept, embeddings = [], _embeddings(0.3)

    def keep(one):
        kept.append(one)
        return one

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
        _learn(embeddings, text)
    own = {one.data_ptr() for one in embeddings.parameters()}
    shapes = [tuple(one.shape) for one in kept if one.data_ptr() not in own]
    assert sorted(shapes) == sorted([(text.num_tokens,)] * 2 + [(2, text.num_tokens), (1,)])


@pytest.mark.parametrize("frozen", ["tokens", "positions", "types", "norm"])
def test_frozen_parameters_get_no_gradient_at_no_cost(kernels, monkeypatch, text, frozen):
    embeddings = _embeddings()
    expected = _learn(embeddings, text)
    scatter, filled = fused_ops._scatter, []

    def spy(drows, ids, table):
        filled.append(len(table))
        return scatter(drows, ids, table)

    monkeypatch.setattr(fused_ops, "_scatter", spy)
    embeddings.get_submodule(frozen).requires_grad_(False)
    found = _learn(embeddings, text)
    names = ["output", *(name for name, _ in embeddings.named_parameters())]
    for name, one, other in zip(names, found, expected, strict=True):
        assert one is None if name.startswith(frozen) else torch.equal(one, other), name
    assert filled == [n for n, name in ((WORDS, "tokens"), (16, "positions")) if name != frozen]


def test_inference_gives_the_same_result_and_saves_nothing(kernels, text):
    embeddings = _embeddings(0.3).eval()
    expected = _learn(embeddings, text)[0]

    def keep(one):
        raise AssertionError

    with (
        torch.no_grad(),
        torch.autocast("cpu", torch.bfloat16),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one),
    ):
        found = embeddings(text)
    assert torch.equal(found, expected)
    assert found.grad_fn is None


def test_gradient_checkpointing_gives_the_same_gradients(kernels, text):
    embeddings = _embeddings(0.3)

    def forward(text):
        return checkpoint(embeddings, text, use_reentrant=False)

    pairs = zip(_learn(embeddings, text, forward), _learn(embeddings, text), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("kind", [{}, {"norm_place": "pre"}, {"embedding_width": 12}], ids=str)
def test_an_encoder_matches_plain_pytorch(kernels, monkeypatch, text, kind):
    encoder = TextEncoder(_config(**kind))
    encoder.initialize(0, std=0.2)

    def learn():
        encoder.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = encoder.encode(text).float()
        out.cos().sum().backward()
        return [out, *(one.grad for one in encoder.parameters() if one.grad is not None)]

    found = learn()
    monkeypatch.setattr(fused_ops, "can_fuse_embedding", lambda *given: False)
    for one, other in zip(found, learn(), strict=True):
        assert (one - other).norm() < 0.1 * other.norm() + 1e-3


@pytest.mark.skipif(not INTERPRETED, reason="needs the kernels themselves")
@pytest.mark.parametrize("token", [-1, WORDS, 2**40])
def test_an_invalid_token_id_gives_nan_and_affects_no_other_token(kernels, text, token):
    embeddings = _embeddings()
    ids = text.token_ids.clone()
    ids[4] = token
    tables = Tables(embeddings.tokens, embeddings.positions, embeddings.types)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = embed_norm(ids, text.positions, tables, embeddings.norm, 0.0)
        expected = embeddings(text)
    assert found[4].isnan().all()
    others = torch.arange(len(ids)) != 4
    assert torch.equal(found[others], expected[others])


def test_on_a_cpu_the_modules_run_one_after_another(text):
    embeddings = _embeddings(0.3)
    torch.manual_seed(3)
    with torch.autocast("cpu", torch.bfloat16):
        found = embeddings(text)
        torch.manual_seed(3)
        rows = embeddings.tokens(text.token_ids) + embeddings.positions(text.positions)
        expected = embeddings.dropout(embeddings.norm(rows + embeddings.types.weight[0]))
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
    torch.testing.assert_close(embeddings.eval()(text), _expect(embeddings, text, 1.0)[0])


class _Doubled(nn.Embedding):
    def forward(self, ids):
        return 2 * super().forward(ids)


def _tables(*, count=5, width=D, make=nn.Embedding, **given):
    tables = [make(WORDS, width, **given), nn.Embedding(16, width)]
    ids = torch.zeros(count, dtype=torch.long, device="cuda")
    return ids, tables, nn.LayerNorm(width)


UNSUPPORTED = {
    "no token": {"count": 0},
    "too wide": {"width": 4097},
    "too many elements": {"count": 2**22, "width": 1024},
    "another table": {"make": _Doubled},
    "a padding id": {"padding_idx": 0},
    "a sparse gradient": {"sparse": True},
    "a maximum norm": {"max_norm": 1.0},
    "scaled gradients": {"scale_grad_by_freq": True},
    "another precision": {"dtype": torch.bfloat16},
}


@pytest.fixture
def fake_gpu(monkeypatch):
    """A fake GPU with matrix products in bfloat16."""
    monkeypatch.setattr(dispatch, "_supports_triton", lambda device: True)
    monkeypatch.setattr(dispatch, "compute_dtype", lambda x: torch.bfloat16)
    with FakeTensorMode():
        yield


def test_plain_tables_on_a_gpu_use_the_kernels(fake_gpu):
    assert can_fuse_embedding(*_tables())
    assert can_fuse_embedding(*_tables(width=4096))
    with fast_paths(False):
        assert not can_fuse_embedding(*_tables())


@pytest.mark.parametrize("given", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_other_tables_use_the_modules(fake_gpu, given):
    assert not can_fuse_embedding(*_tables(**given))


def test_products_in_float32_use_the_modules(fake_gpu, monkeypatch):
    monkeypatch.setattr(dispatch, "compute_dtype", lambda x: torch.float32)
    assert not can_fuse_embedding(*_tables())


def test_a_subclass_of_embedding_is_called_itself(text):
    torch.manual_seed(0)
    doubled, norm = _Doubled(WORDS, D), nn.LayerNorm(D, eps=1e-12)
    found = embed_norm(text.token_ids, text.positions, Tables(doubled, None, None), norm, 0.0)
    torch.testing.assert_close(found, norm(2 * doubled.weight[text.token_ids]))


def test_an_empty_batch_has_no_rows():
    nothing = torch.zeros(0, dtype=torch.long)
    embeddings = _embeddings()
    tables = Tables(embeddings.tokens, embeddings.positions, embeddings.types)
    assert embed_norm(nothing, nothing, tables, embeddings.norm, 0.1).shape == (0, D)


@pytest.mark.skipif(INTERPRETED or not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("width", [D, 384, 768])
def test_on_a_gpu_it_matches_plain_pytorch(width):
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=WORDS, width=width, heads=2, layers=1, ffn_width=8, embedding_dropout=0.0
    )
    embeddings = TextEmbeddings(config).cuda()
    lists = [torch.randint(0, WORDS, (n,)).tolist() for n in (300, 17, 1, 511) * 3]
    text = PackedText.from_lists(lists).to("cuda")
    given = torch.randn(text.num_tokens, width, device="cuda").bfloat16()

    def learn():
        embeddings.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            out = embeddings(text)
        out.backward(given.to(out.dtype))
        return [out, *(one.grad for one in embeddings.parameters())]

    found = learn()
    assert found[0].dtype == torch.bfloat16
    with fast_paths(False):
        out, *grads = learn()
    torch.testing.assert_close(found[0], out.bfloat16(), atol=1e-3, rtol=2**-7)
    for one, other in zip(found[1:], grads, strict=True):
        assert (one - other).norm() < 1e-4 * other.norm()


@pytest.mark.skipif(INTERPRETED, reason="runs in the interpreter already")
def test_the_kernels_pass_the_same_tests(interpret):
    interpret("-m", "pytest", "-q", "-p", "no:cacheprovider", __file__)
