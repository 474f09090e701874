import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgeformers.errors import ConfigError, FormatError, InputError
from edgeformers.models.authors import authors_classifier, load_authors_checkpoint
from edgeformers.models.edgeformer_e import EdgeformerE
from edgeformers.models.edgeformer_n import EdgeformerN

HERE = Path(__file__).parent


@pytest.fixture
def edge_state():
    return read("edge")


@pytest.fixture
def node_state():
    return read("node")


def read(kind):
    tensors = load_file(HERE / f"golden_{kind}.safetensors")
    return {name[2:]: t for name, t in tensors.items() if name.startswith("w.")}


def same(model, other):
    ours, theirs = model.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


@pytest.mark.parametrize(("task", "kind"), [("edge", EdgeformerE), ("node", EdgeformerN)])
def test_a_file_and_a_mapping_give_the_same_model(tmp_path, task, kind):
    state = read(task)
    torch.save(state, tmp_path / "model.pt")
    from_file = load_authors_checkpoint(tmp_path / "model.pt", task, num_heads=4)
    assert isinstance(from_file, kind)
    assert not from_file.training
    assert from_file.config.fidelity == "released"
    assert same(from_file, load_authors_checkpoint(state, task, num_heads=4))
    assert from_file.nodes.num_nodes == 11
    assert torch.equal(from_file.nodes.table[:11], state["bert.node_embedding"])


def test_the_names_of_wrappers_are_taken_off(edge_state):
    plain = load_authors_checkpoint(edge_state, "edge", num_heads=4)
    wrapped = {f"module.{name}": tensor for name, tensor in edge_state.items()}
    assert same(load_authors_checkpoint(wrapped, "edge", num_heads=4), plain)
    for one, other in zip(authors_classifier(wrapped), authors_classifier(edge_state), strict=True):
        assert torch.equal(one, other)


def test_layers_of_the_release_share_their_modules(node_state):
    model = load_authors_checkpoint(node_state, "node", num_heads=4)
    assert len({id(one) for one in model.projections}) == 1
    assert len({id(one) for one in model.local_attention}) == 1


def test_a_loaded_model_does_not_share_memory_with_the_state_dict(edge_state):
    model = load_authors_checkpoint(edge_state, "edge", num_heads=4)
    before = edge_state["bert.node_embedding"].clone()
    with torch.no_grad():
        model.nodes.table.zero_()
    assert torch.equal(edge_state["bert.node_embedding"], before)


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_file_of_objects_is_refused_and_runs_nothing(tmp_path):
    sprung = tmp_path / "sprung"
    for write in (torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))):
        write({"w": Trap(sprung)}, tmp_path / "model.pt")
        with pytest.raises(FormatError, match=r"model\.pt"):
            load_authors_checkpoint(tmp_path / "model.pt", "edge")
        assert not sprung.exists()


@pytest.mark.parametrize("value", [[1, 2], {"epoch": 3}, {"state": {"w": torch.ones(1)}}])
def test_a_file_of_other_things_is_refused(tmp_path, value):
    torch.save(value, tmp_path / "model.pt")
    with pytest.raises(FormatError, match="named tensors"):
        load_authors_checkpoint(tmp_path / "model.pt", "edge")


def test_an_absent_and_a_foreign_file_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.pt"):
        load_authors_checkpoint(tmp_path / "none.pt", "edge")
    (tmp_path / "text.pt").write_text("not a checkpoint")
    with pytest.raises(FormatError, match=r"text\.pt"):
        load_authors_checkpoint(tmp_path / "text.pt", "edge")


def test_the_wrong_task_is_noticed(edge_state, node_state):
    with pytest.raises(InputError, match="link"):
        load_authors_checkpoint(edge_state, "link", num_heads=4)
    with pytest.raises(
        FormatError, match=r"lacks the tensor encoder.graph_attention.query.weight;"
    ):
        load_authors_checkpoint(edge_state, "node", num_heads=4)
    with pytest.raises(FormatError, match="unexpected tensors"):
        load_authors_checkpoint(node_state, "edge", num_heads=4)
    with pytest.raises(FormatError, match="classifier"):
        authors_classifier(node_state)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert.node_embedding", "lacks the tensor node_embedding"),
        ("bert.node_to_text_transform.bias", "lacks the tensor node_to_text_transform.bias"),
        ("bert.encoder.layer.1.output.dense.weight", "lacks the tensor encoder.layer.1.output"),
        ("bert.embeddings.word_embeddings.weight", "not a model of the authors"),
    ],
)
def test_missing_tensors_are_named(edge_state, name, message):
    del edge_state[name]
    with pytest.raises(FormatError, match=message):
        load_authors_checkpoint(edge_state, "edge", num_heads=4)


def test_tensors_of_another_shape_are_named(edge_state):
    edge_state["bert.node_to_text_transform.weight"] = torch.zeros(16, 5)
    with pytest.raises(FormatError, match=r"projections\.0\.maps\.0\.weight has shape"):
        load_authors_checkpoint(edge_state, "edge", num_heads=4)


def test_heads_that_do_not_divide_the_width_are_refused(edge_state):
    with pytest.raises(ConfigError, match=r"width=16, heads=12"):
        load_authors_checkpoint(edge_state, "edge")
