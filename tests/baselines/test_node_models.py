import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgeformers.baselines.graph.sage import MaxSAGEWithTexts, MeanSAGEWithTexts
from edgeformers.models.base import ModelConfig
from edgeformers.nn.no_text import NoText
from edgeformers.nn.packed import PackedText
from edgeformers.registry import find_entry
from tests.baselines.stars import CENTERS, COUNTS, NEIGHBORS, TEXTS, Given, make_batch
from tests.tiny_models import make_tiny

NODES_ALONE = ["mean-sage", "max-sage", "gin"]
BAGS = ["mean-sage-words", "max-sage-words", "gin-words", "censnet", "nenn"]
OVER_BERT = ["bert-mean-sage", "bert-max-sage-n", "bert-gin", "bert-censnet", "bert-nenn"]
WITH_TEXTS = [*BAGS, *OVER_BERT, "bert-n"]
EVERY = [*NODES_ALONE, *WITH_TEXTS]
close = {"atol": 1e-10, "rtol": 1e-10}


def make(name, **settings):
    """A tiny model in double precision, the unknown node's vector drawn as well."""
    model = make_tiny(name, **settings).double()
    nn.init.normal_(model.nodes.table[-1:], generator=torch.Generator().manual_seed(2))
    return model


def stars(model):
    """Each center of the batch with its neighbors [n, K] and the texts of its edges [n, D]."""
    edges = iter(zip(NEIGHBORS, TEXTS, strict=True))
    for center, count in zip(CENTERS, COUNTS, strict=True):
        mine = [next(edges) for _ in range(count)]
        z = model.nodes.table[[node for node, _ in mine]]
        read = [] if isinstance(model.encoder, NoText) else [text for _, text in mine]
        texts = [model.encoder.encode(PackedText.from_lists([text]))[0] for text in read]
        h = torch.stack(texts) if texts else z.new_zeros(0, model.width)
        yield model.nodes.table[center], z, h


def mean_of_nodes(model, z_v, z, h):
    heard = z.mean(0) if len(z) else torch.zeros_like(z_v)
    return model.update(torch.cat([z_v, heard]))


def max_of_nodes(model, z_v, z, h):
    heard = [F.relu(model.message(u)) for u in z]
    heard = torch.stack(heard).amax(0) if heard else z_v.new_zeros(model.width)
    return model.update(torch.cat([z_v, heard]))


def sum_of_nodes(model, z_v, z, h):
    return model.mlp((1 + model.eps) * z_v + sum(z, torch.zeros_like(z_v)))


def sage(model, z_v, z, h, largest):
    messages = [F.relu(model.message(torch.cat(pair))) for pair in zip(z, h, strict=True)]
    heard = z_v.new_zeros(model.width)
    if messages:
        stacked = torch.stack(messages)
        heard = stacked.amax(0) if largest else stacked.mean(0)
    return model.update(torch.cat([z_v, heard]))


def gin(model, z_v, z, h):
    total = (1 + model.eps) * model.project(z_v)
    for neighbor, edge in zip(z, h, strict=True):
        total = total + F.relu(model.project(neighbor) + edge)
    return model.mlp(total)


def normalized(meeting):
    """D^-1/2 (A + I) D^-1/2, where A says who is met by which other."""
    full = meeting.bool().double().fill_diagonal_(1)
    root = full.sum(1).rsqrt()
    return root[:, None] * full * root


def censnet(model, z_v, z, h):
    """The equations of the paper over dense matrices of the star; a self-loop weighs 1."""
    nodes, edges, n = torch.cat([z_v[None], z]), h, len(z)
    ends = torch.zeros(n + 1, n).double()  # T
    ends[0], ends[1:] = 1, torch.eye(n)
    of_nodes = normalized(ends @ ends.T)
    of_edges = normalized(ends.T @ ends)

    def weigh(weights, between):
        switched = between @ torch.diag(weights.flatten()) @ between.T
        loops = torch.eye(len(switched)).double()
        return loops + (1 - loops) * switched

    mixed = (weigh(model.first_weight(edges), ends) * of_nodes) @ nodes
    nodes = F.relu(model.first_nodes(mixed))
    edges = F.relu(model.edges((weigh(model.node_weight(nodes), ends.T) * of_edges) @ edges))
    mixed = (weigh(model.last_weight(edges), ends) * of_nodes) @ nodes
    return model.last_nodes(mixed)[0]


