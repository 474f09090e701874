"""The edge models of the comparison against loops and dense matrices, one edge at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgeformers.baselines.graph.ehgnn import DualConvolution
from edgeformers.baselines.text.bert import add_node_tokens
from edgeformers.data.batch import EdgeBatch, EdgeContextBatch, EgoBatch, make_node_texts
from edgeformers.nn.backbones import random_backbone
from edgeformers.nn.packed import PackedText
from edgeformers.registry import make_model
from tests.tiny_models import TINY_ENCODER, make_tiny

close = {"atol": 1e-10, "rtol": 1e-10}
# (source, target, text), edges around the source, edges around the target: (neighbor, text).
# In turn: two around each; a neighbor met twice; none at the source; none at all, a new source.
EXAMPLES = [
    ((0, 4, [2, 5, 6, 3]), [(5, [2, 9, 3]), (6, [2, 8, 8, 3])], [(1, [2, 3]), (2, [2, 7, 5, 3])]),
    ((1, 4, [2, 3]), [(5, [2, 6, 3]), (5, [2, 6, 3])], [(0, [2, 5, 6, 3])]),
    ((2, 6, [2, 9, 9, 9, 4, 3]), [], [(3, [2, 11, 3]), (-1, [2, 12, 13, 3]), (1, [2, 3])]),
    ((-1, 5, [2, 20, 3]), [], []),
]


def make(name, seed=0):
    """A tiny model in double precision, the unknown node's vector drawn as well."""
    model = make_tiny(name, seed=seed).double()
    nn.init.normal_(model.nodes.table[-1:], generator=torch.Generator().manual_seed(2))
    return model


def edges_of(examples):
    return EdgeBatch(
        text=PackedText.from_lists(text for (_, _, text), _, _ in examples),
        src=torch.tensor([src for (src, _, _), _, _ in examples]),
        dst=torch.tensor([dst for (_, dst, _), _, _ in examples]),
    )


def egos_of(centers, around):
    flat = [edge for edges in around for edge in edges]
    return EgoBatch.from_counts(
        text=PackedText.from_lists(text for _, text in flat),
        center=centers,
        counts=torch.tensor([len(edges) for edges in around]),
        neighbor=torch.tensor([node for node, _ in flat], dtype=torch.long),
    )


def context_of(examples, limit=TINY_ENCODER.max_positions):
    edge = edges_of(examples)
    source = egos_of(edge.src, [source for _, source, _ in examples])
    target = egos_of(edge.dst, [target for _, _, target in examples])
    texts = make_node_texts(edge, source, target, limit=limit)
    return EdgeContextBatch(edge=edge, source=source, target=target, node_texts=texts)


def read(model, text):
    return model.encoder.encode(PackedText.from_lists([text]))[0]


def dense_layer(layer, rows, context):
    """A BERT layer whose rows [n, D] ask and whose context [m, D] answers, head by head."""
    attention, dim = layer.attention, rows.size(1) // layer.attention.heads
    keys, values = attention.key_value(context).chunk(2, dim=1)
    heads = []
    for q, k, v in zip(
        attention.query(rows).split(dim, 1), keys.split(dim, 1), values.split(dim, 1), strict=True
    ):
        heads.append((q @ k.T / dim**0.5).softmax(1) @ v)
    rows = layer.attention_norm(rows + attention.out(torch.cat(heads, dim=1)))
    return layer.ffn_norm(rows + layer.ffn.down(F.gelu(layer.ffn.up(rows))))


def embed(model, text):
    """Token, position and segment vectors of one text, normalized [L, D]."""
    parts, ids = model.encoder.embeddings, torch.tensor(text)
    rows = parts.tokens(ids) + parts.positions(torch.arange(len(text))) + parts.types.weight[0]
    return parts.norm(rows)


def bert(model, example):
    (_, _, text), _, _ = example
    rows = embed(model, text)
    for layer in model.encoder.layers:
        rows = dense_layer(layer, rows, rows)
    return rows[0]


def bert_nodes(model, example):
    (src, dst, text), _, _ = example
    nodes = model.nodes.table[[src, dst]] @ model.project.weight.T
    rows = torch.cat([nodes, embed(model, text)])
    for layer in model.encoder.layers:
        rows = dense_layer(layer, rows, rows)
    return rows[2]


