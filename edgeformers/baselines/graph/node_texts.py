"""Node texts for models that expect them: the texts of a node's edges, concatenated (A.3)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.batch import EdgeContextBatch
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError
from edgeformers.models.base import ModelConfig
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged


@dataclass(frozen=True, kw_only=True)
class NodeTextConfig(ModelConfig):
    """Settings of models that read node texts."""

    node_tokens: int = 256  # of a node's text; fewer if the encoder has fewer positions

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.node_tokens < 1:
            raise ConfigError(f"node_tokens must be at least 1 (got {self.node_tokens})")

    def limit(self, encoder: TextEncoder) -> int:
        """The maximum number of tokens of a node's text."""
        return min(self.node_tokens, encoder.config.max_positions)


def add_node_texts(batch: EdgeContextBatch, limit: int) -> tuple[PackedText, Tensor]:
    """The texts of B edges, their sources and their targets, and the edge of each text.

    The text of a node consists of the sampled training edges around it, without those between
    source and target: the edge itself is in neither. A node without edges has no text.
    """

    def join() -> tuple[PackedText, Tensor]:
        ends = (batch.source, batch.target)
        texts = [join_ego_texts(egos.text, egos.egos, limit) for egos in ends]
        own = torch.arange(len(batch), device=batch.edge.src.device)
        owner = torch.cat([own, *(egos.occupied for egos in ends)])
        return PackedText.cat([batch.edge.text, *texts]), owner

    return batch.edge.text.cached(("node texts", limit), join)


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
