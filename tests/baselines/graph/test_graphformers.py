import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from edgeformers.baselines.graph.graphformers import GraphFormersConfig, join_ego_texts
from edgeformers.errors import ConfigError
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged
from tests.baselines.stars import COUNTS, NEIGHBORS, TEXTS, make_batch
from tests.tiny_models import make_tiny

close = {"atol": 1e-10, "rtol": 1e-10}


def make(**settings):
    return make_tiny("graphformers-n", **settings).double()


def as_lists(text):
    ids, at = text.token_ids.tolist(), text.offsets.tolist()
    return [ids[at[i] : at[i + 1]] for i in range(text.num_texts)]


def exchanged(attention, states):
    """Multi-head attention of all rows to all rows, without an output map."""
    q, k, v = attention.query_key_value(states).chunk(3, dim=1)
    out = torch.empty_like(states)
    for head in torch.arange(states.size(1)).chunk(attention.heads):
        scores = q[:, head] @ k[:, head].T / len(head) ** 0.5
        out[:, head] = scores.softmax(1) @ v[:, head]
    return out


def reference(model, texts, limit):
    """One node: its joined text and its texts, each through the layers by itself."""
    ordered = sorted(texts)
    joined = ordered[0][:1] + [token for text in ordered for token in text[1:]]
    packed = [PackedText.from_lists([text]) for text in (joined[:limit], *texts)]
    hidden = [model.encoder.embed(text) for text in packed]
    for index, layer in enumerate(model.encoder.layers):
        virtual = [None] * len(packed)
        if index:
            heard = exchanged(model.exchange[index - 1], torch.stack([h[0] for h in hidden]))
            virtual = [row.view(1, 1, -1) for row in heard]
        hidden = [layer(*parts) for parts in zip(hidden, packed, virtual, strict=True)]
    return hidden[0][0]


@torch.no_grad()
@pytest.mark.parametrize("limit", [256, 5, 1])
def test_agrees_with_loops_over_nodes_and_texts(limit):
    model = make(joined_tokens=limit)
    out, texts = model(make_batch()), iter(TEXTS)
    for row, count in zip(out, COUNTS, strict=True):
        mine = [next(texts) for _ in range(count)]
        expected = reference(model, mine, min(limit, 12)) if mine else torch.zeros(16).double()
        torch.testing.assert_close(row, expected, **close)


def test_texts_are_joined_in_a_fixed_order_after_one_cls():
    batch = make_batch(center=(0, 1), counts=(2, 1), neighbor=(3, 4, 5), texts=TEXTS[2:5])
    joined = join_ego_texts(batch.text, batch.egos, 8)
    assert as_lists(joined) == [[2, 7, 3, 9, 9, 9, 9, 3], TEXTS[4]]
    assert as_lists(join_ego_texts(batch.text, batch.egos, 4)) == [[2, 7, 3, 9], TEXTS[4]]


texts_of_egos = st.lists(
    st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=6), min_size=1, max_size=4),
    max_size=4,
)


@given(egos=texts_of_egos, limit=st.integers(1, 20), random=st.randoms())
def test_joined_texts_keep_the_limit_and_do_not_depend_on_order(egos, limit, random):
    def join(egos):
        texts = [text for ego in egos for text in ego]
        offsets = torch.tensor([0, *map(len, egos)]).cumsum(0)
        groups = Ragged.from_offsets(offsets.numpy())
        return as_lists(join_ego_texts(PackedText.from_lists(texts), groups, limit))

    joined = join(egos)
    sizes = [min(limit, 1 + sum(len(text) - 1 for text in ego)) for ego in egos]
    assert [len(text) for text in joined] == sizes
    assert join([random.sample(ego, len(ego)) for ego in egos]) == joined


@torch.no_grad()
def test_order_of_edges_is_irrelevant():
    model, order = make(joined_tokens=5), [2, 0, 1, 3, 5, 4]
    changed = make_batch(texts=[TEXTS[i] for i in order])
    torch.testing.assert_close(model(changed), model(make_batch()), **close)


@torch.no_grad()
def test_a_text_truncated_from_the_joined_text_still_counts_as_a_neighbor():
    model = make(joined_tokens=4)
    changed = [*TEXTS[:2], [2, 9, 9, 9, 8, 3], *TEXTS[3:]]  # after [2, 5, 6, 3] in its node
    egos = make_batch().egos
    before, after = (join_ego_texts(make_batch(texts=t).text, egos, 4) for t in (TEXTS, changed))
    assert as_lists(before)[0] == as_lists(after)[0] == [2, 5, 6, 3]
    difference = model(make_batch(texts=changed)) - model(make_batch())
    assert (difference.abs().amax(1) > 1e-9).tolist() == [True, False, False, False]


@torch.no_grad()
def test_a_node_without_edges_is_zero_and_node_vectors_are_unused():
    model = make()
    out = model(make_batch())
    assert not out[1].any()
    nn.init.normal_(model.nodes.table)
    others = make_batch(center=(6, 6, 6, 6), neighbor=NEIGHBORS[::-1])
    torch.testing.assert_close(model(others), out, **close)
    nobody = model(make_batch(center=(1, 2), counts=(0, 0), neighbor=(), texts=[]))
    assert nobody.tolist() == torch.zeros(2, 16).tolist()


@torch.no_grad()
def test_half_precision_stays_close():
    model = make().float()
    exact = model(make_batch())
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(make_batch())
    assert (rough.float() - exact).norm() < 0.05 * exact.norm()


def test_joined_tokens_must_be_positive():
    with pytest.raises(ConfigError, match=r"joined_tokens must be at least 1 \(got 0\)"):
        GraphFormersConfig(num_nodes=3, joined_tokens=0)
