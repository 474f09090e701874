"""ONNX Runtime computes the same vectors, with any number of edges and tokens."""

import re
import shutil
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from tokenizers import Tokenizer

from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.errors import InputError
from edgeformers.export import export_model
from edgeformers.export.onnx_graph import EdgeGraph, NodeGraph, _quantize, _trace
from edgeformers.inference.model_card import CARD
from edgeformers.nn.backbones import random_backbone
from edgeformers.registry import make_model
from tests.tiny_models import TINY_ENCODER, make_tiny

ALIKE = {"rtol": 0, "atol": 1e-4}
ROTARY = replace(
    TINY_ENCODER,
    family="modernbert",
    position_kind="rotary",
    type_vocab=0,
    norm_place="pre",
    gated=True,
    windows=(None, 2, 2),
)


def texts(num_texts, length, generator):
    """Token ids, a mask with padding on the right, and the rows in a model's own form."""
    ids = torch.randint(0, 30, (num_texts, length), generator=generator)
    lengths = torch.randint(1, length + 1, (num_texts,), generator=generator)
    return ids, torch.arange(length) < lengths[:, None]


def nodes(count, generator):
    return torch.randint(-1, 7, (count,), generator=generator)


def run(path, inputs):
    session = onnxruntime.InferenceSession(path)
    given = {name: tensor.numpy() for name, tensor in inputs.items()}
    return session.run(None, given)[0]


EDGE_MODELS = {
    "default": {},
    "everything": {"fusion": True, "node_shrinkage": 1.0, "edge_types": 3, "direction": True},
    "predicted nodes": {"fusion": True, "prior_classes": 3},
    "text only": {"tokens": ()},
    "released": {"fidelity": "released"},
}
NODE_MODELS = {
    "default": {},
    "everything": {"fidelity": "released", "direction": True, "edge_types": 2},
    "without siblings": {"tokens": ("center", "neighbor")},
}


def edge_examples(model):
    """Inputs of several shapes, and the vectors of the model itself."""
    generator = torch.Generator().manual_seed(0)
    for num_edges, length in ((1, 1), (5, 9), (7, 12), (3, 2)):
        ids, mask = texts(num_edges, length, generator)
        inputs = {"input_ids": ids, "attention_mask": mask.long()}
        inputs |= {"source": nodes(num_edges, generator), "target": nodes(num_edges, generator)}
        if model.config.edge_types > 1:
            inputs["edge_type"] = torch.arange(num_edges) % 3
        batch = EdgeBatch(
            text=model.pack(ids, mask),
            src=inputs["source"],
            dst=inputs["target"],
            edge_type=inputs.get("edge_type"),
        )
        yield inputs, model(batch).detach()


def node_examples(model):
    """Likewise; some centers have no edges."""
    generator = torch.Generator().manual_seed(0)
    for num_nodes, num_edges, length in ((1, 1, 1), (4, 9, 9), (6, 2, 3)):
        ids, mask = texts(num_edges, length, generator)
        owner = torch.randint(0, num_nodes, (num_edges,), generator=generator).sort().values
        center, neighbor = nodes(num_nodes, generator), nodes(num_edges, generator)
        more = {}
        if model.config.direction:
            more["is_out"] = torch.arange(num_edges) % 2 == 0
            more["edge_type"] = torch.arange(num_edges) % 2
        batch = EgoBatch.from_counts(
            text=model.pack(ids, mask),
            center=center,
            counts=torch.bincount(owner, minlength=num_nodes),
            neighbor=neighbor,
            **more,
        )
        inputs = {"input_ids": ids, "attention_mask": mask.long(), "center": center}
        inputs |= {"owner": owner, "neighbor": neighbor, **more}
        yield inputs, model(batch).detach()


def rotary_model():
    encoder = random_backbone(ROTARY, seed=1)
    settings = {"num_nodes": 7, "node_width": 6}
    return make_model("edgeformer-e", settings, encoder, seed=1).eval()


CASES = {
    **{f"E {name}": ("edgeformer-e", EDGE_MODELS[name]) for name in EDGE_MODELS},
    **{f"N {name}": ("edgeformer-n", NODE_MODELS[name]) for name in NODE_MODELS},
    "rotary positions and windows": (None, {}),
}


