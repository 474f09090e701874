import torch
from torch import nn

from edgeformers.nn.packed import PackedText
from tests.baselines.stars import COUNTS, NEIGHBORS, TEXTS, make_batch
from tests.tiny_models import make_tiny

close = {"atol": 1e-10, "rtol": 1e-10}


def make(**settings):
    return make_tiny("graphformers-n", **settings).double()


def exchanged(attention, states):
    """Multi-head attention of all rows to all rows, without an output map."""
    q, k, v = attention.query_key_value(states).chunk(3, dim=1)
    out = torch.empty_like(states)
    for head in torch.arange(states.size(1)).chunk(attention.heads):
        scores = q[:, head] @ k[:, head].T / len(head) ** 0.5
        out[:, head] = scores.softmax(1) @ v[:, head]
    return out


def reference(model, texts):
    """One node: each of its texts through the layers by itself, and the mean of all [CLS]."""
    packed = [PackedText.from_lists([text]) for text in texts]
    hidden = [model.encoder.embed(text) for text in packed]
    for index, layer in enumerate(model.encoder.layers):
        virtual = [None] * len(packed)
        if index:
            heard = exchanged(model.exchange[index - 1], torch.stack([h[0] for h in hidden]))
            virtual = [row.view(1, 1, -1) for row in heard]
        hidden = [layer(*parts) for parts in zip(hidden, packed, virtual, strict=True)]
    return torch.stack([h[0] for h in hidden]).mean(0)


@torch.no_grad()
def test_agrees_with_loops_over_nodes_and_texts():
    model = make()
    out, texts = model(make_batch()), iter(TEXTS)
    for row, count in zip(out, COUNTS, strict=True):
        mine = [next(texts) for _ in range(count)]
        expected = reference(model, mine) if mine else torch.zeros(16).double()
        torch.testing.assert_close(row, expected, **close)


@torch.no_grad()
def test_reads_the_tokens_of_the_edge_texts_and_no_others():
    """Its cost is that of BERT+GIN (Table 5)."""
    model, rows = make(), []
    for layer in model.encoder.layers[:-1]:
        layer.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    batch = make_batch()
    model(batch)
    assert rows == [batch.text.num_tokens] * (len(model.encoder.layers) - 1)


@torch.no_grad()
def test_order_of_edges_is_irrelevant():
    model, order = make(), [2, 0, 1, 3, 5, 4]
    changed = make_batch(texts=[TEXTS[i] for i in order])
    torch.testing.assert_close(model(changed), model(make_batch()), **close)


@torch.no_grad()
def test_a_text_changes_its_own_node_by_way_of_the_others():
    model, encoded = make(), []
    model.encoder.final_norm.register_forward_hook(lambda *_: encoded.append(_[-1]))
    changed = [*TEXTS[:2], [2, 9, 9, 9, 8, 3], *TEXTS[3:]]
    difference = model(make_batch(texts=changed)) - model(make_batch())
    assert (difference.abs().amax(1) > 1e-9).tolist() == [True, False, False, False]
    texts = (encoded[0] - encoded[1]).abs().amax(1) > 1e-9
    assert texts.tolist() == [True, True, True, False, False, False]


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
