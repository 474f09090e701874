"""What every listed model must do, in every setting that matters."""

from dataclasses import replace

import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, models
from torch import nn

from edgeformers.data.batch import EdgeBatch, EdgeContextBatch, EgoBatch, make_node_texts
from edgeformers.data.node_index import NodeIndex
from edgeformers.inference.saved_model import (
    SavedModel,
    load_model,
    model_fingerprint,
    save_model,
)
from edgeformers.nn.packed import PackedText
from edgeformers.registry import MODELS
from tests.tiny_models import TINY_ENCODER, make_tiny

SHARED = [
    {},
    {"fidelity": "released"},
    {"feature_width": 3},
    {"edge_types": 3},
    {"direction": True},
    {"node_dropout": 0.3, "node_shrinkage": 4.0},
    {"fidelity": "released", "edge_types": 2, "direction": True},
]
#: Settings of the Edgeformers; what is not named here has a lookup of nodes to set, and no more.
PLAIN = [{}, {"feature_width": 3, "node_dropout": 0.3, "node_shrinkage": 4.0}]
SETTINGS = {
    "edgeformer-e": [
        *SHARED,
        {"tokens": ("source",)},
        {"tokens": ("target",)},
        {"tokens": ()},
        {"prior_classes": 3},
        {"prior_classes": 2, "tokens": ("target",)},
    ],
    "edgeformer-n": [
        *SHARED,
        {"readout": "neighbor"},
        {"fidelity": "released", "readout": "cls"},
        {"pooling": "mean"},
        {"pooling": "max"},
        {"fidelity": "released", "pooling": "mean"},
        {"tokens": ("neighbor", "local")},
        {"tokens": ("center", "local")},
        {"tokens": ("center", "neighbor")},
        {"tokens": ("local",)},
        {"tokens": ()},
        {"fidelity": "released", "tokens": ("center", "local")},
        {"direction": True, "tokens": ("neighbor",), "readout": "neighbor"},
    ],
}
ENTRANCES = {"encode_edges", "encode_nodes"}
CASES = [(name, settings) for name in MODELS for settings in SETTINGS.get(name, PLAIN)]
#: Models that take padded texts too; the others take batches alone.
PADDED = [case for case in CASES if vars(MODELS[case[0]].model).keys() & ENTRANCES]
EVERY = pytest.mark.parametrize(
    ("name", "settings"), CASES, ids=[f"{name}-{settings}" for name, settings in CASES]
)
LENGTHS = (5, 1, 9, 3, 9, 2, 12, 4)
NODES = (0, 1, 2, 3, 4, 5, 6, -1)
EGO_SIZES = (3, 0, 1, 4, 2, 1, 2, 3)
exact = {"atol": 1e-10, "rtol": 1e-10}  # models are made in double precision here


def make(name, settings, seed=0):
    """A tiny model, all of whose numbers, zeros included, are moved off their first values."""
    model = make_tiny(name, seed=seed, **settings).double()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.1 * noise)
    if settings.get("feature_width"):
        model.nodes.set_features(torch.randn(7, 3, generator=generator, dtype=torch.float64))
    if classes := settings.get("prior_classes"):
        model.prior.set_summaries(*torch.rand(2, 7, classes, classes + 1, generator=generator))
    return model


def draw(generator, low, high):
    return int(torch.randint(low, high, (), generator=generator))


def make_examples(name, settings, seed=0):
    """Eight edges, where wanted with those around them, or eight nodes with theirs, as values."""
    generator = torch.Generator().manual_seed(seed)
    kinds = settings.get("edge_types", 1)

    def edge(length):
        tokens = [draw(generator, 3, 30) for _ in range(length)]
        node = draw(generator, -1, 7)  # -1: a node the model has never met
        return tokens, node, draw(generator, 0, 2) == 1, draw(generator, 0, kinds)

    def edges(size):
        return [edge(LENGTHS[i % 8]) for i in range(size)]

    entry = MODELS[name]
    if entry.encodes == "nodes":
        return [(center, edges(size)) for center, size in zip(NODES, EGO_SIZES, strict=True)]
    found = [(node, *edge(size)) for node, size in zip(NODES, LENGTHS, strict=True)]
    if not entry.context:
        return found
    sizes = zip(EGO_SIZES, EGO_SIZES[::-1], strict=True)
    return [
        (*one, edges(source), edges(target))
        for one, (source, target) in zip(found, sizes, strict=True)
    ]


