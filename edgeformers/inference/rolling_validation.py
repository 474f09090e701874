"""As-of-time validation: the score of every component for validation links."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from edgeformers.data.types import Mask
from edgeformers.evaluation.rolling import RollingLinks
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.rolling import RollingPredictor, scoring_threads
from edgeformers.inference.saved_components import GROUPS, Ensemble, degree_group

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
        predictor = RollingPredictor(replace(fitted, ensemble=options))
        links = RollingLinks(network.graph, network.split, "val", limit=MAX_EDGES)
        fitting = TABLE_BYTES // (4 * count * max(links.num_candidates, 1))
        every = math.ceil(links.num_links / max(1, min(fitting, MAX_LINKS))) or 1
        queries, tables, columns, others, groups = [], [], [], [], []
        with scoring_threads(fitted):
            for block in links.blocks(predictor.observe, every=every):
                scores = predictor.component_scores_at(block.sources, block.time)
                trained = scores.shape[1] - len(components)  # parts of the trained score
                total = scores[:, :trained].sum(1, keepdims=True)
                tables.append(np.concatenate([total, scores[:, trained:]], 1))
                queries.append(block.sources)
                columns.append(block.columns)
                others.append(block.is_other)
                groups.append(predictor.groups(block.sources))
        self.queries = np.concatenate([np.empty(0, np.int64), *queries])
        self.groups = np.concatenate([np.empty(0, np.int64), *groups])  # degree groups [n]
        self.columns = np.concatenate([np.empty(0, np.int64), *columns])
        empty = np.empty((0, links.num_candidates), bool)
        self.is_other: Mask = np.concatenate([empty, *others])
        empty_tables = np.empty((0, count, links.num_candidates), np.float32)
        self.tables = torch.from_numpy(np.concatenate([empty_tables, *tables]))
        spread = np.zeros(count)
        if self.is_other.any():
            spread[:] = [self.tables[:, p][self.is_other].std(correction=0) for p in range(count)]
        least = [ScoreComponent.least_spread, *(each.least_spread for each in components)]
        self.scales = np.divide(1.0, spread, out=np.zeros(count), where=spread >= np.array(least))
        self.tables *= torch.from_numpy(self.scales).float()[:, None]

    def __len__(self) -> int:
        return len(self.queries)
