"""Both models against the paper's equations written out, edge by edge and head by head."""

import math
import random

import pytest
import torch

from edgeformers.models.edgeformer_e import EdgeformerE, EdgeformerEConfig
from edgeformers.models.edgeformer_n import EdgeformerN, EdgeformerNConfig
from edgeformers.nn.encoder import EncoderConfig, TextEncoder

NODES, VOCAB = 9, 23
close = {"atol": 1e-5, "rtol": 1e-5}


def normalize(rows, norm):
    if isinstance(norm, torch.nn.Identity):
        return rows
    centered = rows - rows.mean(-1, keepdim=True)
    scaled = centered / (centered.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()
    return scaled * norm.weight + (0 if norm.bias is None else norm.bias)


def linear(rows, layer, part=slice(None)):
    bias = 0 if layer.bias is None else layer.bias[part]
    return rows @ layer.weight[part].T + bias


def gelu(x):
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def rotate(row, position, theta):
    """One head of one row; the i-th of its first half pairs with the i-th of its second."""
    half = len(row) // 2
    turned = row.clone()
    for i in range(half):
        angle = position * theta ** (-2 * i / len(row))
        a, b = row[i].item(), row[half + i].item()
        turned[i] = a * math.cos(angle) - b * math.sin(angle)
        turned[half + i] = b * math.cos(angle) + a * math.sin(angle)
    return turned


def mha(queries, context, q_map, k_map, v_map, heads, places=None, theta=None, window=None):
    """Concatenated heads; `places` are (of queries, of context) positions, None for virtual."""
    q, k, v = q_map(queries), k_map(context), v_map(context)
    size = q.shape[1] // heads
    q_places, k_places = places or ([None] * len(q), [None] * len(k))
    out = torch.zeros_like(q)
    for head in range(heads):
        cut = slice(head * size, (head + 1) * size)
        for i, q_place in enumerate(q_places):
            scores = []
            for j, k_place in enumerate(k_places):
                a, b = q[i, cut], k[j, cut]
                if theta is not None:
                    a, b = rotate(a, q_place or 0, theta), rotate(b, k_place or 0, theta)
                far = window is not None and k_place is not None
                hidden = far and abs((q_place or 0) - k_place) > window
                scores.append(-math.inf if hidden else (a @ b).item() / math.sqrt(size))
            alpha = torch.tensor(scores).softmax(0)
            out[i, cut] = alpha @ v[:, cut]
    return out


def layer_reference(encoder, index, hidden, virtual, queries=None):
    """H^(l+1) from H^(l) and the virtual tokens; of other rows when `queries` are given."""
    layer, config = encoder.layers[index], encoder.config
    pre = config.norm_place == "pre"
    before = layer.attention_norm if pre else torch.nn.Identity()
    rows = hidden if queries is None else queries
    context = torch.cat([virtual, normalize(hidden, before)])
    text_places = list(range(len(hidden)))
    places = (text_places if queries is None else [0], [None] * len(virtual) + text_places)
    attention, width = layer.attention, config.width
    mixed = mha(
        normalize(rows, before),
        context,
        lambda x: linear(x, attention.query),
        lambda x: linear(x, attention.key_value, slice(width)),
        lambda x: linear(x, attention.key_value, slice(width, None)),
        config.heads,
        places,
        config.theta(index),
        config.window(index),
    )
    summed = rows + linear(mixed, attention.out)
    if not pre:
        middle = normalize(summed, layer.attention_norm)
        return normalize(middle + feed_forward(layer.ffn, middle), layer.ffn_norm)
    return summed + feed_forward(layer.ffn, normalize(summed, layer.ffn_norm))


def feed_forward(ffn, rows):
    up = linear(rows, ffn.up)
    if ffn.gated:
        inner, gate = up[:, : up.shape[1] // 2], up[:, up.shape[1] // 2 :]
        return linear(gelu(inner) * gate, ffn.down)
    return linear(gelu(up), ffn.down)


def embed(encoder, tokens):
    parts = encoder.embeddings
    rows = parts.tokens.weight[tokens]
    if parts.positions is not None:
        rows = rows + parts.positions.weight[: len(tokens)]
    if parts.types is not None:
        rows = rows + parts.types.weight[0]
    return normalize(rows, parts.norm)


def edge_reference(model, tokens, src, dst):
    """Algorithm 1."""
    encoder, table = model.encoder, model.nodes.table
    hidden = embed(encoder, tokens)
    for index in range(len(encoder.layers)):
        virtual = hidden[:0]
        if index > 0:
            w_n = model.projections[index - 1].maps[0].weight
            virtual = torch.stack([w_n @ table[src], w_n @ table[dst]])
        hidden = layer_reference(encoder, index, hidden, virtual)
    return normalize(hidden, encoder.final_norm)[0]


def node_reference(model, center, edges):
    """Algorithm 2, for edges given as (tokens, neighbor)."""
    encoder, table = model.encoder, model.nodes.table
    if not edges:
        return model.projections[-1].maps[0].weight @ table[center]
    states = [embed(encoder, tokens) for tokens, _ in edges]
    last = len(encoder.layers) - 1
    for index in range(len(encoder.layers)):
        virtual = [state[:0] for state in states]
        if index > 0:
            w_n = model.projections[index - 1].maps[0].weight
            heard = local_reference(model.local_attention[index - 1], states)
            ends = [(w_n @ table[center], w_n @ table[neighbor]) for _, neighbor in edges]
            virtual = [torch.stack([*two, h]) for two, h in zip(ends, heard, strict=True)]
        rows = [None] * len(edges)
        if index == last:
            at_neighbor = model.config.readout == "neighbor"
            pairs = zip(virtual, states, strict=True)
            rows = [v[1:2] if at_neighbor else state[:1] for v, state in pairs]
        states = [
            layer_reference(encoder, index, *three)
            for three in zip(states, virtual, rows, strict=True)
        ]
    h = torch.cat(states)
    w_s = model.pool.score.weight
    alpha = (h @ (w_s @ table[center])).softmax(0)
    return alpha @ h


def local_reference(local, states):
    cls = torch.stack([state[0] for state in states])
    width = cls.shape[1]
    cuts = [slice(0, width), slice(width, 2 * width), slice(2 * width, None)]
    maps = [lambda x, cut=cut: linear(x, local.query_key_value, cut) for cut in cuts]
    return mha(cls, cls, *maps, local.heads)


def shaken(model, seed):
    """All numbers at a size at which every term of every equation is felt."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def bert_shape(rng):
    heads = rng.choice([1, 2, 3])
    width = heads * rng.choice([2, 4])
    return EncoderConfig(
        vocab_size=VOCAB,
        width=width,
        heads=heads,
        layers=rng.choice([2, 3]),
        ffn_width=rng.choice([5, 8]),
        max_positions=10,
    )


def modernbert_shape(rng):
    return EncoderConfig(
        family="modernbert",
        vocab_size=VOCAB,
        width=8,
        heads=2,
        layers=3,
        ffn_width=6,
        max_positions=10,
        position_kind="rotary",
        type_vocab=0,
        norm_place="pre",
        norm_eps=1e-5,
        norm_bias=False,
        gated=True,
        attention_bias=False,
        ffn_bias=False,
        windows=(None, rng.choice([1, 2]), None),
        rotary_theta=50.0,
        window_rotary_theta=10.0,
    )


def random_texts(rng, count):
    return [[rng.randrange(VOCAB) for _ in range(rng.randint(1, 6))] for _ in range(count)]


def padded(texts):
    width = max(map(len, texts))
    ids = torch.tensor([text + [0] * (width - len(text)) for text in texts])
    return ids, torch.tensor([[i < len(text) for i in range(width)] for text in texts])


@pytest.mark.parametrize("shape", [bert_shape, modernbert_shape])
@pytest.mark.parametrize("seed", [0, 1, 2])
@torch.no_grad()
def test_edgeformer_e_is_algorithm_1(seed, shape):
    rng = random.Random(seed)
    config = EdgeformerEConfig(num_nodes=NODES, node_width=rng.choice([3, 5]))
    model = shaken(EdgeformerE(config, TextEncoder(shape(rng))), seed)
    texts = random_texts(rng, 5)
    src, dst = ([rng.randrange(-1, NODES) for _ in texts] for _ in range(2))
    got = model.encode_edges(*padded(texts), torch.tensor(src), torch.tensor(dst))
    ends = zip(texts, src, dst, strict=True)
    expected = torch.stack([edge_reference(model, *edge) for edge in ends])
    torch.testing.assert_close(got, expected, **close)


@pytest.mark.parametrize("readout", ["cls", "neighbor"])
@pytest.mark.parametrize("seed", [0, 1, 2])
@torch.no_grad()
def test_edgeformer_n_is_algorithm_2(seed, readout):
    rng = random.Random(seed)
    config = EdgeformerNConfig(num_nodes=NODES, node_width=rng.choice([3, 5]), readout=readout)
    model = shaken(EdgeformerN(config, TextEncoder(bert_shape(rng))), seed)
    slots, sizes = 4, [2, 0, 1, 4]
    real = torch.arange(slots) < torch.tensor(sizes)[:, None]
    centers = torch.tensor([rng.randrange(-1, NODES) for _ in sizes])
    neighbors = torch.tensor([[rng.randrange(-1, NODES) for _ in range(slots)] for _ in sizes])
    texts = random_texts(rng, slots * len(sizes))
    ids, mask = (part.unflatten(0, (len(sizes), slots)) for part in padded(texts))
    got = model.encode_nodes(centers, ids, mask, neighbors, real)
    for row, size in enumerate(sizes):
        own = texts[row * slots : row * slots + size]
        edges = list(zip(own, neighbors[row, :size].tolist(), strict=True))
        expected = node_reference(model, int(centers[row]), edges)
        torch.testing.assert_close(got[row], expected, **close)
