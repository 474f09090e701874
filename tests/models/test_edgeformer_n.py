import pytest
import torch
from torch import nn

from edgeformers.data.batch import EgoBatch
from edgeformers.errors import ConfigError, InputError
from edgeformers.models.edgeformer_n import EdgeformerNConfig
from edgeformers.nn.attention import AsymmetricAttention
from edgeformers.nn.nodes import NodeLookup
from edgeformers.nn.packed import PackedText
from tests.tiny_models import make_tiny

TEXTS = [[2, 5, 6, 3], [2], [2, 9, 9, 9, 9, 3], [2, 7, 3]]


def make(**settings):
    return make_tiny("edgeformer-n", **settings)


def make_batch(center=(0, 1, 2), counts=(3, 0, 1), neighbor=(3, 4, 5, 6), texts=TEXTS, **more):
    return EgoBatch.from_counts(
        text=PackedText.from_lists(texts),
        center=torch.tensor(center),
        counts=torch.tensor(counts),
        neighbor=torch.tensor(neighbor, dtype=torch.long),
        **more,
    )


@pytest.fixture
def padded():
    """Two centers with two slots each, the last of which is empty."""
    ids = torch.tensor([text + [0] * (6 - len(text)) for text in TEXTS]).unflatten(0, (2, 2))
    mask = torch.tensor([[i < len(text) for i in range(6)] for text in TEXTS]).unflatten(0, (2, 2))
    neighbor, real = torch.tensor([[3, 4], [5, 6]]), torch.tensor([[True, True], [True, False]])
    return torch.tensor([0, 1]), ids, mask, neighbor, real


@torch.no_grad()
def test_a_node_without_edges_is_its_own_node_token():
    model = make()
    out = model(make_batch())
    torch.testing.assert_close(out[1], model.projections[-1].maps[0](model.nodes.table[1]))
    alone = model(make_batch(center=(1, 2), counts=(0, 0), neighbor=(), texts=[]))
    torch.testing.assert_close(alone[0], out[1])


@torch.no_grad()
def test_a_node_with_one_edge_is_that_edge():
    model = make()
    batch = make_batch()
    torch.testing.assert_close(model(batch)[2], model.encode_ego_edges(batch)[3])


@torch.no_grad()
def test_a_thousand_neighbors_are_one_more_batch():
    """Equal edges stay equal however many there are; one more edge among them changes it."""
    model = make()
    many = make_batch(center=(0,), counts=(1000,), neighbor=[3] * 1000, texts=[TEXTS[0]] * 1000)
    one = make_batch(center=(0,), counts=(1,), neighbor=(3,), texts=TEXTS[:1])
    torch.testing.assert_close(model(many), model(one), atol=1e-5, rtol=1e-5)
    texts = [*[TEXTS[0]] * 999, TEXTS[2]]
    other = make_batch(center=(0,), counts=(1000,), neighbor=[*[3] * 999, 5], texts=texts)
    assert not torch.allclose(model(other), model(one), atol=1e-5)


@torch.no_grad()
def test_edges_hear_of_their_siblings_through_the_local_token_alone():
    for tokens in (("center", "neighbor", "local"), ("center", "neighbor")):
        model = make(tokens=tokens)
        before = model.encode_ego_edges(make_batch())
        after = model.encode_ego_edges(make_batch(texts=[TEXTS[0], [4, 4, 4], *TEXTS[2:]]))
        hears = not torch.allclose(before[0], after[0], atol=1e-5)
        assert hears == ("local" in tokens)
        torch.testing.assert_close(before[3], after[3])  # the edge of another center


@torch.no_grad()
def test_mean_and_max_pool_the_edges():
    mean, largest = make(pooling="mean"), make(pooling="max")
    edges = mean.encode_ego_edges(make_batch())
    torch.testing.assert_close(mean(make_batch())[0], edges[:3].mean(0))
    torch.testing.assert_close(largest(make_batch())[0], edges[:3].amax(0))


@torch.no_grad()
def test_the_readout_follows_the_fidelity_unless_it_is_given():
    assert not EdgeformerNConfig(num_nodes=1).reads_neighbor
    assert EdgeformerNConfig(num_nodes=1, readout="neighbor").reads_neighbor
    assert EdgeformerNConfig(num_nodes=1, fidelity="released").reads_neighbor
    assert not EdgeformerNConfig(num_nodes=1, fidelity="released", readout="cls").reads_neighbor
    without = EdgeformerNConfig(num_nodes=1, fidelity="released", tokens=("center", "local"))
    assert not without.reads_neighbor


@torch.no_grad()
def test_unseen_centers_and_neighbors_are_read_as_the_unknown_node():
    model = make()
    nn.init.normal_(model.nodes.table[-1:])
    known = model(make_batch())
    unknown = model(make_batch(center=(-1, 1, 2), neighbor=(3, -1, 5, 6)))
    assert not torch.allclose(known[0], unknown[0], atol=1e-3)
    model.nodes.mark_seen(torch.tensor([False, True, True, True, False, True, True]))
    torch.testing.assert_close(model(make_batch()), unknown)


