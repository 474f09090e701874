"""GraphFormers for edges: an edge's text and those around it exchange their [CLS] states."""

from typing import cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import EdgeContextBatch
from edgeformers.models.base import ModelConfig, make_lookup
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.pooling import LocalAttention
from edgeformers.nn.ragged import Ragged


class GraphFormersEdges(nn.Module):
    """h_e = [CLS] of the text of e, which hears other texts before every layer but the first.

    h-bar = MHA([CLS] states of e and of the edges around both its ends), and the next layer of
    each text reads [h-bar ; text], as GraphFormers (Yang et al., 2021) nests a graph network
    between the layers of a language model. There nodes have texts; here edges have them, and
    edges that share a node are neighbors. Who is at the ends is not read: the node table stays
    as it is given.

    Used: the text, and the texts of edges around either end.

    Shapes: B edges, E of them all with those around, T tokens of all texts, D width.
    """

    def __init__(self, config: ModelConfig, encoder: TextEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config).requires_grad_(False)
        width, heads = encoder.width, encoder.config.heads
        self.exchange = nn.ModuleList(LocalAttention(width, heads) for _ in encoder.layers[1:])

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        text, own = batch.texts, batch.edge.text
        order, groups = own.cached("groups", lambda: group_edges(batch))
        hidden = self.encoder.embed(text)  # [T, D]
        *layers, last = self.encoder.layers
        virtual = None
        for index, layer in enumerate(layers):
            hidden = layer(hidden, text, virtual)
            heard = self.exchange[index](hidden[text.starts][order], groups)
            virtual = torch.empty_like(heard).index_copy(0, order, heard)[:, None].to(hidden.dtype)
        # Nothing but the [CLS] of the B edges is read of the last layer; their texts come first.
        hidden = hidden[: own.num_tokens]
        virtual = None if virtual is None else virtual[: len(batch)]
        hidden = last(hidden, own, virtual, readout=hidden[own.starts])
        return cast(Tensor, self.encoder.final_norm(hidden))  # [B, D]


def group_edges(batch: EdgeContextBatch) -> tuple[Tensor, Ragged]:
    """The order [E] that lays each edge beside those around it, and these groups."""
    own = torch.arange(len(batch), device=batch.edge.src.device)
    owner = torch.cat([own, batch.source.owner, batch.target.owner])  # [E]
    sizes = torch.bincount(owner, minlength=len(batch)).cpu()
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    groups = Ragged.from_offsets(offsets.numpy())
    return owner.argsort(stable=True), groups.to(owner.device)
