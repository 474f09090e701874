"""As-of-time validation: the score of every component for validation links."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.data.types import Ids, Mask, Side
from edgeformers.evaluation.network_links import candidate_nodes
from edgeformers.evaluation.rolling import RollingBlock, RollingLinks
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.edge_history import EdgeHistory, NewEdges
from edgeformers.inference.encode import Vectors
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.rolling import (
    NOT_ARRIVED,
    RarelyRead,
    RollingPredictor,
    scoring_threads,
)
from edgeformers.inference.saved_components import GROUPS, Ensemble, degree_group
from edgeformers.inference.trained_components import TextComponent, TextEdge

TABLE_BYTES = 1 << 28  # scores of all components that are kept
MAX_EDGES = 200_000  # validation edges that are read, the first after training
MAX_LINKS = 2_000  # that are scored; more would hardly change the result (docs/decisions.md)
READ_TOGETHER = 8_192  # nodes whose texts are encoded together


class RollingValidation:
    """The scores of all components for validation links [n], in time order.

    Each link is scored with strictly earlier edges only. Of many links, evenly spaced ones among
    the first are kept. Scores of a component are divided by their standard deviation, 1 / `scales`;
    if that is below the component's `least_spread`, they and their scale are 0.

    Shapes: P components after the trained score, C candidates. `tables` are [n, 1 + P, C]; link i
    is to candidate `columns[i]`, ranked among those where `is_other[i]`.
    """

    def __init__(self, fitted: FittedLinkPredictor, components: Sequence[ScoreComponent]) -> None:
        network, count = fitted.network, 1 + len(components)
        group = degree_group(network.loader.source_sampler.adjacency.degrees())
        weights = torch.ones(GROUPS, count)
        options = Ensemble(components=components, weights=weights, group=torch.from_numpy(group))
        predictor = RollingPredictor(replace(fitted, ensemble=options))
        texts = predictor.read_texts(DeferredTexts)
        links = RollingLinks(network.graph, network.split, "val", limit=MAX_EDGES)
        candidates = candidate_nodes(network.graph)
        fitting = TABLE_BYTES // (4 * count * max(links.num_candidates, 1))
        every = math.ceil(links.num_links / max(1, min(fitting, MAX_LINKS))) or 1
        scored: list[_ScoredBlock] = []
        with scoring_threads(fitted):
            for block in links.blocks(predictor.observe, every=every):
                scored.append(_ScoredBlock.of(block, predictor, texts, candidates, len(components)))
        vectors, size = texts.encode(), links.num_candidates
        self.queries = _joined([each.sources for each in scored], (), np.int64)
        self.groups = _joined([each.groups for each in scored], (), np.int64)  # degree groups [n]
        self.columns = _joined([each.columns for each in scored], (), np.int64)
        self.is_other: Mask = _joined([each.is_other for each in scored], (size,), bool)
        tables = [each.with_texts(vectors) for each in scored]
        self.tables = torch.from_numpy(_joined(tables, (count, size), np.float32))
        spread = np.zeros(count)
        if self.is_other.any():
            spread[:] = [self.tables[:, p][self.is_other].std(correction=0) for p in range(count)]
        least = [ScoreComponent.least_spread, *(each.least_spread for each in components)]
        self.scales = np.divide(1.0, spread, out=np.zeros(count), where=spread >= np.array(least))
        self.tables *= torch.from_numpy(self.scales).float()[:, None]

    def __len__(self) -> int:
        return len(self.queries)


class DeferredTexts(RarelyRead):
    """Texts that are read many at a time, which is much faster than a few at a time.

    Until then, a node has the vector 0, and a row of what `encode` will return.
    """

    def __init__(self, text: TextComponent, history: EdgeHistory, growth: float) -> None:
        super().__init__(text, history, growth)
        self._sides: dict[Side, _DeferredSide] = {
            side: _DeferredSide(text, side) for side in get_args(Side)
        }

    def read(self, nodes: Ids, side: Side) -> Tensor:
        self._sides[side].add(nodes)
        return torch.zeros(len(nodes), 1)

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return torch.zeros(1)

    def rows(self, nodes: Ids, side: Side) -> Tensor:
        """The rows [n] of nodes as they were last read; row 0 is a source without edges."""
        last, is_known = self._sides[side].last, nodes != NOT_ARRIVED
        rows = np.zeros(len(nodes), np.int64)
        rows[is_known] = last[nodes[is_known]]
        return torch.from_numpy(rows)

    def encode(self) -> dict[Side, Tensor]:
        """Everything that was to be read of sources and of targets: [rows, R]."""
        nothing = NewEdges(source=np.empty(0, np.int64), target=np.empty(0, np.int64), texts=[])
        first = self.text.fold_in(nothing, "source").cpu()[None]
        return {side: torch.cat([first, own.encode()]) for side, own in self._sides.items()}


class _DeferredSide:
    """The nodes of one side that are to be read, with the edges that they had then."""

    def __init__(self, text: TextComponent, side: Side) -> None:
        self.text, self.side = text, side
        self.last = np.zeros(0, np.int64)  # of each node, its last row
        self._count = 0
        self._nodes: list[int] = []  # not encoded yet, and their edges
        self._edges: list[list[TextEdge] | None] = []
        self._encoded: list[Tensor] = []

    def add(self, nodes: Ids) -> None:
        missing = int(nodes.max(initial=-1)) + 1 - len(self.last)
        self.last = np.pad(self.last, (0, max(0, missing)))
        self.last[nodes] = self._count + 1 + np.arange(len(nodes))
        self._count += len(nodes)
        self._nodes += nodes.tolist()
        self._edges += self.text.changed_edges(nodes, self.side)
        if len(self._nodes) >= READ_TOGETHER:
            self._encode()

    def encode(self) -> Tensor:
        """The vectors [n, R] of all nodes, in the order of `add`."""
        self._encode()
        return torch.cat(self._encoded)

    def _encode(self) -> None:
        nodes = np.array(self._nodes, np.int64)
        vectors = self.text.vectors_with(nodes, self._edges, self.side)
        self._encoded.append(vectors.cpu())
        self._nodes, self._edges = [], []


@dataclass(frozen=True, kw_only=True)
class _ScoredBlock:
    """Links [q] of one moment and the scores of all candidates [C], except those of texts.

    `read_sources` and `read_targets` are rows of what `DeferredTexts` encodes.
    """

    sources: Ids  # [q]
    groups: Ids  # [q], degree groups
    columns: Ids  # [q]
    is_other: Mask  # [q, C]
    table: Vectors  # [q, 1 + P, C]
    read_sources: Tensor  # [q]
    read_targets: Tensor  # [C]
    has_target: Tensor  # [C], others score 0

    @classmethod
    def of(
        cls,
        block: RollingBlock,
        predictor: RollingPredictor,
        texts: DeferredTexts,
        candidates: Ids,
        components: int,
    ) -> "_ScoredBlock":
        scores = predictor.component_scores_at(block.sources, block.time)
        trained = scores.shape[1] - components  # parts of the trained score; texts are the first
        total = scores[:, 1:trained].sum(1, keepdims=True)
        return cls(
            sources=block.sources,
            groups=predictor.groups(block.sources),
            columns=block.columns,
            is_other=block.is_other,
            table=np.concatenate([total, scores[:, trained:]], 1),
            read_sources=texts.rows(predictor.numbers(block.sources), "source"),
            read_targets=texts.rows(predictor.numbers(candidates), "target"),
            has_target=torch.from_numpy(predictor.has_arrived),
        )

    def with_texts(self, vectors: Mapping[Side, Tensor]) -> Vectors:
        """The table with the scores of texts."""
        keys = vectors["target"][self.read_targets] * self.has_target[:, None]
        scores = (vectors["source"][self.read_sources] @ keys.T).numpy()
        return np.concatenate([self.table[:, :1] + scores[:, None], self.table[:, 1:]], 1)


def _joined(parts: Sequence[NDArray[Any]], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Parts [n, *shape] in one array, which is empty without any."""
    return np.concatenate([np.empty((0, *shape), dtype), *parts])
