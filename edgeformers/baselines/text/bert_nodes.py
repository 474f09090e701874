"""BERT+nodes: both ends of an edge stand before its text as two more tokens of the input."""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch
from edgeformers.models.base import ModelConfig, make_lookup
from edgeformers.nn.attention import join_virtual
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.ragged import Ragged

ENDS = 2


class BertNodes(nn.Module):
    """H^(0) = [W z_i ; W z_j ; text], H^(l+1) = layer(H^(l)), h_e = [CLS] of the last.

    The comparison of section 4.1: node tokens enter once, have no position, and are rewritten by
    every layer like words, where Edgeformer-E gives them anew to each and never rewrites them.

    Used: the text and the two ends.

    Shapes: B edges, T tokens of their texts, S = T + 2 B rows, D width, K node width.
    """

    def __init__(self, config: ModelConfig, encoder: TextEncoder) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.nodes = make_lookup(config)
        self.project = nn.Linear(config.node_width, encoder.width, bias=False)  # W

    @property
    def width(self) -> int:
        return self.encoder.width

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        ends = torch.stack([batch.src, batch.dst], dim=1)
        tokens = self.project(self.nodes(ends))  # [B, 2, D]
        text = batch.text
        hidden = self.encoder.embed(text)  # [T, D]
        hidden = join_virtual(hidden, text, tokens.to(hidden.dtype))  # [S, D]
        rows = text.cached("with ends", lambda: with_ends(text))
        for index, layer in enumerate(self.encoder.layers):
            last = index == len(self.encoder.layers) - 1
            hidden = layer(hidden, rows, readout=hidden[rows.starts + ENDS] if last else None)
        return cast(Tensor, self.encoder.final_norm(hidden))  # [B, D]


def with_ends(text: Ragged) -> Ragged:
    """The texts, each two tokens longer at its beginning; what these two are is not looked up."""
    layout = text.layout(ENDS)
    return Ragged(
        offsets=layout.offsets,
        positions=layout.positions,
        max_length=layout.max_length,
        host_offsets=text.host_offsets + np.arange(text.num_groups + 1) * ENDS,
    )
