"""GraphFormers (Yang et al., 2021): texts exchange their [CLS] states between layers."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeContextBatch, EgoBatch
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError
from edgeformers.models.base import ModelConfig
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.nn.pooling import LocalAttention
from edgeformers.nn.ragged import Ragged


class _GraphFormers(NeuralBaseline):
    """Transformer layers with attention between the [CLS] states of a group of texts.

    Before every layer but the first, the [CLS] states of each group attend to each other (as
    MHA_g of Edgeformer-N, without a bias for the center), and the next layer of each text reads
    the result as a virtual token.

    Shapes: M texts that are read out, N texts in all, T tokens, D width.
    """

    uses_nodes = False
    encoder: TextEncoder

    def __init__(self, config: ModelConfig, encoder: TextEncoder) -> None:
        super().__init__(config, encoder)
        width, heads = encoder.width, encoder.config.heads
        self.exchange = nn.ModuleList(LocalAttention(width, heads) for _ in encoder.layers[1:])

    def encode_groups(
        self, text: PackedText, own: PackedText, order: Tensor, groups: Ragged
    ) -> Tensor:
        """N texts, the first M of them `own`, grouped in `order` [N] -> [CLS] of `own` [M, D]."""
        hidden, virtual = self.encoder.embed(text), None  # [T, D]
        *layers, last = self.encoder.layers
        for layer, exchange in zip(layers, self.exchange, strict=True):
            hidden = layer(hidden, text, virtual)
            mixed = exchange(hidden[text.starts][order], groups)  # [N, D]
            virtual = torch.empty_like(mixed).index_copy(0, order, mixed)[:, None].to(hidden.dtype)
        # The last layer computes only what is read out: the [CLS] states of `own`.
        hidden = hidden[: own.num_tokens]
        virtual = None if virtual is None else virtual[: own.num_texts]
        hidden = last(hidden, own, virtual, readout=hidden[own.starts])
        output: Tensor = self.encoder.final_norm(hidden)
        return output


class GraphFormersForEdges(_GraphFormers):
    """h_e = [CLS] of the text of e, grouped with the texts of the edges around both its ends.

    GraphFormers expects texts on nodes; here edges have them, and edges that share a node are
    neighbors.

    Inputs used: the text, and the texts of edges around either end.

    Shapes: B edges, D width.
    """

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        own = batch.edge.text
        order, groups = own.cached("groups", lambda: group_edges(batch))
        return self.encode_groups(batch.texts, own, order, groups)


@dataclass(frozen=True, kw_only=True)
class GraphFormersConfig(ModelConfig):
    """Settings of GraphFormers for nodes."""

    joined_tokens: int = 256  # of a node's text; fewer if the encoder has fewer positions

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joined_tokens < 1:
            raise ConfigError(f"joined_tokens must be at least 1 (got {self.joined_tokens})")


class GraphFormersForNodes(_GraphFormers):
    """h_v = [CLS] of the text of v, grouped with the texts of its edges.

    Following the Edgeformers appendix, the text of a node is the concatenation of the texts on its
    edges; its neighbors are those texts one by one, since an ego graph has one hop.

    Inputs used: the texts of a node's edges. A node without edges is the zero vector.

    Shapes: B centers, M of them with edges, D width.
    """

    config: GraphFormersConfig

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        limit = min(self.config.joined_tokens, self.encoder.config.max_positions)
        own = join_ego_texts(batch.text, batch.egos, limit)  # M texts
        order = batch.egos.layout(1).order  # each joined text before the texts of its edges
        groups = batch.egos.cached("groups", lambda: _with_center(batch.egos))
        states = self.encode_groups(PackedText.cat([own, batch.text]), own, order, groups)
        return states.new_zeros(len(batch), self.width).index_copy(0, batch.occupied, states)


def group_edges(batch: EdgeContextBatch) -> tuple[Tensor, Ragged]:
    """The order [E] that puts each edge next to those around it, and the resulting groups."""
    own = torch.arange(len(batch), device=batch.edge.src.device)
    owner = torch.cat([own, batch.source.owner, batch.target.owner])  # [E]
    sizes = torch.bincount(owner, minlength=len(batch)).cpu()
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    groups = Ragged.from_offsets(offsets.numpy())
    return owner.argsort(stable=True), groups.to(owner.device)


def join_ego_texts(text: PackedText, egos: Ragged, limit: int) -> PackedText:
    """Concatenate the texts of each ego graph after one [CLS], cut to `limit` tokens.

    Texts are sorted by their token ids, so that the result does not depend on the order in which
    edges were drawn.
    """
    ids = text.token_ids.cpu().numpy()
    texts = [ids[start:end] for start, end in pairwise(text.host_offsets)]
    joined = [_join(texts[start:end])[:limit] for start, end in pairwise(egos.host_offsets)]
    tokens = torch.from_numpy(np.concatenate([ids[:0], *joined]))
    offsets = torch.from_numpy(np.cumsum([0, *map(len, joined)]))
    return PackedText.from_tokens(tokens, offsets).to(text.device)


def _join(texts: list[Ids]) -> Ids:
    ordered = sorted(texts, key=lambda ids: ids.astype(">u4").tobytes())
    return np.concatenate([ordered[0][:1], *(ids[1:] for ids in ordered)])


def _with_center(egos: Ragged) -> Ragged:
    """Each ego graph with one row more, as in `egos.layout(1)`."""
    return Ragged.from_offsets(egos.host_offsets + np.arange(egos.num_groups + 1)).to(egos.device)
