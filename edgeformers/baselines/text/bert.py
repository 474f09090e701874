"""BERT (Devlin et al., 2019), fine-tuned: alone, with both nodes of an edge, and for nodes."""

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeBatch, EgoBatch
from edgeformers.models.base import ModelConfig
from edgeformers.nn.attention import join_virtual
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.pooling import reduce_rows
from edgeformers.nn.ragged import Ragged

NODE_TOKENS = 2  # source and target


class Bert(NeuralBaseline):
    """h_e = [CLS] of the text of e.

    Inputs used: the text.

    Shapes: B edges, D width.
    """

    uses_nodes = False

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        return self.encoder.encode(batch.text)


class BertWithNodeOneHots(NeuralBaseline):
    """h_e = [CLS] + W_s z_i + W_t z_j.

    For a linear head this is equivalent to concatenating the text vector with a one-hot vector of
    each node: every node adds its own offset to the class scores. Text and nodes do not interact.

    Inputs used: the text and both nodes.

    Shapes: B edges, D width, K node width.
    """

    def __init__(self, config: ModelConfig, encoder: TextEncoder) -> None:
        super().__init__(config, encoder)
        self.source = nn.Linear(config.node_width, encoder.width, bias=False)  # W_s
        self.target = nn.Linear(config.node_width, encoder.width, bias=False)  # W_t

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        nodes = self.source(self.nodes(batch.src)) + self.target(self.nodes(batch.dst))
        output: Tensor = self.encoder.encode(batch.text) + nodes
        return output


class BertWithNodeTokens(NeuralBaseline):
    """H^(0) = [W z_i ; W z_j ; text], H^(l+1) = layer(H^(l)), h_e = [CLS] of the last layer.

    The comparison in section 4.1: node tokens are added to the input once, have no position, and
    are updated by every layer like words. Edgeformer-E injects them at every layer instead and
    never updates them.

    Inputs used: the text and both nodes.

    Shapes: B edges, T tokens of their texts, S = T + 2 B rows, D width, K node width.
    """

    encoder: TextEncoder

    def __init__(self, config: ModelConfig, encoder: TextEncoder) -> None:
        super().__init__(config, encoder)
        self.project = nn.Linear(config.node_width, encoder.width, bias=False)  # W

    def forward(self, batch: EdgeBatch) -> Tensor:
        """B edges -> edge_repr [B, D]."""
        text = batch.text
        tokens = self.project(self.nodes(torch.stack([batch.src, batch.dst], dim=1)))  # [B, 2, D]
        hidden = self.encoder.embed(text)  # [T, D]
        hidden = join_virtual(hidden, text, tokens.to(hidden.dtype))  # [S, D]
        rows = text.cached("with node tokens", lambda: add_node_tokens(text))
        *layers, last = self.encoder.layers
        for layer in layers:
            hidden = layer(hidden, rows)
        hidden = last(hidden, rows, readout=hidden[rows.starts + NODE_TOKENS])
        output: Tensor = self.encoder.final_norm(hidden)  # [B, D]
        return output


class BertForNodes(NeuralBaseline):
    """h_v = mean of the [CLS] states of the texts on the edges of v, each encoded on its own.

    Inputs used: the texts of a node's edges. A node without edges is the zero vector.

    Shapes: B centers, E edges of all centers, D width.
    """

    uses_nodes = False

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        return reduce_rows(self.encoder.encode(batch.text), batch.owner, len(batch), "mean")


def add_node_tokens(text: Ragged) -> Ragged:
    """The layout of the texts with two tokens, which have no position, before each."""
    layout = text.layout(NODE_TOKENS)
    return Ragged(
        offsets=layout.offsets,
        positions=layout.positions,
        max_length=layout.max_length,
        host_offsets=text.host_offsets + np.arange(text.num_groups + 1) * NODE_TOKENS,
    )