def text_one_hots(model, example):
    (src, dst, _), _, _ = example
    z = model.nodes.table
    return bert(model, example) + model.source.weight @ z[src] + model.target.weight @ z[dst]


def sampled(model, example):
    """What was sampled around an edge: texts h [E, D], and which node is on which M [N, E]."""
    (_, _, text), source, target = example
    others = [*source, *target]
    h = torch.stack([read(model, text), *(read(model, other) for _, other in others)])
    incidence = torch.zeros(2 + len(others), len(h)).double()
    incidence[0, : 1 + len(source)] = 1
    incidence[1, 0] = 1
    incidence[1, 1 + len(source) :] = 1
    for place in range(len(others)):
        incidence[2 + place, 1 + place] = 1
    return h, incidence


def ehgnn(model, example):
    h, m = sampled(model, example)
    mean = m / m.sum(1, keepdim=True)
    for number, one in enumerate(model.layers):
        heard = mean @ h @ one.message.weight.T
        h = h @ one.edge.weight.T + one.edge.bias + m.T @ heard / 2
        h = h if number else h.relu()
    return h[0]


def node_texts(model, example):
    """The texts around each end, joined, if there are any."""
    _, *around = example
    for edges in around:
        ordered = sorted(text for _, text in edges)
        if ordered:
            joined = [ordered[0][0], *(token for text in ordered for token in text[1:])]
            yield joined[: model.encoder.config.max_positions]


def max_sage(model, example):
    (_, _, text), *_ = example
    heard = [model.message(read(model, words)).relu() for words in node_texts(model, example)]
    largest = torch.stack(heard).amax(0) if heard else torch.zeros(model.width).double()
    return model.update(torch.cat([read(model, text), largest]))


def graphformers(model, example):
    (_, _, text), *_ = example
    texts = [embed(model, words) for words in (text, *node_texts(model, example))]
    dim = TINY_ENCODER.width // TINY_ENCODER.heads
    heard = [rows[:0] for rows in texts]  # before the first layer nothing
    for layer, exchange in zip(model.encoder.layers, [*model.exchange, None], strict=True):
        texts = [
            dense_layer(layer, rows, torch.cat([before, rows]))
            for rows, before in zip(texts, heard, strict=True)
        ]
        if exchange is None:
            break
        states = torch.stack([rows[0] for rows in texts])  # [CLS] of each
        q, k, v = exchange.query_key_value(states).chunk(3, dim=1)
        mixed = [
            (a @ b.T / dim**0.5).softmax(1) @ c
            for a, b, c in zip(*(x.split(dim, 1) for x in (q, k, v)), strict=True)
        ]
        heard = torch.cat(mixed, dim=1)[:, None].unbind(0)
    return texts[0][0]


ALONE = {"bert": bert, "bert-nodes": bert_nodes, "text-one-hots": text_one_hots}
AROUND = {
    "ehgnn": ehgnn,
    "bert-ehgnn": ehgnn,
    "bert-max-sage": max_sage,
    "graphformers": graphformers,
}


@pytest.mark.parametrize("name", [*ALONE, *AROUND])
@torch.no_grad()
def test_edge_models_follow_their_equations(name):
    model = make(name)
    batch = edges_of(EXAMPLES) if name in ALONE else context_of(EXAMPLES)
    expected = torch.stack([(ALONE | AROUND)[name](model, example) for example in EXAMPLES])
    torch.testing.assert_close(model(batch), expected, **close)


#: What may change an edge: its text, its ends, the texts around them, the nodes these lead to.
USED = {
    "bert": {"text"},
    "bert-nodes": {"text", "ends"},
    "text-one-hots": {"text", "ends"},
    "ehgnn": {"text", "texts around"},
    "bert-ehgnn": {"text", "texts around"},
    "bert-max-sage": {"text", "texts around"},
    "graphformers": {"text", "texts around"},
}
CHANGED = {
    "text": ((0, 4, [2, 6, 6, 3]), *EXAMPLES[0][1:]),
    "ends": ((3, 4, [2, 5, 6, 3]), *EXAMPLES[0][1:]),
    "texts around": (EXAMPLES[0][0], [(5, [2, 9, 9, 3]), (6, [2, 8, 3])], EXAMPLES[0][2]),
    "nodes around": (EXAMPLES[0][0], [(3, [2, 9, 3]), (0, [2, 8, 8, 3])], EXAMPLES[0][2]),
}