def make_case(name):
    """A graph, and its inputs with the vectors of the model."""
    kind, settings = CASES[name]
    model = rotary_model() if kind is None else make_tiny(kind, **settings)
    if kind == "edgeformer-n":
        return NodeGraph(model).eval(), node_examples(model)
    return EdgeGraph(model).eval(), edge_examples(model)


@pytest.mark.parametrize("name", CASES)
def test_padded_batches_give_the_vectors_of_packed_ones(name):
    graph, examples = make_case(name)
    for inputs, expected in examples:
        with torch.no_grad():
            made = graph(*(inputs[one] for one in graph.inputs()))
        np.testing.assert_allclose(made, expected, **ALIKE)


@pytest.mark.parametrize(
    "name",
    [
        "E everything",
        "N everything",
        *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if "everything" not in name),
    ],
)
def test_onnx_runtime_gives_the_same_vectors_in_every_shape(name, tmp_path):
    (graph, examples), path = make_case(name), tmp_path / "model.onnx"
    _trace(graph, graph.inputs(), path)
    known = {given.name for given in onnxruntime.InferenceSession(path).get_inputs()}
    for inputs, expected in examples:
        used = {one: value for one, value in inputs.items() if one in known}
        np.testing.assert_allclose(run(path, used), expected, **ALIKE)


@pytest.fixture(scope="module")
def exported(classifier, tmp_path_factory):
    """A classifier in ONNX."""
    return export_model(classifier, tmp_path_factory.mktemp("exports") / "onnx", to="onnx")


def test_an_exported_classifier_embeds_edges_as_we_do(classifier, exported):
    rows = [("user-000001", "item-000001", "My tent is excellent."), ("nobody", "item-000002", "")]
    tokenizer = Tokenizer.from_file(str(exported / "tokenizer.json"))
    encoded = tokenizer.encode_batch([text for *_, text in rows])
    index = classifier.fitted_.nodes
    inputs = {
        "input_ids": torch.tensor([text.ids for text in encoded]),
        "attention_mask": torch.tensor([text.attention_mask for text in encoded]),
        "source": torch.from_numpy(index.numbers([row[0] for row in rows], "source")),
        "target": torch.from_numpy(index.numbers([row[1] for row in rows], "target")),
    }
    assert inputs["source"].tolist()[0] >= 0 > inputs["source"].tolist()[1]
    expected = classifier.embed_edges(rows)
    np.testing.assert_allclose(run(exported / "model.onnx", inputs), expected, **ALIKE)


def test_int8_is_smaller_and_close(exported, tmp_path):
    rounded = tmp_path / "model.onnx"
    shutil.copy(exported / "model.onnx", rounded)
    _quantize(rounded)
    inputs = {
        "input_ids": torch.randint(5, 100, (16, 12)),
        "attention_mask": torch.ones(16, 12, dtype=torch.long),
        "source": torch.arange(16),
        "target": torch.arange(16),
    }
    ours, theirs = (run(path, inputs) for path in (exported / "model.onnx", rounded))
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert ((ours * theirs).sum(1) / lengths).min() > 0.98
    assert np.abs(ours - theirs).max() > 0
    assert rounded.stat().st_size < (exported / "model.onnx").stat().st_size


def call_as_shown(folder, monkeypatch):
    """The names that the Python of a README defines, run in its folder."""
    monkeypatch.chdir(folder)
    (code,) = re.findall(r"```python\n(.*?)```", (folder / CARD).read_text(), re.DOTALL)
    names = {}
    exec(code, names)
    return names


def test_the_call_in_the_readme_of_a_classifier_works(classifier, exported, monkeypatch):
    names = call_as_shown(exported, monkeypatch)
    assert names["vectors"].shape == (2, classifier.fitted_.width)
    assert len(names["names"]) == len(classifier.fitted_.nodes)


def test_the_call_in_the_readme_of_a_link_predictor_works(predictor, tmp_path, monkeypatch):
    folder = export_model(predictor, tmp_path / "onnx", to="onnx", int8=True)
    names = call_as_shown(folder, monkeypatch)
    assert names["vectors"].shape == (2, predictor.fitted_.width)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "model.onnx",
        "nodes.parquet",
        "tokenizer.json",
    ]


def test_models_that_onnx_cannot_have_are_refused():
    with pytest.raises(InputError, match="pooling"):
        NodeGraph(make_tiny("edgeformer-n", pooling="mean"))
