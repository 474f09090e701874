"""GraphFormers for nodes: texts exchange their [CLS] states between layers (Yang et al., 2021)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.data.batch import EgoBatch
from edgeformers.errors import ConfigError
from edgeformers.models.base import ModelConfig, make_lookup
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.nn.pooling import LocalAttention
from edgeformers.nn.ragged import Ragged


@dataclass(frozen=True, kw_only=True)
class GraphFormersNConfig(ModelConfig):
    """Settings of GraphFormers for nodes."""

    joined_tokens: int = 256  # of a node's text; fewer where the encoder takes fewer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joined_tokens < 1:
            raise ConfigError(f"joined_tokens must be at least 1 (got {self.joined_tokens})")


class GraphFormersN(nn.Module):
    """h_v = [CLS] of the text of v, which hears its neighbors' before every layer but the first.

    GraphFormers wants texts on nodes. As the Edgeformers' appendix has it, the text of a node is
    made of the texts on its edges, joined; its neighbors are those texts one by one, since an
    ego-graph ends after one hop. Between two layers the [CLS] states of a node's text and of its
    neighbors attend to each other (as MHA_g of Edgeformer-N does, with no bias for the center), and
    the next layer of each text reads what it heard as a virtual token.

    Used: the texts of a node's edges. The node table stays as it is given; a node without edges
    has no text, and is zero.

    Shapes: B centers of which B' have edges, E edges of them all, T tokens of the B' + E texts.
    """

    def __init__(self, config: GraphFormersNConfig, encoder: TextEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config).requires_grad_(False)
        width, heads = encoder.width, encoder.config.heads
        self.exchange = nn.ModuleList(LocalAttention(width, heads) for _ in encoder.layers[1:])

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        limit = min(self.config.joined_tokens, self.encoder.config.max_positions)
        own = join_texts(batch.text, batch.egos, limit)  # B' texts
        text = PackedText.cat([own, batch.text])  # B' + E texts
        ensemble = batch.egos.layout(1)  # each joined text before those it is made of
        groups = batch.egos.cached("groups", lambda: _with_center(batch.egos))
        hidden, virtual = self.encoder.embed(text), None  # [T, D]
        *layers, last = self.encoder.layers
        for layer, exchange in zip(layers, self.exchange, strict=True):
            hidden = layer(hidden, text, virtual)
            heard = exchange(hidden[text.starts][ensemble.order], groups)[ensemble.inverse]
            virtual = heard[:, None].to(hidden.dtype)  # [B' + E, 1, D]
        # Nothing but the [CLS] of joined texts is read of the last layer.
        hidden = hidden[: own.num_tokens]
        virtual = None if virtual is None else virtual[: own.num_texts]
        found: Tensor = last(hidden, own, virtual, readout=hidden[own.starts])  # [B', D]
        found = self.encoder.final_norm(found)
        return found.new_zeros(len(batch), self.width).index_copy(0, batch.occupied, found)


def join_texts(text: PackedText, egos: Ragged, limit: int) -> PackedText:
    """Of every ego its texts as one, after one [CLS] and cut to `limit` tokens.

    They are joined in the order of their token ids, as words in a dictionary: it is the same text
    in whatever order the edges were drawn.
    """
    ids = text.token_ids.cpu().numpy()
    texts = [ids[start:end] for start, end in pairwise(text.host_offsets)]
    joined = [_join(texts[start:end])[:limit] for start, end in pairwise(egos.host_offsets)]
    tokens = torch.from_numpy(np.concatenate([ids[:0], *joined]))
    offsets = torch.from_numpy(np.cumsum([0, *map(len, joined)]))
    return PackedText.from_tokens(tokens, offsets).to(text.device)


def _join(texts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    ordered = sorted(texts, key=lambda one: one.astype(">u4").tobytes())
    return np.concatenate([ordered[0][:1], *(one[1:] for one in ordered)])


def _with_center(egos: Ragged) -> Ragged:
    """Each ego with one row before its own, as `egos.layout(1)` lays them."""
    return Ragged.from_offsets(egos.host_offsets + np.arange(egos.num_groups + 1)).to(egos.device)