def make_batch(name, examples):
    entry = MODELS[name]
    if entry.encodes == "nodes":
        return make_egos(examples)
    edge = EdgeBatch(
        text=PackedText.from_lists(example[1] for example in examples),
        src=torch.tensor([example[0] for example in examples], dtype=torch.long),
        dst=torch.tensor([example[2] for example in examples], dtype=torch.long),
        edge_type=torch.tensor([example[4] for example in examples], dtype=torch.long),
    )
    if not entry.context:
        return edge
    source = make_egos([(example[0], example[5]) for example in examples])
    target = make_egos([(example[2], example[6]) for example in examples])
    texts = make_node_texts(edge, source, target, limit=TINY_ENCODER.max_positions)
    return EdgeContextBatch(edge=edge, source=source, target=target, node_texts=texts)


def make_egos(examples):
    edges = [edge for _, edges in examples for edge in edges]
    return EgoBatch.from_counts(
        text=PackedText.from_lists(tokens for tokens, *_ in edges),
        center=torch.tensor([center for center, _ in examples], dtype=torch.long),
        counts=torch.tensor([len(edges) for _, edges in examples], dtype=torch.long),
        neighbor=torch.tensor([node for _, node, *_ in edges], dtype=torch.long),
        is_out=torch.tensor([is_out for _, _, is_out, _ in edges], dtype=torch.bool),
        edge_type=torch.tensor([kind for *_, kind in edges], dtype=torch.long),
    )


def encode(model, name, examples):
    with torch.no_grad():
        return model(make_batch(name, examples))


def pad(rows, width, filling):
    return torch.tensor([[*row, *[filling] * (width - len(row))] for row in rows])


def padded_call(model, name, examples, width=12, slots=4):
    """The same examples through the padded entrance, which knows no types and directions."""
    if MODELS[name].encodes == "edges":
        texts = [tokens for _, tokens, *_ in examples]
        mask = pad([[True] * len(text) for text in texts], width, False)
        ends = [torch.tensor([example[i] for example in examples]) for i in (0, 2)]
        return model.encode_edges(pad(texts, width, 29), mask, *ends)
    token_ids = torch.full((len(examples), slots, width), 29)
    neighbor, real = torch.full((len(examples), slots), 5), torch.zeros(len(examples), slots)
    mask = torch.zeros(token_ids.shape, dtype=torch.bool)
    for row, (_, edges) in enumerate(examples):
        for slot, (tokens, node, *_) in enumerate(edges):
            token_ids[row, slot, : len(tokens)] = torch.tensor(tokens)
            mask[row, slot, : len(tokens)] = True
            neighbor[row, slot], real[row, slot] = node, 1
    center = torch.tensor([center for center, _ in examples])
    return model.encode_nodes(center, token_ids, mask, neighbor, real)


@EVERY
def test_gives_one_finite_row_per_example(name, settings):
    model, examples = make(name, settings), make_examples(name, settings)
    out = encode(model, name, examples)
    assert out.shape == (8, model.width) == (8, TINY_ENCODER.width)
    assert out.isfinite().all()
    assert len(out.unique(dim=0)) == 8


@EVERY
def test_takes_a_batch_of_one_and_of_none(name, settings):
    model, examples = make(name, settings), make_examples(name, settings)
    whole = encode(model, name, examples)
    for row in range(8):
        alone = encode(model, name, examples[row : row + 1])
        torch.testing.assert_close(alone, whole[row : row + 1], **exact)
    nothing = model.train()(make_batch(name, []))
    assert nothing.shape == (0, model.width)
    nothing.sum().backward()


@EVERY
def test_company_and_order_of_the_batch_change_nothing(name, settings):
    model, examples = make(name, settings), make_examples(name, settings)
    whole = encode(model, name, examples)
    order = [6, 1, 3, 0, 7, 2, 5, 4]
    shuffled = encode(model, name, [examples[i] for i in order])
    torch.testing.assert_close(shuffled, whole[order], **exact)
    some = encode(model, name, [examples[i] for i in (4, 1, 6)])
    torch.testing.assert_close(some, whole[[4, 1, 6]], **exact)


