"""Load checkpoints of the authors' code into our models with fidelity="released"."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from edgeformers.errors import FormatError, InputError
from edgeformers.models.edgeformer_e import EdgeformerE, EdgeformerEConfig
from edgeformers.models.edgeformer_n import EdgeformerN, EdgeformerNConfig
from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.nn.families import FAMILIES

_LOCAL = "encoder.graph_attention"  # over sibling edges
_LAYERS = "encoder.layer."
_POOL = "graph_attention"  # over a node's edges
_PARTS = ("query", "key", "value")
_IGNORED = ("classifier.", "pooler.", "embeddings.position_ids")


def load_authors_checkpoint(
    checkpoint: str | PathLike[str] | Mapping[str, Tensor],
    task: Literal["edge", "node"],
    num_heads: int = 12,
) -> EdgeformerE | EdgeformerN:
    """A model from a checkpoint of the authors' code: a file of tensors, or a state dict.

    `task` is the part of their release that trained it: "edge" returns an EdgeformerE, "node" an
    EdgeformerN. Everything except the number of heads follows from the tensors. For the weights
    of the edge classifier, see `authors_classifier`.
    """
    if task not in ("edge", "node"):
        raise InputError(f"task must be 'edge' or 'node' (got '{task}')")
    tensors = _own_tensors(_read(checkpoint))
    config = _encoder_config(tensors, num_heads)
    table = _take(tensors, "node_embedding")
    nodes, node_width = table.shape
    model: EdgeformerE | EdgeformerN
    if task == "edge":
        edge = EdgeformerEConfig(num_nodes=nodes, node_width=node_width, fidelity="released")
        model = EdgeformerE(edge, TextEncoder(config))
    else:
        node = EdgeformerNConfig(num_nodes=nodes, node_width=node_width, fidelity="released")
        model = EdgeformerN(node, TextEncoder(config))
    state = _graph_state(tensors, model)
    for (ours,), theirs in FAMILIES["bert"].parameters(model.encoder):
        state[f"encoder.{ours}"] = torch.cat([_take(tensors, name) for name in theirs])
    if tensors:
        raise FormatError(
            f"the checkpoint has unexpected tensors for task '{task}': "
            f"{', '.join(sorted(tensors)[:5])}"
        )
    expected = model.state_dict()
    for name, value in state.items():
        if value.shape != expected[name].shape:
            raise FormatError(
                f"{name} has shape {list(value.shape)}, but the other tensors of the checkpoint "
                f"imply {list(expected[name].shape)}"
            )
    model.load_state_dict({**expected, **state})
    model.nodes.set_table(table)
    return model.eval()


def authors_classifier(
    checkpoint: str | PathLike[str] | Mapping[str, Tensor],
) -> tuple[Tensor, Tensor]:
    """The weight [C, D] and bias [C] of the classifier in an edge checkpoint."""
    tensors = {name.removeprefix("module."): v for name, v in _read(checkpoint).items()}
    try:
        return tensors["classifier.0.weight"], tensors["classifier.0.bias"]
    except KeyError as error:
        raise FormatError("the checkpoint has no classifier; its task is not 'edge'") from error


def _read(checkpoint: str | PathLike[str] | Mapping[str, Tensor]) -> dict[str, Tensor]:
    if isinstance(checkpoint, Mapping):
        return dict(checkpoint)
    path = Path(checkpoint).expanduser()
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: no such checkpoint") from None
    except Exception as error:  # the unpickler raises many kinds
        raise FormatError(
            f"{path} contains more than tensors and was not loaded ({type(error).__name__}); save "
            "the model's state_dict()"
        ) from error
    if not isinstance(loaded, Mapping) or not all(isinstance(v, Tensor) for v in loaded.values()):
        raise FormatError(f"{path} does not contain named tensors; save a state_dict()")
    return dict(loaded)


def _own_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's tensors without wrapper prefixes, pooler and classifier."""
    bare = {name.removeprefix("module.").removeprefix("bert."): v for name, v in tensors.items()}
    return {name: value.clone() for name, value in bare.items() if not name.startswith(_IGNORED)}


def _encoder_config(tensors: Mapping[str, Tensor], heads: int) -> EncoderConfig:
    try:
        shape: dict[str, Any] = {
            "vocab_size": tensors["embeddings.word_embeddings.weight"].size(0),
            "width": tensors["embeddings.word_embeddings.weight"].size(1),
            "layers": 1 + max(int(n.split(".")[2]) for n in tensors if n.startswith(_LAYERS)),
            "ffn_width": tensors["encoder.layer.0.intermediate.dense.weight"].size(0),
            "max_positions": tensors["embeddings.position_embeddings.weight"].size(0),
            "type_vocab": tensors["embeddings.token_type_embeddings.weight"].size(0),
        }
    except (KeyError, ValueError, IndexError) as error:
        raise FormatError(f"the checkpoint is not a model of the authors ({error})") from error
    return EncoderConfig(heads=heads, **shape)


def _graph_state(tensors: dict[str, Tensor], model: EdgeformerE | EdgeformerN) -> dict[str, Tensor]:
    """Projections and attention; shared modules have a name for every layer."""
    layers = range(len(model.projections))
    state: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        projection = _take(tensors, f"node_to_text_transform.{kind}")
        state |= {f"projections.{i}.maps.0.{kind}": projection for i in layers}
        if isinstance(model, EdgeformerN):
            q, k, v = (_take(tensors, f"{_LOCAL}.{part}.{kind}") for part in _PARTS)
            local = torch.cat([q, k, v])
            state |= {f"local_attention.{i}.query_key_value.{kind}": local for i in layers}
            q, k, v = (_take(tensors, f"{_POOL}.{part}.{kind}") for part in _PARTS)
            state |= {f"pool.query.{kind}": q, f"pool.key_value.{kind}": torch.cat([k, v])}
    return state


def _take(tensors: dict[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise FormatError(f"the checkpoint lacks the tensor {name}; check the task")
    return tensors.pop(name)