def attended(attention, asking, rows):
    """One row that hears some, by the equation: softmax(LeakyReLU(a [q ; k])) k."""
    a = torch.cat([attention.query.weight, attention.key.weight], dim=1)[0]
    scores = [F.leaky_relu(a @ torch.cat([asking, row]), 0.2) for row in rows]
    if not scores:
        return torch.zeros_like(asking)
    return sum(w * row for w, row in zip(torch.stack(scores).softmax(0), rows, strict=True))


def dual(layer, asking, nodes, edges):
    heard = [attended(layer.to_nodes, asking, nodes), attended(layer.to_edges, asking, edges)]
    return F.elu(torch.cat(heard))


def nenn(model, z_v, z, h):
    layer = model.first
    v, us, es = layer.node_map(z_v), [layer.node_map(u) for u in z], [layer.edge_map(e) for e in h]
    next_v = dual(layer, v, [v, *us], es)
    next_us = [dual(layer, u, [u, v], [e]) for u, e in zip(us, es, strict=True)]

    layer = model.middle
    v, us = layer.node_map(next_v), [layer.node_map(u) for u in next_us]
    es = [layer.edge_map(e) for e in h]
    next_es = [dual(layer, e, [v, u], es) for u, e in zip(us, es, strict=True)]

    layer = model.last
    v, us = layer.node_map(next_v), [layer.node_map(u) for u in next_us]
    return model.out(dual(layer, v, [v, *us], [layer.edge_map(e) for e in next_es]))


def text_alone(model, z_v, z, h):
    return h.mean(0) if len(h) else torch.zeros(model.width).double()


REFERENCES = {
    "mean-sage": mean_of_nodes,
    "max-sage": max_of_nodes,
    "gin": sum_of_nodes,
    "mean-sage-words": lambda *star: sage(*star, largest=False),
    "max-sage-words": lambda *star: sage(*star, largest=True),
    "gin-words": gin,
    "censnet": censnet,
    "nenn": nenn,
    "n": text_alone,
}


@torch.no_grad()
@pytest.mark.parametrize("name", EVERY)
def test_agrees_with_loops_over_centers(name):
    model = make(name)
    plain = name
    if name in OVER_BERT or name == "bert-n":
        plain = name.removeprefix("bert-").removesuffix("-n")
        plain = {f: f"{f}-words" for f in NODES_ALONE}.get(plain, plain)
    expected = [REFERENCES[plain](model, *star) for star in stars(model)]
    torch.testing.assert_close(model(make_batch()), torch.stack(expected), **close)


@torch.no_grad()
@pytest.mark.parametrize("name", [*BAGS[:2], *OVER_BERT[:2]])
def test_sage_with_texts_agrees_with_torch_geometric(name):
    conv = pytest.importorskip("torch_geometric.nn").SAGEConv
    model, batch = make(name), make_batch()
    z, h = model.nodes(batch.neighbor), model.encoder.encode(batch.text)
    width, aggregate = model.width, "max" if "max" in name else "mean"
    theirs = conv((width, 6), width, aggr=aggregate, project=True).double()
    theirs.lin = model.message
    theirs.lin_r.weight.copy_(model.update.weight[:, :6])
    theirs.lin_l.weight.copy_(model.update.weight[:, 6:])
    theirs.lin_l.bias.copy_(model.update.bias)
    sources = torch.cat([z, h], dim=1)
    index = torch.stack([torch.arange(len(z)), batch.owner])
    expected = theirs((sources, model.nodes(batch.center)), index, size=(len(z), 4))
    torch.testing.assert_close(model(batch), expected, **close)


@torch.no_grad()
@pytest.mark.parametrize("name", ["gin-words", "bert-gin"])
def test_gine_agrees_with_torch_geometric(name):
    conv = pytest.importorskip("torch_geometric.nn").GINEConv
    model, batch = make(name), make_batch()
    model.eps.fill_(0.5)
    nodes = [model.project(model.nodes(part)) for part in (batch.neighbor, batch.center)]
    theirs = conv(model.mlp, eps=0.5).double()
    index = torch.stack([torch.arange(6), batch.owner])
    expected = theirs(tuple(nodes), index, model.encoder.encode(batch.text), size=(6, 4))
    torch.testing.assert_close(model(batch), expected, **close)


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "expected"), [(MeanSAGEWithTexts, [13.5, 12.0]), (MaxSAGEWithTexts, [14.0, 14.0])]
)
def test_a_node_of_two_edges_by_hand(kind, expected):
    model = kind(ModelConfig(num_nodes=3, node_width=1), Given([[1.0, -3.0], [5.0, 4.0]]))
    model.nodes.set_table(torch.tensor([[10.0], [2.0], [-1.0]]))
    model.message.weight.copy_(torch.tensor([[1.0, 1, 0], [0, 0, 1]]))  # ReLU: [3, 0] and [4, 4]
    model.update.weight.copy_(torch.tensor([[1.0, 1, 0], [1, 0, 1]]))
    nn.init.zeros_(model.message.bias)
    nn.init.zeros_(model.update.bias)
    batch = make_batch(center=(0,), counts=(2,), neighbor=(1, 2), texts=TEXTS[:2])
    assert model(batch).tolist() == [expected]


