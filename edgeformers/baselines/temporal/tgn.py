"""TGN (Rossi et al., 2020) on frozen text vectors: memories of nodes and temporal attention.

Needs PyTorch Geometric (extra `pyg`).
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.baselines.base import Scores
from edgeformers.baselines.temporal.history import LinkHistory
from edgeformers.baselines.temporal.texts import TextBaseline
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.times import DAY
from edgeformers.data.types import Ids
from edgeformers.errors import require
from edgeformers.evaluation.links import BLOCK, index_blocks
from edgeformers.evaluation.network_links import candidate_nodes

TEXT_WIDTH = 64  # principal components of the text vectors
HOUR = DAY // 24
REPLAYED = 1_000  # links read at once after training


@dataclass(frozen=True, kw_only=True)
class TGNConfig:
    """Settings of one training run."""

    width: int = 64  # of memories, time encodings and states
    heads: int = 2
    neighbors: int = 10  # last links of a node that it attends to
    negatives: int = 5  # uniform candidates per link
    lr: float = 1e-3
    epochs: int = 3
    batch: int = 200  # links


class TGN(TextBaseline[TGNConfig]):
    """Every node has a memory, updated by its links and their texts (`TGNMemory`).

    Its state attends to its last links; a small network scores a pair of states. Texts are 64
    principal components of their frozen vectors. Training reads links in time order.
    Later, states are computed again for the nodes of links that arrive.
    """

    default_grid = (TGNConfig(), TGNConfig(lr=3e-4, epochs=5))

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        super()._prepare(graph, split)
        texts = self._texts
        trained = texts.of(np.unique(self.history.edges))
        width = min(TEXT_WIDTH, *trained.shape)
        axes = np.linalg.svd(trained.T @ trained)[0][:, :width]  # principal axes [D, R]
        self._messages: Callable[[Ids], Tensor] = lambda edges: torch.from_numpy(
            texts.of(edges) @ axes
        )
        self._first_time, self._candidates = int(self.history.times[0]), candidate_nodes(graph)
        self._size = graph.num_nodes, width

    def _train(self, config: TGNConfig) -> Callable[[LinkHistory], "_ReadingModel"]:
        history = self.history
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            model = _TemporalGraph(*self._size, config).to(self.device)
            optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
            candidates = torch.from_numpy(self._candidates).to(self.device)
            for _ in range(config.epochs):
                model.forget(history.capacity)
                for rows in index_blocks(len(history.edges), config.batch):
                    events = self._events(history, rows)
                    drawn = torch.randint(len(candidates), (len(rows), config.negatives))
                    loss = model.loss(events, candidates[drawn.to(self.device)])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    model.read(*events)
                    model.memory.detach()
        return lambda started: _ReadingModel(model, started, self._events, self._candidates)

    def _events(self, history: LinkHistory, links: Ids) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sources, targets, times in hours and texts of links [m]."""
        targets = history.columns[links] + self._candidates[0]
        hours = (history.times[links] - self._first_time) // HOUR
        ends = (torch.from_numpy(part) for part in (history.sources[links], targets, hours))
        source, target, time = (part.to(self.device) for part in ends)
        return source, target, time, self._messages(history.edges[links]).to(self.device)


