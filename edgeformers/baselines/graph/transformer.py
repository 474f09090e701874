"""A graph transformer with edge features on frozen text vectors, the setting of TEG-DB (2024).

Needs PyTorch Geometric (extra `pyg`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.base import Scores
from edgeformers.baselines.temporal.history import LinkHistory, TimedLinks
from edgeformers.baselines.temporal.texts import (
    LinkTexts,
    MeanTexts,
    TextBaseline,
    softmax_loss,
)
from edgeformers.data.types import Ids, Mask
from edgeformers.errors import require

SUPERVISED = 0.5  # of the links in each step; messages pass along the others
BATCH = 8_192  # links that one step predicts


@dataclass(frozen=True, kw_only=True)
class GraphTransformerConfig:
    """Settings of one training run."""

    width: int = 64
    heads: int = 2
    layers: int = 2
    neighbors: int = 16  # links of a node that it attends to: the most recent, in training random
    dropout: float = 0.2
    lr: float = 3e-3
    steps: int = 60


class GraphTransformer(TextBaseline[GraphTransformerConfig]):
    """Nodes attend to their neighbors (`TransformerConv`); the texts of links are edge features.

    A node starts as the mean text vector of its links, so that nodes that arrive later are nodes
    like any other. In each step half of the links are predicted from the other half. When links
    arrive, the states of their two nodes are computed again. Works without times too.
    """

    default_grid = (GraphTransformerConfig(), GraphTransformerConfig(lr=1e-3, steps=120))

    def _train(self, config: GraphTransformerConfig) -> Callable[[LinkHistory], "_CachedStates"]:
        texts = self._texts
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            module = _Convolutions(config, len(texts.center)).to(self.device)
            random = np.random.default_rng(self.seed)
            optimizer = torch.optim.AdamW(module.parameters(), lr=config.lr)
            for _ in range(config.steps):
                loss = self._loss(module, config, random)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return lambda history: _CachedStates(module.eval(), history, texts, config.neighbors)

    def _loss(
        self, module: "_Convolutions", config: GraphTransformerConfig, random: np.random.Generator
    ) -> Tensor:
        """Predict some links from the others, whose texts alone are read."""
        history = self.history
        is_predicted = random.random(len(history.edges)) < SUPERVISED
        shuffled = random.permutation(np.flatnonzero(~is_predicted))
        ends = _ends(history, shuffled)
        means = MeanTexts(self._texts, history.num_sources + history.num_candidates)
        for nodes in ends:
            means.add(nodes, history.edges[shuffled])
        kept = [_first_of_each(nodes, config.neighbors) for nodes in ends]
        messages = _Messages.of(ends, [history.edges[shuffled]] * 2, kept, self._texts)
        table = module(torch.from_numpy(means.means()).to(self.device), messages.to(self.device))
        chosen = random.permutation(np.flatnonzero(is_predicted))[:BATCH]
        sources, columns = (
            torch.from_numpy(own[chosen]).to(self.device)
            for own in (history.sources, history.columns)
        )
        return softmax_loss(table[sources], table[history.num_sources :], columns)


@dataclass(frozen=True)
class _Messages:
    """Messages [m]: the node that sends, the node that receives, and the text between them."""

    index: Tensor  # [2, m]
    texts: Tensor  # [m, D]

    @classmethod
    def of(
        cls, ends: tuple[Ids, Ids], edges: Sequence[Ids], kept: Sequence[Mask], texts: LinkTexts
    ) -> "_Messages":
        """Messages in both directions along links, of which each receiver keeps some."""
        senders = np.concatenate([ends[1][kept[0]], ends[0][kept[1]]])
        receivers = np.concatenate([ends[0][kept[0]], ends[1][kept[1]]])
        read = np.concatenate([own[keep] for own, keep in zip(edges, kept, strict=True)])
        vectors = texts.of(read)
        return cls(torch.from_numpy(np.stack([senders, receivers])), torch.from_numpy(vectors))

    def to(self, device: torch.device) -> "_Messages":
        return _Messages(self.index.to(device), self.texts.to(device))


class _Convolutions(nn.Module):
    def __init__(self, config: GraphTransformerConfig, text_width: int) -> None:
        super().__init__()
        conv: Any = require("torch_geometric.nn", "pyg").TransformerConv
        width, share = config.width, config.width // config.heads
        self.nodes, self.edges = nn.Linear(text_width, width), nn.Linear(text_width, width)
        self.convolutions = nn.ModuleList(
            conv(width, share, config.heads, dropout=config.dropout, edge_dim=width)
            for _ in range(config.layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.layers))

    def forward(self, texts: Tensor, messages: _Messages) -> Tensor:
        """Text vectors of all nodes [n, D] -> their states after the last layer [n, K]."""
        states: Tensor = self.nodes(texts)
        edges = self.edges(messages.texts)
        for layer in range(len(self.norms)):
            states = self.layer(layer, states, states, messages.index, edges)
        return states

    def layer(
        self, layer: int, senders: Tensor, receivers: Tensor, index: Tensor, edges: Tensor
    ) -> Tensor:
        """One layer: states of senders [s, K] and receivers [r, K] -> new states [r, K]."""
        attended = self.convolutions[layer]((senders, receivers), index, edges)
        states: Tensor = self.norms[layer](receivers + F.gelu(attended))
        return states


class _CachedStates:
    """The states of all nodes after each layer; those of nodes with new links are replaced."""

    def __init__(
        self, module: _Convolutions, history: LinkHistory, texts: LinkTexts, neighbors: int
    ) -> None:
        self._module, self._history, self._texts = module, history, texts
        self._neighbors = neighbors
        count = history.num_sources + history.num_candidates
        self._means = MeanTexts(texts, count)
        device = next(module.parameters()).device
        layers = len(module.norms) + 1
        self._states = torch.zeros(layers, count, module.nodes.out_features, device=device)
        self._refresh(np.arange(count), _ends(history, np.arange(len(history.edges))))

    def observe(self, edges: Ids) -> None:
        start = len(self._history.edges)
        links: TimedLinks = self._history.add(edges)
        if len(links):
            ends = _ends(self._history, np.arange(start, start + len(links)))
            self._refresh(np.unique(np.concatenate(ends)), ends)

    def scores(self, sources: Ids) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C]."""
        table = self._states[-1]
        rows = torch.from_numpy(sources).to(table.device)
        return np.asarray((table[rows] @ table[self._history.num_sources :].T).cpu().numpy())

    @torch.inference_mode()
    def _refresh(self, nodes: Ids, ends: tuple[Ids, Ids]) -> None:
        """Compute the states of nodes again after the last links, with these ends, were added."""
        edges = self._history.edges[len(self._history.edges) - len(ends[0]) :]
        for own in ends:
            self._means.add(own, edges)
        device = self._states.device
        at = torch.from_numpy(nodes).to(device)
        means = torch.from_numpy(self._means.means(nodes)).to(device)
        self._states[0, at] = self._module.nodes(means)
        senders, index, texts = (part.to(device) for part in self._messages_to(nodes))
        features = self._module.edges(texts)
        for layer in range(len(self._module.norms)):
            before = self._states[layer]
            states = self._module.layer(layer, before[senders], before[at], index, features)
            self._states[layer + 1, at] = states

    def _messages_to(self, nodes: Ids) -> tuple[Tensor, Tensor, Tensor]:
        """Senders [s], messages [2, m] between senders and these nodes, and their texts [m, D]."""
        history, first = self._history, self._history.num_sources
        links = [
            (history.of_source(node) if node < first else history.of_column(node - first))[
                -self._neighbors :
            ]
            for node in nodes.tolist()
        ]
        receiver = np.repeat(np.arange(len(nodes)), [len(own) for own in links])
        link = np.concatenate([*links, np.empty(0, np.int64)]).astype(np.int64)
        sources, candidates = _ends(history, link)
        sender = np.where(nodes[receiver] < first, candidates, sources)
        senders, position = np.unique(sender, return_inverse=True)
        index = np.stack([position, receiver])
        vectors = self._texts.of(history.edges[link])
        return torch.from_numpy(senders), torch.from_numpy(index), torch.from_numpy(vectors)


def _ends(history: LinkHistory, links: Ids) -> tuple[Ids, Ids]:
    """The two nodes of links: sources are numbered first, then candidates."""
    return history.sources[links], history.columns[links] + history.num_sources


def _first_of_each(groups: Ids, count: int) -> Mask:
    """Whether each element is among the first `count` of its group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    rank = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    keep = np.empty(len(groups), bool)
    keep[order] = rank < count
    return keep
