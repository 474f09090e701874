"""AlphaRec (Sheng et al., 2025): frozen text vectors, a projection, and graph convolution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.collaborative.lightgcn import normalized_adjacency, propagate
from edgeformers.baselines.temporal.history import LinkHistory
from edgeformers.baselines.temporal.recent_lightgcn import PropagatedModel, link_table
from edgeformers.baselines.temporal.texts import (
    LinkTexts,
    MeanTexts,
    TextBaseline,
    candidate_texts,
    softmax_loss,
)
from edgeformers.data.types import Ids


@dataclass(frozen=True, kw_only=True)
class AlphaRecConfig:
    """Settings of one training run."""

    projection: Literal["mlp", "linear"] = "mlp"
    width: int = 64
    layers: int = 2  # of graph convolution
    temperature: float = 0.15
    lr: float = 1e-3
    epochs: int = 40
    batch: int = 4096


class AlphaRec(TextBaseline[AlphaRecConfig]):
    """Cosine similarity of projected text vectors, averaged over layers of graph convolution.

    A candidate is the mean frozen text vector of its links so far, a source the mean of its
    candidates. No vector of a node is learned, so that nodes that arrive later are nodes like any
    other. Trained with InfoNCE over all candidates. Works without times too.
    """

    default_grid = (AlphaRecConfig(), AlphaRecConfig(projection="linear"))

    def _train(self, config: AlphaRecConfig) -> Callable[[LinkHistory], "_ProjectedModel"]:
        history, texts = self.history, self._texts
        inputs = _node_texts(history, candidate_texts(texts, history)).to(self.device)
        adjacency = normalized_adjacency(link_table(history)).to(self.device)
        links = torch.from_numpy(np.stack([history.sources, history.columns])).to(self.device)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            module = _projection(config, inputs.size(1)).to(self.device)
            optimizer = torch.optim.Adam(module.parameters(), lr=config.lr)
            for _ in range(config.epochs):
                for rows in torch.randperm(links.size(1)).split(config.batch):
                    table = propagate(module(inputs), adjacency, config.layers)
                    table = F.normalize(table, dim=1)
                    sources, columns = links[:, rows.to(self.device)]
                    queries = table[sources] / config.temperature
                    loss = softmax_loss(queries, table[history.num_sources :], columns)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        return lambda started: _ProjectedModel(module.eval(), started, texts, config.layers)


def _projection(config: AlphaRecConfig, width: int) -> nn.Module:
    if config.projection == "linear":
        return nn.Linear(width, config.width)
    hidden = nn.Linear(width, width // 2)
    return nn.Sequential(hidden, nn.LeakyReLU(), nn.Linear(width // 2, config.width))


def _node_texts(history: LinkHistory, texts: MeanTexts) -> Tensor:
    """The text vectors of sources and then candidates [Q + C, D]."""
    from scipy import sparse

    links, means = link_table(history), texts.means()
    shares = np.repeat(1 / np.maximum(links.degrees, 1), links.degrees).astype(np.float32)
    shape = (links.num_queries, links.num_candidates)
    average = sparse.csr_array((shares, links.candidates, links.indptr), shape=shape)
    return torch.from_numpy(np.concatenate([average @ means, means]))


class _ProjectedModel(PropagatedModel):
    """A trained projection, and the texts and links so far."""

    def __init__(
        self, module: nn.Module, history: LinkHistory, texts: LinkTexts, layers: int
    ) -> None:
        device = next(module.parameters()).device
        self._texts = candidate_texts(texts, history)

        def vectors() -> Tensor:
            projected: Tensor = module(_node_texts(history, self._texts).to(device))
            return projected

        super().__init__(history, vectors, layers, cosine=True)

    def observe(self, edges: Ids) -> None:
        start = len(self.history.edges)
        super().observe(edges)
        self._texts.add(self.history.columns[start:], self.history.edges[start:])
