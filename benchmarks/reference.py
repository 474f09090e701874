"""The padded reference: both models as the paper's authors released them, for comparison alone.

Every text is padded to one length, virtual tokens pass each layer as queries and are then
overwritten, attention is written out, the node table is dense. Weights are those of one of our
models with fidelity="released", so that outputs can be compared before anything is timed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.models.edgeformer_e import EdgeformerE
from edgeformers.models.edgeformer_n import EdgeformerN
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.nn.packed import PackedText

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"


@dataclass(frozen=True)
class PaddedEgos:
    """B centers with N slots for edges of L tokens each.

    Shapes: center [B]; neighbor, edge_mask [B, N]; token_ids, token_mask [B, N, L].
    """

    center: Tensor
    neighbor: Tensor
    edge_mask: Tensor
    token_ids: Tensor
    token_mask: Tensor

    def to(self, device: torch.device) -> "PaddedEgos":
        return PaddedEgos(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PaddedEdges:
    """B edges of L tokens each. Shapes: src, dst [B]; token_ids, token_mask [B, L]."""

    src: Tensor
    dst: Tensor
    token_ids: Tensor
    token_mask: Tensor

    def to(self, device: torch.device) -> "PaddedEdges":
        return PaddedEdges(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


class WrittenAttention(nn.Module):
    """Multi-head attention spelled out: scores, mask, softmax, dropout, sum; no output map."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """[B, Q, D], [B, S, D] and mask [B, S] (True = real) -> [B, Q, D]."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query(rows), self.key(context), self.value(context))
        )
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5  # [B, H, Q, S]
        bias = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -1e4)
        probs = self.dropout((scores + bias[:, None, None]).softmax(-1))
        return (probs @ v).transpose(1, 2).flatten(2)


class WrittenLayer(nn.Module):
    """A BERT layer over padded rows."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.width
        self.attention = WrittenAttention(width, config.heads, config.attention_dropout)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, config.ffn_width), nn.Linear(config.ffn_width, width)
        self.attention_norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.ffn_norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """[B, S, D] and mask [B, S] -> [B, S, D]."""
        mixed = self.out(self.attention(rows, rows, mask))
        rows = self.attention_norm(rows + self.dropout(mixed))
        return self.ffn_norm(rows + self.dropout(self.down(F.gelu(self.up(rows)))))


class PaddedText(nn.Module):
    """What both padded models share: embeddings, layers, the node table and its one map."""

    def __init__(self, config: EncoderConfig, num_nodes: int, node_width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.positions = nn.Embedding(config.max_positions, config.width)
        self.types = nn.Embedding(max(1, config.type_vocab), config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.embedding_dropout)
        self.layers = nn.ModuleList(WrittenLayer(config) for _ in range(config.layers))
        self.table = nn.Parameter(torch.empty(num_nodes, node_width))
        self.projection = nn.Linear(node_width, config.width)

    def embed(self, token_ids: Tensor, virtual: int) -> Tensor:
        """[B, L] -> [B, V+L, D]; nothing yet in the virtual slots, which the first layer masks."""
        at = torch.arange(token_ids.size(1), device=token_ids.device)
        rows = self.tokens(token_ids) + self.positions(at) + self.types.weight[0]
        return F.pad(self.dropout(self.norm(rows)), (0, 0, virtual, 0))


class PaddedEdgeformerE(PaddedText):
    """Edgeformer-E over padded texts."""

    def forward(self, batch: PaddedEdges) -> Tensor:
        """B edges -> [B, D]."""
        ends = self.table[torch.stack([batch.src, batch.dst], dim=1)]
        nodes = self.projection(ends)  # [B, 2, D]
        rows = self.embed(batch.token_ids, 2)
        for index, layer in enumerate(self.layers):
            if index:
                rows = torch.cat([nodes, rows[:, 2:]], dim=1)
            rows = layer(rows, F.pad(batch.token_mask, (2, 0), value=index > 0))
        return rows[:, 2]


class PaddedEdgeformerN(PaddedText):
    """Edgeformer-N over padded texts: the edge is read at the neighbor's slot."""

    def __init__(self, config: EncoderConfig, num_nodes: int, node_width: int) -> None:
        super().__init__(config, num_nodes, node_width)
        dropout = config.attention_dropout
        self.local = WrittenAttention(config.width, config.heads, dropout)
        self.pool = WrittenAttention(config.width, config.heads, dropout)

    def forward(self, batch: PaddedEgos) -> Tensor:
        """B centers -> [B, D]."""
        shape = batch.edge_mask.shape  # [B, N]
        center = self.projection(self.table[batch.center])  # [B, D]
        neighbor = self.projection(self.table[batch.neighbor]).flatten(0, 1)  # [B*N, D]
        ensemble = center.repeat_interleave(shape[1], dim=0)
        mask = batch.token_mask.flatten(0, 1)  # [B*N, L]
        rows = self.embed(batch.token_ids.flatten(0, 1), 3)  # [B*N, 3+L, D]
        for index, layer in enumerate(self.layers):
            if index:
                cls = rows[:, 3].unflatten(0, shape)  # [B, N, D]
                heard = self.local(cls, cls, batch.edge_mask).flatten(0, 1)
                virtual = torch.stack([ensemble, neighbor, heard], dim=1)
                rows = torch.cat([virtual, rows[:, 3:]], dim=1)
            rows = layer(rows, F.pad(mask, (3, 0), value=index > 0))
        edges = rows[:, 1].unflatten(0, shape)  # [B, N, D]
        return self.pool(center[:, None], edges, batch.edge_mask).squeeze(1)


