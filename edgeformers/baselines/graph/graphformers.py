"""GraphFormers (Yang et al., 2021): texts exchange their [CLS] states between layers."""

import torch
from torch import Tensor, nn

from edgeformers.baselines.graph.node_texts import NodeTextReader
from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeContextBatch, EgoBatch
from edgeformers.models.base import ModelConfig
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.nn.pooling import LocalAttention, reduce_rows
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


class GraphFormersForEdges(_GraphFormers, NodeTextReader):
    """h_e = [CLS] of the text of e, in a group with the texts of its two nodes.

    Inputs used: the text, and the texts of edges around either end, joined to a text per node.

    Shapes: B edges, D width.
    """

    def forward(self, batch: EdgeContextBatch) -> Tensor:
        """B edges with context -> edge_repr [B, D]."""
        texts = self.texts(batch)
        return self.encode_groups(texts.text, batch.edge.text, texts.order, texts.groups)


class GraphFormersForNodes(_GraphFormers):
    """h_v = mean of the [CLS] states of the texts on the edges of v, which form a group.

    GraphFormers expects texts on nodes. Here edges have them, so that a node is the aggregate of
    its edges, as in `BertForNodes`; it costs as much as encoding each text on its own.

    Inputs used: the texts of a node's edges. A node without edges is the zero vector.

    Shapes: B centers, E edges of all centers, D width.
    """

    def forward(self, batch: EgoBatch) -> Tensor:
        """B centers -> node_repr [B, D]."""
        order = torch.arange(batch.owner.size(0), device=batch.owner.device)  # already grouped
        states = self.encode_groups(batch.text, batch.text, order, batch.egos)  # [E, D]
        return reduce_rows(states, batch.owner, len(batch), "mean")