@torch.no_grad()
def test_a_dropped_center_is_unknown_in_all_its_places():
    """Its edges, its pooling and its own token: as a new node would be read later."""
    model = make(node_dropout=0.5).train()
    nn.init.normal_(model.nodes.table[-1:])
    dropping = NodeLookup._known_rows
    calls = []

    def drop_centers(self, nodes, source):
        calls.append(nodes.shape)
        return dropping(self, nodes, source) if nodes.shape == (3,) else nodes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeLookup, "_known_rows", drop_centers)
        seen = {tuple(model(make_batch())[0].tolist()) for _ in range(20)}
    assert set(calls) == {torch.Size([3]), torch.Size([4])}  # centers once, neighbors once
    model.eval()
    expected = [model(make_batch(center=(c, 1, 2)))[0] for c in (0, -1)]
    assert len(seen) == 2
    for one in seen:
        assert any(torch.allclose(torch.tensor(one), other, atol=1e-6) for other in expected)


@torch.no_grad()
@pytest.mark.parametrize("direction", [False, True])
def test_direction_tells_edges_out_from_edges_in(direction):
    model = make(direction=direction)
    for projection in model.projections:
        if direction:
            nn.init.normal_(projection.role)
    out, into = (model(make_batch(is_out=torch.tensor([way] * 4))) for way in (True, False))
    assert torch.allclose(out[0], into[0], atol=1e-5) is not direction


@torch.no_grad()
def test_edge_types_have_projections_of_their_own():
    model = make(edge_types=2)
    first, second = (model(make_batch(edge_type=torch.tensor([k] * 4))) for k in (0, 1))
    assert not torch.allclose(first[0], second[0], atol=1e-3)
    torch.testing.assert_close(model(make_batch()), first)


@pytest.mark.parametrize(
    "settings", [{}, {"fidelity": "released"}, {"pooling": "mean"}], ids=["paper", "rel", "mean"]
)
def test_gradients_agree_with_finite_differences(settings):
    model = make(**settings).double()
    batch = make_batch(center=(0, 1, -1))
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
    for tokens in (("center", "neighbor", "local"), ("neighbor", "local"), ()):
        maps = make(tokens=tokens).attention_maps(make_batch())
        assert len(maps) == 4
        for text, of_text in zip(TEXTS, maps, strict=True):
            assert [one.virtual for one in of_text] == [(), tokens, tokens]
            for one in of_text:
                assert one.weights.shape == (4, len(text), len(one.virtual) + len(text))
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
    assert make()(make_batch()).shape == (3, 16)


def test_a_text_beyond_the_limit_is_refused():
    batch = make_batch(center=(0,), counts=(1,), neighbor=(3,), texts=[[2] * 13])
    with pytest.raises(InputError, match="13 tokens"):
        make()(batch)


@torch.no_grad()
def test_padded_egos_may_be_empty(padded):
    center, ids, mask, neighbor, real = padded
    model = make()
    lonely = model.encode_nodes(center, ids, mask, neighbor, real & False)
    torch.testing.assert_close(lonely, model.projections[-1].maps[0](model.nodes.table[:2]))
    nobody = model.encode_nodes(*(part[:0] for part in padded))
    assert nobody.shape == (0, 16)


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (0, lambda center: center + 6, "7"),
        (0, lambda center: center.float(), r"node numbers must be integers \(got torch.float32\)"),
        (0, lambda center: center[:1], r"agree in \[B, N\] \(got \[1\], \[2, 2\]"),
        (1, lambda ids: ids.float(), r"token_ids must be integers \(got torch.float32\)"),
        (1, lambda ids: ids + 21, "token 30 is not in the backbone's vocabulary of 30"),
        (1, lambda ids: ids[:, :1], r"token_ids and token_mask must agree .* \[2, 1, 6\]"),
        (2, lambda mask: mask[:, :, :3], "same shape"),
        (2, lambda mask: mask[:1], r"must agree in \[B, N\] .* and \[1, 2, 6\]"),
        (2, lambda mask: mask & False, "text 0 has no token"),
        (3, lambda neighbor: neighbor - 5, "-2"),
        (3, lambda neighbor: neighbor[:, :1], r"must agree in \[B, N\] \(got \[2\], \[2, 1\]"),
        (4, lambda real: real[0], r"must agree in \[B, N\]"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(padded, place, change, message):
    given = [change(part) if i == place else part for i, part in enumerate(padded)]
    with pytest.raises(InputError, match=message):
        make().encode_nodes(*given)


@torch.no_grad()
def test_what_stands_in_empty_slots_is_never_read(padded):
    center, ids, mask, neighbor, real = padded
    model = make()
    clean = model.encode_nodes(center, ids, mask, neighbor, real)
    ids, neighbor = ids.clone(), neighbor.clone()
    ids[1, 1], neighbor[1, 1] = 10_000, -7
    torch.testing.assert_close(model.encode_nodes(center, ids, mask, neighbor, real), clean)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokens": ("local", "center", "neighbor")}, "tokens must be among"),
        ({"tokens": ("source",)}, r"\(got source\)"),
        ({"readout": "mean"}, "readout"),
        ({"pooling": "sum"}, "pooling"),
        ({"readout": "neighbor", "tokens": ("center",)}, "needs the neighbor token"),
        ({"pool": "mean"}, "did you mean 'pooling'"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        EdgeformerNConfig.from_dict({"num_nodes": 7, **settings})
