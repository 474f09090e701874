"""NetworkSplits: the splits of a network, and the training edges that each one leaves."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.adjacency import Adjacency, build_adjacency
from edgeformers.data.splits import (
    PROFILE,
    TRAIN,
    EdgeList,
    SplitConfig,
    make_split,
    seen_in_training,
)
from edgeformers.data.types import Mask, SplitCodes
from edgeformers.errors import ConfigError, InputError, suggest


class NetworkSplits(Mapping[str, SplitCodes]):
    """Split codes by name: those written by `prepare`, and others on demand.

    As a mapping it holds the prepared splits. `codes` also accepts a description, such as
    `cold-source` or `random+seed-1` (see `SplitConfig.parse`), and makes that split.
    """

    def __init__(
        self,
        prepared: Mapping[str, SplitCodes],
        configs: Mapping[str, SplitConfig],
        edges: EdgeList,
    ) -> None:
        self.configs = configs
        self.edges = edges
        self._prepared = dict(prepared)
        self._on_demand: dict[str, SplitCodes] = {}

    def __getitem__(self, name: str) -> SplitCodes:
        return self._prepared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._prepared)

    def __len__(self) -> int:
        return len(self._prepared)

    def codes(self, name: str) -> SplitCodes:
        """The part of every edge [E] in a prepared split, or in one made from its description."""
        if name in self:
            return self[name]
        if name not in self._on_demand:
            self._on_demand[name] = make_split(self._described(name), self.edges)
        return self._on_demand[name]

    def has(self, name: str) -> bool:
        """Whether `codes` accepts the name."""
        try:
            return name in self or bool(self._described(name))
        except InputError:
            return False

    def _described(self, name: str) -> SplitConfig:
        with suppress(ConfigError):
            config = SplitConfig.parse(name)
            if config.how != "column" and not (config.needs_times and self.edges.times is None):
                return config
        raise InputError(f"the network has no split '{name}'; {suggest(name, self)}")

    def seen_in_training(self, name: str) -> Mask:
        """Whether each node has a training edge [V]."""
        return seen_in_training(self.codes(name), self.edges)

    def training_adjacency(
        self, name: str, strata: NDArray[np.int16] | None = None, num_strata: int = 1
    ) -> Adjacency:
        """The training edges around every node, `strata[e]` being the stratum of edge e.

        A node without training edges has its profile edges instead; no other node sees these.
        """
        codes, edges = self.codes(name), self.edges
        unseen = ~self.seen_in_training(name)
        is_profile = codes == PROFILE
        adjacency = build_adjacency(
            edges.src,
            edges.dst,
            edges.num_nodes,
            keep=(
                (codes == TRAIN) | (is_profile & unseen[edges.src]),
                (codes == TRAIN) | (is_profile & unseen[edges.dst]),
            ),
            strata=strata,
            num_strata=num_strata,
        )
        if not is_profile.any():
            return adjacency
        return replace(adjacency, held_out=unseen & (adjacency.degrees() > 0))
