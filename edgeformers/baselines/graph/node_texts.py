"""Edge models that read node texts, made of the texts of a node's edges (A.3)."""

from dataclasses import dataclass

from edgeformers.baselines.neural import NeuralBaseline
from edgeformers.data.batch import EdgeContextBatch, NodeTexts
from edgeformers.errors import ConfigError
from edgeformers.models.base import ModelConfig
from edgeformers.nn.encoder import TextEncoder


@dataclass(frozen=True, kw_only=True)
class NodeTextConfig(ModelConfig):
    """Settings of models that read node texts."""

    node_tokens: int = 256  # of a node's text; fewer if the encoder has fewer positions

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.node_tokens < 1:
            raise ConfigError(f"node_tokens must be at least 1 (got {self.node_tokens})")


class NodeTextReader(NeuralBaseline):
    """An edge model that reads the texts of nodes, which the loader adds to a batch."""

    uses_nodes = False
    config: NodeTextConfig
    encoder: TextEncoder

    @property
    def node_tokens(self) -> int:
        """The maximum number of tokens of a node's text."""
        return min(self.config.node_tokens, self.encoder.config.max_positions)

    def texts(self, batch: EdgeContextBatch) -> NodeTexts:
        """The texts of edges and nodes."""
        assert batch.node_texts is not None
        return batch.node_texts
