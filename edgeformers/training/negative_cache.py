"""NegativeCache: the last computed states of target nodes, used as negatives of links.

Encoding a negative costs as much as encoding a positive; reading its last state costs nothing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids

MAX_NODES = 65_536  # cached at a time; of more candidates, others are chosen at every refresh
REFRESH_RATIO = 10  # nodes encoded by training per node encoded by a refresh
REFRESH_BATCH = 512  # nodes; without gradients they need little memory


class NegativeCache:
    """States of all candidates, or of `MAX_NODES` of them at a time.

    A refresh encodes all cached nodes with the current model. Between refreshes, `update` writes
    what training encodes anyway. All processes hold the same cache.

    Shapes: S cached nodes in random order, n nodes, D width.
    """

    def __init__(
        self, candidates: Ids, num_nodes: int, width: int, *, seed: int, device: torch.device
    ) -> None:
        self.candidates, self.seed = candidates, seed
        size = min(len(candidates), MAX_NODES)
        self.nodes = torch.zeros(size, dtype=torch.long, device=device)  # [S]
        self.states = torch.zeros(size + 1, width, device=device)  # the last row is never read
        self.drawn = 0  # batches of negatives so far
        self._slots = torch.full((num_nodes,), -1, dtype=torch.int32, device=device)

    def __len__(self) -> int:
        return len(self.nodes)

    def refresh(self, encode: Callable[[Ids], Tensor]) -> None:
        """Choose the cached nodes and encode them: `encode` maps nodes to states [n, D]."""
        keys = hash_keys(self.seed, 0x4E7, self.drawn, self.candidates)
        chosen = self.candidates[np.argsort(keys, kind="stable")[: len(self)]]
        self._set_nodes(torch.from_numpy(chosen))
        self.states[: len(self)].copy_(encode(chosen))

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """The next `count` nodes in turn and their states [n, D]; all, if there are fewer."""
        size, count = len(self), min(count, len(self))
        start, self.drawn = self.drawn * count % size, self.drawn + 1
        if start + count <= size:
            rows = slice(start, start + count)
            return self.nodes[rows], self.states[rows].clone()  # `update` changes the states
        rest = start + count - size
        return (
            torch.cat([self.nodes[start:], self.nodes[:rest]]),
            torch.cat([self.states[start:size], self.states[:rest]]),
        )

    def holds(self, nodes: Tensor) -> Tensor:
        """Whether nodes [n] are cached."""
        return self._slots[nodes] >= 0

    def states_of(self, nodes: Tensor) -> Tensor:
        """The states [n, D] of cached nodes."""
        return self.states[self._slots[nodes].long()]

    @torch.no_grad()
    def update(self, nodes: Tensor, states: Tensor) -> None:
        """Replace the states of nodes [n] that are cached, by the mean if a node is repeated.

        The mean does not depend on the order of nodes, which differs among processes.
        """
        same = (nodes[:, None] == nodes).float()  # [n, n]
        means = same @ states.float() / same.sum(1, keepdim=True)
        self.states[self._slots[nodes].long()] = means

    def state_dict(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "states": self.states, "drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["states"].shape != self.states.shape:
            raise ValueError(
                f"a cache of {list(state['states'].shape)} instead of {list(self.states.shape)}"
            )
        self._set_nodes(state["nodes"])
        self.states.copy_(state["states"])
        self.drawn = int(state["drawn"])

    def _set_nodes(self, nodes: Tensor) -> None:
        self.nodes.copy_(nodes)
        self._slots.fill_(-1)  # the last row
        self._slots[self.nodes] = torch.arange(len(nodes), device=nodes.device).to(self._slots)
