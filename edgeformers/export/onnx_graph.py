"""Edgeformer-E and Edgeformer-N as ONNX graphs: token ids and node numbers in, vectors out."""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.errors import InputError, require
from edgeformers.export.padded import OwnedEdges, PaddedText
from edgeformers.inference.fitted import FittedModel
from edgeformers.inference.saved_model import NODES, TOKENIZER, write_nodes
from edgeformers.models.edgeformer_e import EdgeformerE
from edgeformers.models.edgeformer_n import EdgeformerN
from edgeformers.nn.pooling import ReducedPooling

GRAPH = "model.onnx"
OPSET = 18
OPERATORS = ["MatMul", "Gemm"]  # in 8-bit integers: linear maps, not lookups
TOKENIZE = """\
```python
import numpy as np
import onnxruntime
import pyarrow.parquet as pq
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("model.onnx")
tokenizer = Tokenizer.from_file("tokenizer.json")  # cuts and pads the texts of a batch
names = pq.read_table("nodes.parquet")  # the number of a node is its row; -1 is a new node
"""
CALL = """\
inputs["input_ids"] = np.array([text.ids for text in encoded])
inputs["attention_mask"] = np.array([text.attention_mask for text in encoded])
(vectors,) = session.run(None, inputs)
```

"""
EDGES_CALL = """\
encoded = tokenizer.encode_batch(["Too small for two.", "It kept us dry."])
inputs = {"source": np.array([0, -1]), "target": np.array([1, 1])}
"""
EDGES_ABOUT = """\
`source` and `target` are the nodes of each edge. A row of `vectors` is an edge, as `embed_edges`
gives it."""
NODES_CALL = """\
encoded = tokenizer.encode_batch(["Too small for two.", "It kept us dry.", "Good value."])
inputs = {
    "center": np.array([0, 1]),  # the nodes to encode
    "owner": np.array([0, 0, 1]),  # for each text, the position in `center` of its node
    "neighbor": np.array([2, -1, 0]),  # for each text, the node at the other end of its edge
}
"""
NODES_ABOUT = """\
The graph around a node is an input: the texts of its edges, and the nodes at their other ends. A
row of `vectors` is a node, as `embed_nodes` gives it for these edges. The edges of a node see each
other. A node without any text is represented by its node token."""
#: Inputs that only some models have: an example, and the meaning.
MORE_INPUTS = {
    "edge_type": ("0", "`edge_type` is the number of the type of each edge."),
    "is_out": ("True", "`is_out` says of each edge whether its center is the source."),
}


class Input(NamedTuple):
    """An input of a graph: an example, and the names of its dimensions."""

    example: Tensor
    dims: tuple[str, ...]


class EdgeGraph(nn.Module):
    """Edgeformer-E with padded texts: B edges of L tokens -> [B, D]."""

    output, example, about = "edge_embedding", EDGES_CALL, EDGES_ABOUT

    def __init__(self, model: EdgeformerE) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> Tensor:
        """Token ids and mask [B, L], nodes [B] -> edge_repr [B, D]."""
        inputs = dict(zip(self.inputs(), tensors, strict=True))
        batch = EdgeBatch(
            text=_padded(self.model, inputs),
            src=inputs["source"],
            dst=inputs["target"],
            edge_type=inputs.get("edge_type"),
        )
        return cast(Tensor, self.model(batch))

    def inputs(self) -> dict[str, Input]:
        return {
            **_text_inputs(),
            "source": _edge_numbers(),
            "target": _edge_numbers(),
            **_types(self.model),
        }


class NodeGraph(nn.Module):
    """Edgeformer-N with padded texts: B centers with E edges in all -> [B, D]."""

    output, example, about = "node_embedding", NODES_CALL, NODES_ABOUT

    def __init__(self, model: EdgeformerN) -> None:
        super().__init__()
        self.model = model
        if isinstance(model.pool, ReducedPooling):
            raise InputError(
                f"a model with `model.pooling={model.config.pooling!r}` cannot be exported to "
                "ONNX; use `model.pooling='attention'`"
            )

    def forward(self, *tensors: Tensor) -> Tensor:
        """Token ids and mask [E, L], centers [B], owners and neighbors [E] -> node_repr [B, D]."""
        inputs = dict(zip(self.inputs(), tensors, strict=True))
        center, owner = inputs["center"], inputs["owner"]
        rows = torch.arange(center.size(0))
        batch = EgoBatch(
            text=_padded(self.model, inputs),
            center=center,
            neighbor=inputs["neighbor"],
            owner=owner,
            egos=OwnedEdges.make(owner, center.size(0)),
            occupied=rows,
            is_out=inputs.get("is_out"),
            edge_type=inputs.get("edge_type"),
        )
        has_edges = (owner[:, None] == rows).any(0)
        alone = self.model.node_token(self.model.nodes(center))
        return torch.where(has_edges[:, None], self.model(batch), alone)

    def inputs(self) -> dict[str, Input]:
        owner = Input(torch.tensor([0, 0, 1]), ("edges",))
        center = Input(torch.zeros(2, dtype=torch.long), ("nodes",))
        more = {}
        if self.model.config.direction:
            more["is_out"] = Input(torch.tensor([True, False, True]), ("edges",))
        return {
            **_text_inputs(),
            "center": center,
            "owner": owner,
            "neighbor": _edge_numbers(),
            **more,
            **_types(self.model),
        }


