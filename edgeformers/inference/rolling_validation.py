"""As-of-time validation: the score of every component for validation links."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
        predictor = RollingPredictor(replace(fitted, ensemble=options), read=DeferredTexts)
        links = RollingLinks(network.graph, network.split, "val", limit=MAX_EDGES)
        candidates = candidate_nodes(network.graph)
        fitting = TABLE_BYTES // (4 * count * max(links.num_candidates, 1))
        every = math.ceil(links.num_links / max(1, min(fitting, MAX_LINKS))) or 1
        scored: list[_ScoredBlock] = []
        with scoring_threads(fitted):
            for block in links.blocks(predictor.observe, every=every):
                scored.append(_ScoredBlock.of(block, predictor, candidates, len(components)))
        assert isinstance(predictor.texts, DeferredTexts)
        vectors, size = predictor.texts.encode(), links.num_candidates
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
    """Texts that are read together at the end, which is much faster than a few at a time.

    Until then, a node has the vector 0, and a row of what `encode` will return.
    """

    def __init__(self, text: TextComponent, history: EdgeHistory, growth: float) -> None:
        super().__init__(text, history, growth)
        self._rows: dict[tuple[int, Side], int] = {}
        self._nodes: dict[Side, list[int]] = {"source": [], "target": []}
        self._edges: dict[Side, list[list[TextEdge] | None]] = {"source": [], "target": []}

    def read(self, nodes: Ids, side: Side) -> Tensor:
        for node in nodes.tolist():
            self._nodes[side].append(node)
            self._rows[node, side] = len(self._nodes[side])
        self._edges[side] += self.text.changed_edges(nodes, side)
        return torch.zeros(len(nodes), 1)

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return torch.zeros(1)

    def rows(self, nodes: Ids, side: Side) -> Tensor:
        """The rows [n] of nodes as they are now; row 0 is a source without edges."""
        known = nodes[nodes != NOT_ARRIVED]
        self.vectors(known, side)  # reads those whose edges have grown
        rows = np.zeros(len(nodes), np.int64)
        rows[nodes != NOT_ARRIVED] = [self._rows[node, side] for node in known.tolist()]
        return torch.from_numpy(rows)

    def encode(self) -> dict[Side, Tensor]:
        """Everything that was to be read of sources and of targets: [rows, R]."""
        nothing = NewEdges(source=np.empty(0, np.int64), target=np.empty(0, np.int64), texts=[])
        first = self.text.fold_in(nothing, "source").cpu()[None]
        read = {
            side: self.text.vectors_with(np.array(nodes, np.int64), self._edges[side], side).cpu()
            for side, nodes in self._nodes.items()
        }
        return {side: torch.cat([first, rows]) for side, rows in read.items()}


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
        cls, block: RollingBlock, predictor: RollingPredictor, candidates: Ids, components: int
    ) -> "_ScoredBlock":
        scores = predictor.component_scores_at(block.sources, block.time)
        trained = scores.shape[1] - components  # parts of the trained score; texts are the first
        total = scores[:, 1:trained].sum(1, keepdims=True)
        assert isinstance(predictor.texts, DeferredTexts)
        read_sources = predictor.texts.rows(predictor.numbers(block.sources), "source")
        read_targets = predictor.texts.rows(predictor.numbers(candidates), "target")
        return cls(
            sources=block.sources,
            groups=predictor.groups(block.sources),
            columns=block.columns,
            is_other=block.is_other,
            table=np.concatenate([total, scores[:, trained:]], 1),
            read_sources=read_sources,
            read_targets=read_targets,
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