@pytest.mark.parametrize("name", USED)
@torch.no_grad()
def test_a_model_uses_only_its_documented_inputs(name):
    model, as_batch = make(name), edges_of if name in ALONE else context_of
    before = model(as_batch(EXAMPLES[:1]))
    used = {
        what
        for what, example in CHANGED.items()
        if not torch.allclose(model(as_batch([example])), before, **close)
    }
    assert used == USED[name]


@torch.no_grad()
def test_added_node_vectors_equal_concatenated_one_hots():
    """A linear head over the model is one over [CLS ; one-hot of i ; one-hot of j]."""
    model, head = make("text-one-hots"), nn.Linear(TINY_ENCODER.width, 3).double()
    batch, z = edges_of(EXAMPLES), model.nodes.table
    one_hots = [F.one_hot(ends % len(z), len(z)).double() for ends in (batch.src, batch.dst)]
    features = torch.cat([model.encoder.encode(batch.text), *one_hots], dim=1)
    of_nodes = [head.weight @ role.weight @ z.T for role in (model.source, model.target)]
    weight = torch.cat([head.weight, *of_nodes], dim=1)
    torch.testing.assert_close(head(model(batch)), features @ weight.T + head.bias, **close)


def test_two_node_tokens_without_position_precede_every_text():
    rows = add_node_tokens(PackedText.from_lists([[7, 8, 9], [4]]))
    assert rows.offsets.tolist() == rows.host_offsets.tolist() == [0, 5, 8]
    assert rows.positions.tolist() == [0, 0, 0, 1, 2, 0, 0, 0]
    assert rows.max_length == 5


@pytest.mark.parametrize("name", ["bert-nodes", "graphformers"])
@torch.no_grad()
def test_rotary_positions_and_sliding_windows_do_not_depend_on_the_batch(name):
    """The shape of ModernBERT: norms before, rotary positions, a layer that sees one token far."""
    settings = {"norm_place": "pre", "position_kind": "rotary", "windows": (None, 1, None)}
    shape = {**vars(TINY_ENCODER), **settings, "type_vocab": 0}
    encoder = random_backbone(type(TINY_ENCODER)(**shape))
    encoder.initialize(0, std=0.2)
    model = make_model(name, {"num_nodes": 7, "node_width": 6}, encoder).double().eval()
    as_batch = edges_of if name in ALONE else context_of
    whole = model(as_batch(EXAMPLES))
    for row, example in enumerate(EXAMPLES):
        torch.testing.assert_close(model(as_batch([example]))[0], whole[row], **close)
    assert whole.isfinite().all()


@torch.no_grad()
def test_a_layer_on_the_dual_agrees_with_torch_geometric():
    hypergraph = pytest.importorskip("torch_geometric.nn").HypergraphConv
    one = DualConvolution(16).double()
    for part in (one.edge.weight, one.edge.bias):
        nn.init.zeros_(part)
    theirs = hypergraph(16, 16, bias=False).double()
    theirs.lin.weight.copy_(one.message.weight)
    generator = torch.Generator().manual_seed(0)
    ends = torch.tensor([[0, 1], [0, 2], [0, 3], [1, 2], [1, 4]])
    edges = torch.randn(5, 16, generator=generator).double()
    incidence = torch.stack([torch.arange(5).repeat_interleave(2), ends.flatten()])
    found = one(edges, ends, 5)
    torch.testing.assert_close(found, theirs(edges, incidence), **close)


@torch.no_grad()
def test_max_sage_over_node_texts_agrees_with_torch_geometric():
    conv = pytest.importorskip("torch_geometric.nn").SAGEConv
    model, batch = make("bert-max-sage"), context_of(EXAMPLES)
    theirs = conv((16, 16), 16, aggr="max", project=True).double()
    theirs.lin = model.message
    theirs.lin_r.weight.copy_(model.update.weight[:, :16])
    theirs.lin_l.weight.copy_(model.update.weight[:, 16:])
    theirs.lin_l.bias.copy_(model.update.bias)
    states = model.encoder.encode(batch.node_texts.text)
    between = torch.stack([torch.arange(len(states) - 4), batch.node_texts.owner[4:]])
    expected = theirs((states[4:], states[:4]), between, size=(len(states) - 4, 4))
    torch.testing.assert_close(model(batch), expected, **close)