class _TemporalGraph(nn.Module):
    def __init__(self, num_nodes: int, text_width: int, config: TGNConfig) -> None:
        super().__init__()
        geometric = require("torch_geometric.nn", "pyg")
        tgn: Any = require("torch_geometric.nn.models.tgn", "pyg")
        width = config.width
        message = tgn.IdentityMessage(text_width, width, width)
        self.memory = tgn.TGNMemory(
            num_nodes, text_width, width, width, message, tgn.LastAggregator()
        )
        self.attention = geometric.TransformerConv(
            width, width // config.heads, config.heads, dropout=0.1, edge_dim=text_width + width
        )
        self.source, self.target = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, 1)
        self._loader = lambda device: tgn.LastNeighborLoader(
            num_nodes, size=config.neighbors, device=device
        )

    def forget(self, capacity: int) -> None:
        """Start from empty memories, with room for so many links."""
        device = self.score.weight.device
        self.memory.reset_state()
        self.neighbors = self._loader(device)
        self.neighbors.reset_state()
        self.times = torch.empty(capacity, dtype=torch.long, device=device)
        self.texts = torch.empty(capacity, self.memory.raw_msg_dim, device=device)

    def read(self, source: Tensor, target: Tensor, time: Tensor, text: Tensor) -> None:
        """Update memories and neighbors by links, in time order."""
        self.memory.update_state(source, target, time, text)
        start = self.neighbors.cur_e_id
        self.neighbors.insert(source, target)
        self.times[start : start + len(time)] = time
        self.texts[start : start + len(time)] = text

    def states(self, nodes: Tensor) -> Tensor:
        """Distinct nodes [n] -> states [n, K]."""
        around, index, links = self.neighbors(nodes)
        position = torch.empty(self.memory.num_nodes, dtype=torch.long, device=nodes.device)
        position[around] = torch.arange(len(around), device=nodes.device)
        memory, updated = self.memory(around)
        age = (updated[index[0]] - self.times[links]).to(memory.dtype)
        features = torch.cat([self.memory.time_enc(age), self.texts[links]], dim=1)
        states: Tensor = self.attention(memory, index, features)[position[nodes]]
        return states

    def loss(self, events: tuple[Tensor, ...], negatives: Tensor) -> Tensor:
        """Cross-entropy of links against uniform candidates [m, n]."""
        source, target = events[:2]
        nodes, position = torch.unique(
            torch.cat([source, target, negatives.flatten()]), return_inverse=True
        )
        states = self.states(nodes)[position]
        query = self.source(states[: len(source)])[:, None]  # [m, 1, K]
        positive, drawn = states[len(source) :].split([len(source), negatives.numel()])
        key = torch.cat([positive[:, None], drawn.unflatten(0, negatives.shape)], 1)
        logits = self.score(F.relu(query + self.target(key)))[..., 0]
        is_link = torch.zeros_like(logits)
        is_link[:, 0] = 1.0
        return F.binary_cross_entropy_with_logits(logits, is_link)


class _ReadingModel:
    """A trained model that has read a history; states of candidates are kept."""

    def __init__(
        self,
        model: _TemporalGraph,
        history: LinkHistory,
        events: Callable[[LinkHistory, Ids], tuple[Tensor, Tensor, Tensor, Tensor]],
        candidates: Ids,
    ) -> None:
        self._model, self._history, self._events = deepcopy(model).eval(), history, events
        self._first = int(candidates[0])
        self._model.forget(history.capacity)
        with torch.inference_mode():
            for rows in index_blocks(len(history.edges), REPLAYED):
                self._model.read(*events(history, rows))
            self._states = torch.cat(
                [self._of(candidates[rows]) for rows in index_blocks(len(candidates), REPLAYED)]
            )

    @torch.inference_mode()
    def observe(self, edges: Ids) -> None:
        start = len(self._history.edges)
        self._history.add(edges)
        links = np.arange(start, len(self._history.edges))
        if not len(links):
            return
        self._model.read(*self._events(self._history, links))
        history = self._history
        nodes = np.concatenate([history.sources[links], history.columns[links] + self._first])
        changed = np.unique(nodes[nodes >= self._first])
        self._states[torch.from_numpy(changed - self._first)] = self._of(changed)

    @torch.inference_mode()
    def scores(self, sources: Ids) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C]."""
        distinct, position = np.unique(sources, return_inverse=True)
        query, key = self._model.source(self._of(distinct)), self._model.target(self._states)
        size = max(1, BLOCK // key.numel())
        tables = [
            self._model.score(F.relu(query[rows, None] + key))[..., 0].cpu().numpy()
            for rows in map(torch.from_numpy, index_blocks(len(query), size))
        ]
        return np.asarray(np.concatenate(tables)[position])

    def _of(self, nodes: Ids) -> Tensor:
        return self._model.states(torch.from_numpy(nodes).to(self._model.score.weight.device))