def write_onnx(fitted: FittedModel[Any], folder: Path, *, int8: bool = False) -> str:
    """Write graph, tokenizer and node ids to a folder; returns how to use them."""
    for package in ("onnx", "onnxscript", *(["onnxruntime"] if int8 else [])):
        require(package, "onnx")
    model = fitted.model if fitted.device.type == "cpu" else copy.deepcopy(fitted.model).cpu()
    graph: EdgeGraph | NodeGraph
    if isinstance(model, EdgeformerE):
        graph = EdgeGraph(model)
    elif isinstance(model, EdgeformerN):
        graph = NodeGraph(model)
    else:
        raise InputError(
            f"a {type(model).__name__} cannot be exported to ONNX; Edgeformer-E and Edgeformer-N "
            "can"
        )
    inputs = graph.inputs()
    _trace(graph.eval(), inputs, folder / GRAPH)
    if int8:
        _quantize(folder / GRAPH)
    _batch_tokenizer(fitted, model).save(str(folder / TOKENIZER))
    write_nodes(fitted.nodes, folder / NODES)
    example, about = graph.example, graph.about
    for name, (value, meaning) in MORE_INPUTS.items():
        if name in inputs:
            example += f'inputs["{name}"] = np.array([{value}] * len(encoded))\n'
            about += f" {meaning}"
    return TOKENIZE + example + CALL + about


def _text_inputs() -> dict[str, Input]:
    ids = Input(torch.zeros(3, 4, dtype=torch.long), ("edges", "tokens"))
    return {"input_ids": ids, "attention_mask": Input(torch.ones_like(ids.example), ids.dims)}


def _edge_numbers() -> Input:
    """A number for each edge; a tensor of its own, since a tracer takes equal objects for one."""
    return Input(torch.zeros(3, dtype=torch.long), ("edges",))


def _types(model: EdgeformerE | EdgeformerN) -> dict[str, Input]:
    if model.config.edge_types == 1:
        return {}
    return {"edge_type": _edge_numbers()}


def _padded(model: EdgeformerE | EdgeformerN, inputs: dict[str, Tensor]) -> PaddedText:
    limit = model.encoder.config.max_positions
    return PaddedText.make(inputs["input_ids"], inputs["attention_mask"], limit)


def _trace(graph: EdgeGraph | NodeGraph, inputs: dict[str, Input], path: Path) -> None:
    """Write the graph of a module with named inputs, whose dimensions are all dynamic."""
    shapes = tuple(dict(enumerate(given.dims)) for given in inputs.values())
    with torch.no_grad(), _silent():
        program = torch.onnx.export(
            graph,
            tuple(given.example for given in inputs.values()),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=[graph.output],
            dynamic_shapes=(shapes,),  # of forward(*tensors)
            verbose=False,
        )
    assert program is not None
    program.save(str(path))


def _quantize(path: Path) -> None:
    """Replace the weights of linear maps by 8-bit integers with a scale per output."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(path)
    del model.graph.value_info[:]  # shapes of weights, which the quantizer transposes
    with _silent():
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=OPERATORS,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )


def _batch_tokenizer(fitted: FittedModel[Any], model: EdgeformerE | EdgeformerN) -> Tokenizer:
    """A copy of the tokenizer that cuts and pads texts as the graph reads them."""
    tokenizer = Tokenizer.from_str(fitted.tokenizer.to_str())
    tokenizer.enable_truncation(fitted.config.data.max_tokens)
    pad = model.encoder.config.pad_token_id
    tokenizer.enable_padding(pad_id=pad, pad_token=tokenizer.id_to_token(pad) or "[PAD]")
    return tokenizer


@contextmanager
def _silent() -> Iterator[None]:
    """Hide what the exporters log and warn of, which concerns their developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
