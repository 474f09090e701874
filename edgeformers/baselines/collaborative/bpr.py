"""BPR: matrix factorization that ranks links above non-links (Rendle et al., 2009)."""

from collections.abc import Sequence

import torch

from edgeformers.baselines.collaborative.pairwise import PairwiseConfig, PairwiseLinks, Represent

GRID = tuple(PairwiseConfig(l2=l2) for l2 in (3e-2, 1e-2, 6e-2))


class BPR(PairwiseLinks):
    """Scores x_q . y_c; each link is to score above a candidate drawn evenly from the others.

    A query without a training link gets the candidates in the order of popularity. About a
    minute for 20,000 links on one core.
    """

    def __init__(
        self, grid: Sequence[PairwiseConfig] = GRID, *, seed: int = 0, show: bool = False
    ) -> None:
        super().__init__(grid, seed=seed, show=show)

    def _representation(self, device: torch.device) -> Represent:
        return lambda rows, columns: (rows, columns)