@EVERY
def test_sorting_by_length_and_order_of_neighbors_change_nothing(name, settings):
    model, examples = make(name, settings), make_examples(name, settings)
    whole = encode(model, name, examples)
    if MODELS[name].encodes == "edges":
        order = sorted(range(8), key=lambda i: len(examples[i][1]))
        changed = encode(model, name, [examples[i] for i in order])
        torch.testing.assert_close(changed, whole[order], **exact)
    for way in (lambda edges: sorted(edges, key=lambda edge: len(edge[0])), lambda e: e[::-1]):
        changed = [tuple(in_order(part, way) for part in example) for example in examples]
        torch.testing.assert_close(encode(model, name, changed), whole, **exact)


def in_order(part, way):
    """A part of an example, in another order where it is a list of edges."""
    is_edges = isinstance(part, list) and part and isinstance(part[0], tuple)
    return way(part) if is_edges else part


@pytest.mark.parametrize(("name", "settings"), PADDED, ids=[f"{name}-{s}" for name, s in PADDED])
def test_padding_cannot_be_seen(name, settings):
    model, examples = make(name, settings), make_examples(name, settings)
    batch = make_batch(name, examples)
    bare = {"edge_type": None} | ({} if isinstance(batch, EdgeBatch) else {"is_out": None})
    with torch.no_grad():
        packed = model(replace(batch, **bare))
        torch.testing.assert_close(padded_call(model, name, examples), packed, **exact)
        wider = padded_call(model, name, examples, width=40, slots=9)
    torch.testing.assert_close(wider, packed, **exact)


@EVERY
def test_same_seed_same_model_and_the_global_generator_is_left_alone(name, settings):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, same = (make_tiny(name, seed=0, **settings) for _ in range(2))
    torch.testing.assert_close(torch.get_rng_state(), before)
    other = make_tiny(name, seed=1, **settings)
    assert model_fingerprint(one) == model_fingerprint(same) != model_fingerprint(other)
    examples = make_examples(name, settings)
    assert torch.equal(encode(one, name, examples), encode(same, name, examples))


@EVERY
def test_evaluation_is_deterministic(name, settings):
    model, examples = make(name, settings), make_examples(name, settings)
    assert torch.equal(encode(model, name, examples), encode(model, name, examples))


@EVERY
def test_saved_and_loaded_is_the_same(name, settings, tmp_path):
    model, examples = make(name, settings).float(), make_examples(name, settings)
    model.nodes.mark_seen(torch.tensor([True, True, False, True, True, True, True]))
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    nodes = NodeIndex(pa.chunked_array([[f"node {i}" for i in range(7)]]))
    save_model(SavedModel(model=model, tokenizer=tokenizer, nodes=nodes), tmp_path / "saved")
    loaded = load_model(tmp_path / "saved").model
    assert model_fingerprint(loaded) == model_fingerprint(model)
    assert torch.equal(encode(loaded, name, examples), encode(model, name, examples))
    for (ours, one), (theirs, other) in zip(
        model.named_parameters(), loaded.named_parameters(), strict=True
    ):
        assert (ours, one.requires_grad) == (theirs, other.requires_grad)


@EVERY
def test_gradient_reaches_every_parameter(name, settings):
    model, examples = make(name, settings).train(), make_examples(name, settings)
    out = model(make_batch(name, examples))
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5)).double()
    (out * weights).sum().backward()
    unreached = [
        parameter_name
        for parameter_name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    ]
    assert unreached == []
    if model.nodes.table.requires_grad:
        assert model.nodes.table.grad[-1].any()  # the unknown node learns too


@EVERY
def test_can_overfit_eight_examples(name, settings):
    model, examples = make(name, settings).float().train(), make_examples(name, settings)
    torch.manual_seed(0)
    head, labels = nn.Linear(model.width, 3), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=2e-2)
    batch = make_batch(name, examples)
    for _ in range(80):
        loss = nn.functional.cross_entropy(head(model(batch)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.05:
            break
    with torch.no_grad():
        assert head(model.eval()(batch)).argmax(1).tolist() == labels.tolist()