def padded_twin(model: EdgeformerE | EdgeformerN) -> PaddedEdgeformerE | PaddedEdgeformerN:
    """The padded reference with the weights of one of our models (fidelity "released")."""
    assert model.config.fidelity == "released"
    kind = PaddedEdgeformerN if isinstance(model, EdgeformerN) else PaddedEdgeformerE
    twin = kind(model.encoder.config, model.config.num_nodes, model.config.node_width)
    ours: dict[str, Tensor] = {name: value.detach() for name, value in model.named_parameters()}
    state = dict(_twin_state(ours, len(twin.layers), is_node=isinstance(model, EdgeformerN)))
    state["table"] = ours["nodes.table"][:-1]
    twin.load_state_dict(state)
    return twin.train(model.training)


def _twin_state(ours: dict[str, Tensor], layers: int, *, is_node: bool) -> Any:
    names = {"tokens": "tokens", "positions": "positions", "types": "types", "norm": "norm"}
    for theirs, name in names.items():
        for kind in ("weight", "bias"):
            if (value := ours.get(f"encoder.embeddings.{name}.{kind}")) is not None:
                yield f"{theirs}.{kind}", value
    for kind in ("weight", "bias"):
        yield f"projection.{kind}", ours[f"projections.0.maps.0.{kind}"]
        for i in range(layers):
            at = f"encoder.layers.{i}"
            key, value = ours[f"{at}.attention.key_value.{kind}"].chunk(2)
            parts = {"query": ours[f"{at}.attention.query.{kind}"], "key": key, "value": value}
            yield from ((f"layers.{i}.attention.{n}.{kind}", part) for n, part in parts.items())
            yield f"layers.{i}.out.{kind}", ours[f"{at}.attention.out.{kind}"]
            for name in ("attention_norm", "ffn_norm"):
                yield f"layers.{i}.{name}.{kind}", ours[f"{at}.{name}.{kind}"]
            for name in ("up", "down"):
                yield f"layers.{i}.{name}.{kind}", ours[f"{at}.ffn.{name}.{kind}"]
        if is_node:
            local = ours[f"local_attention.0.query_key_value.{kind}"].chunk(3)
            pool = (ours[f"pool.query.{kind}"], *ours[f"pool.key_value.{kind}"].chunk(2))
            for part, a, b in zip(("query", "key", "value"), local, pool, strict=True):
                yield f"local.{part}.{kind}", a
                yield f"pool.{part}.{kind}", b


def pad_text(text: PackedText, length: int) -> tuple[Tensor, Tensor]:
    """Token ids and mask [B, length] of packed texts."""
    ids = text.to_padded(text.token_ids)
    missing = length - ids.size(1)
    return F.pad(ids, (0, missing)), F.pad(text.mask, (0, missing), value=False)


def pad_edges(batch: EdgeBatch, length: int) -> PaddedEdges:
    """The same edges, every text padded to `length`."""
    return PaddedEdges(batch.src, batch.dst, *pad_text(batch.text, length))


def pad_egos(batch: EgoBatch, slots: int, length: int) -> PaddedEgos:
    """The same ego-graphs with `slots` edges each; every center must have one edge or more."""
    assert len(batch.occupied) == len(batch), "the reference reads no center without edges"
    ids, mask = pad_text(batch.text, length)
    place = batch.owner * slots + batch.egos.positions  # [E]

    def spread(values: Tensor) -> Tensor:
        out = values.new_zeros(len(batch) * slots, *values.shape[1:])
        return out.index_copy(0, place, values).unflatten(0, (-1, slots))

    real = spread(torch.ones_like(batch.neighbor)).bool()
    token_mask = spread(mask.long()).bool()
    token_mask[~real] = F.one_hot(torch.zeros((), dtype=torch.long), length).bool()  # no empty row
    return PaddedEgos(batch.center, spread(batch.neighbor), real, spread(ids), token_mask)


def check_golden(folder: Path = GOLDEN) -> float | None:
    """The largest difference from the recorded outputs of the release; None where not at hand."""
    from safetensors.torch import load_file

    from edgeformers.models.authors import load_authors_checkpoint

    if not folder.is_dir():
        return None
    worst = 0.0
    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        weights = {name[2:]: t for name, t in tensors.items() if name.startswith("w.")}
        is_edge = path.stem.startswith("edge")
        ours = load_authors_checkpoint(weights, "edge" if is_edge else "node", num_heads=4)
        twin = padded_twin(ours).eval()
        sides = [("in", "edge")] if is_edge else [("in.query", "query"), ("in.key", "key")]
        for given, made in sides:
            names = PaddedEdges if is_edge else PaddedEgos
            inputs = {n: tensors[f"{given}.{_golden_name(n)}"] for n in names.__dataclass_fields__}
            batch = names(**{n: v.bool() if "mask" in n else v for n, v in inputs.items()})
            with torch.no_grad():
                found = twin(batch)  # type: ignore[arg-type]
            worst = max(worst, float((found - tensors[f"out.{made}_repr"]).abs().max()))
    return worst


def _golden_name(name: str) -> str:
    return "neighbor_mask" if name == "edge_mask" else name