@torch.no_grad()
@pytest.mark.parametrize("name", [*NODES_ALONE, *BAGS, *OVER_BERT])
def test_a_center_without_edges_depends_only_on_its_own_vector(name):
    model = make(name)
    among = model(make_batch())[1]
    alone = model(make_batch(center=(1, 2), counts=(0, 0), neighbor=(), texts=[]))
    torch.testing.assert_close(alone[0], among, **close)
    assert not torch.allclose(alone[0], alone[1], atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", EVERY)
def test_order_of_edges_is_irrelevant(name):
    model = make(name)
    order = [2, 0, 1, 3, 5, 4]
    changed = make_batch(neighbor=[NEIGHBORS[i] for i in order], texts=[TEXTS[i] for i in order])
    torch.testing.assert_close(model(changed), model(make_batch()), **close)


@torch.no_grad()
@pytest.mark.parametrize("name", [*NODES_ALONE, *BAGS, *OVER_BERT])
def test_unseen_centers_and_neighbors_are_read_as_the_unknown_node(name):
    model = make(name)
    known = model(make_batch())
    unknown = model(make_batch(center=(-1, 1, 2, -1), neighbor=(3, 4, 4, -1, 5, -1)))
    changed = (known - unknown).abs().amax(1) > 1e-6
    assert changed.tolist() == [True, False, True, False]
    model.nodes.mark_seen(torch.tensor([False, True, True, True, True, True, False]))
    torch.testing.assert_close(model(make_batch()), unknown, **close)


@torch.no_grad()
@pytest.mark.parametrize("name", NODES_ALONE)
def test_node_centric_models_ignore_all_texts(name):
    model = make(name)
    others = make_batch(texts=[[2, 20 + i, 3] for i in range(len(TEXTS))])
    assert torch.equal(model(others), model(make_batch()))
    assert not list(model.encoder.parameters())


@torch.no_grad()
@pytest.mark.parametrize("name", WITH_TEXTS)
def test_an_edge_text_affects_only_its_center(name):
    model = make(name)
    before = model(make_batch())
    after = model(make_batch(texts=[TEXTS[0], [2, 11, 12, 3], *TEXTS[2:]]))
    assert ((after - before).abs().amax(1) > 1e-9).tolist() == [True, False, False, False]


@torch.no_grad()
def test_bert_for_nodes_ignores_node_vectors_and_is_zero_without_edges():
    model = make("bert-n")
    others = make_batch(center=(5, 5, 5, 5), neighbor=(1, 1, 1, 1, 1, 1))
    torch.testing.assert_close(model(others), model(make_batch()), **close)
    assert not model(make_batch())[1].any()
    assert not any(part.requires_grad for part in model.nodes.parameters())


@pytest.mark.parametrize("name", EVERY)
def test_gradients_agree_with_finite_differences(name):
    model, batch = make(name), make_batch()
    learned = {key: part for key, part in model.named_parameters() if part.requires_grad}
    sizes = [part.numel() for part in learned.values()]

    def encode(numbers):
        parts = zip(learned.items(), numbers.split(sizes), strict=True)
        given = {key: part.view_as(value) for (key, value), part in parts}
        return torch.func.functional_call(model, given, (batch,))

    numbers = nn.utils.parameters_to_vector(learned.values()).detach().requires_grad_()
    assert torch.autograd.gradcheck(encode, numbers, fast_mode=True)


@torch.no_grad()
@pytest.mark.parametrize("name", EVERY)
def test_half_precision_stays_close(name):
    model = make(name).float()
    exact = model(make_batch())
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(make_batch())
    assert rough.shape == exact.shape
    assert (rough.float() - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize("name", EVERY)
def test_registry_entries_match_their_text_encoder(name):
    entry = find_entry(name)
    assert entry.encodes == "nodes"
    assert (entry.text == "bag-of-words") == (name in BAGS)
    assert (entry.text == "none") == (name in NODES_ALONE)
    is_vanilla = name in [*NODES_ALONE, *BAGS]
    assert (entry.settings.get("model.node_init") == "netmf") == is_vanilla
