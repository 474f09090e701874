"""SASRec (Kang and McAuley, 2018): a causal transformer over the candidates of a source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.baselines.base import Scores
from edgeformers.baselines.temporal.history import LinkHistory
from edgeformers.baselines.temporal.texts import (
    LinkTexts,
    TextBaseline,
    add_to_candidates,
    candidate_texts,
    softmax_loss,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids

PADDING = -1


@dataclass(frozen=True, kw_only=True)
class SASRecConfig:
    """Settings of one training run."""

    width: int = 64
    layers: int = 2
    heads: int = 2
    dropout: float = 0.2
    lr: float = 1e-3
    epochs: int = 20
    length: int = 50  # most recent links of a source that are read
    batch: int = 64  # sequences


class SASRec(TextBaseline[SASRecConfig]):
    """Predicts the next candidate of a source from its last 50, by softmax over candidates.

    A candidate is a learned vector.
    """

    default_grid = (SASRecConfig(), SASRecConfig(dropout=0.5, epochs=40))

    reads_texts = False

    def _prepare(self, graph: EdgeTextGraph, split: str) -> None:
        if self.reads_texts:
            super()._prepare(graph, split)

    def _train(self, config: SASRecConfig) -> Callable[[LinkHistory], "_SequenceModel"]:
        history, texts = self.history, self._texts if self.reads_texts else None
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            module = _Transformer(config, history, texts).to(self.device)
            _train_epochs(module, _windows(history, config.length + 1), config, texts, history)
        return lambda started: _SequenceModel(module.eval(), started, texts)


class SASRecText(SASRec):
    """SASRec in which a candidate is a projection of the mean frozen text vector of its links.

    Candidates that training never saw have one too.
    """

    reads_texts = True


class _Transformer(nn.Module):
    is_trained: Tensor  # [C, 1]

    def __init__(self, config: SASRecConfig, history: LinkHistory, texts: LinkTexts | None) -> None:
        super().__init__()
        width = config.width
        self.length = config.length
        self.ids = nn.Embedding(history.num_candidates, width) if texts is None else None
        self.projection = nn.Linear(len(texts.center), width) if texts is not None else None
        self.positions = nn.Parameter(0.02 * torch.randn(config.length, width))
        layer = nn.TransformerEncoderLayer(
            width,
            config.heads,
            2 * width,
            config.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(config.dropout)
        trained = np.bincount(history.columns, minlength=history.num_candidates) > 0
        self.register_buffer("is_trained", torch.from_numpy(trained)[:, None])

    def keys(self, texts: Scores | None) -> Tensor:
        """The vectors of all candidates [C, K]; zeros for ids that training never saw."""
        if self.ids is not None:
            return self.ids.weight * self.is_trained
        assert self.projection is not None
        vectors: Tensor = self.projection(torch.from_numpy(texts).to(self.positions.device))
        return vectors

    def forward(self, keys: Tensor, columns: Tensor) -> Tensor:
        """Candidates [C, K] and sequences [b, L], padded at the end -> states [b, L, K]."""
        size = columns.size(1)
        hidden = keys[columns.clamp(min=0)] + self.positions[:size]
        mask = torch.ones(size, size, dtype=torch.bool, device=keys.device).triu(1)
        states: Tensor = self.norm(self.layers(self.dropout(hidden), mask=mask, is_causal=True))
        return states


class _SequenceModel:
    """A trained transformer and the links of every source so far."""

    def __init__(self, module: _Transformer, history: LinkHistory, texts: LinkTexts | None) -> None:
        self._module, self._history = module, history
        self._texts = None if texts is None else candidate_texts(texts, history)
        self._keys: Tensor | None = None

    def observe(self, edges: Ids) -> None:
        add_to_candidates(self._texts, self._history.add(edges))
        self._keys = None

    @torch.inference_mode()
    def scores(self, sources: Ids) -> Scores:
        """Source nodes [q] -> scores of all candidates [q, C]."""
        module, history = self._module, self._history
        if self._keys is None:
            self._keys = module.keys(None if self._texts is None else self._texts.means())
        links = [history.of_source(source)[-module.length :] for source in sources.tolist()]
        columns = _padded([history.columns[own] for own in links]).to(self._keys.device)
        last = (columns != PADDING).sum(1) - 1
        states = module(self._keys, columns)[torch.arange(len(sources)), last]
        return np.asarray((states @ self._keys.T).cpu().numpy())


def _windows(history: LinkHistory, length: int) -> Tensor:
    """The sequences of all sources in windows [w, length], the last link of one being the first of
    the next.
    """
    windows = []
    for source in np.unique(history.sources).tolist():
        columns = history.columns[history.of_source(source)]
        starts = range(0, max(1, len(columns) - 1), length - 1)
        windows += [columns[start : start + length] for start in starts]
    return _padded([window for window in windows if len(window) > 1] or [np.zeros(2, np.int64)])


def _padded(sequences: Sequence[Ids]) -> Tensor:
    table = np.full((len(sequences), max(map(len, sequences))), PADDING)
    for row, own in zip(table, sequences, strict=True):
        row[: len(own)] = own
    return torch.from_numpy(table)


def _train_epochs(
    module: _Transformer,
    windows: Tensor,
    config: SASRecConfig,
    texts: LinkTexts | None,
    history: LinkHistory,
) -> None:
    device = module.positions.device
    means = None if texts is None else candidate_texts(texts, history).means()
    optimizer = torch.optim.AdamW(module.parameters(), lr=config.lr, weight_decay=1e-2)
    for _ in range(config.epochs):
        for rows in torch.randperm(len(windows)).split(config.batch):
            batch = windows[rows].to(device)
            inputs, targets = batch[:, :-1], batch[:, 1:]
            keys = module.keys(means)
            is_real = targets != PADDING
            loss = softmax_loss(module(keys, inputs)[is_real], keys, targets[is_real])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
