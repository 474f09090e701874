"""BPR: matrix factorization trained to rank links above non-links (Rendle et al., 2009)."""

from edgeformers.baselines.collaborative.pairwise import (
    PairwiseBaseline,
    PairwiseConfig,
    Transform,
)


class BPR(PairwiseBaseline):
    """Scores x_q . y_c; each link is trained against a uniformly drawn non-link.

    Takes about a minute for 20,000 links on one core.
    """

    default_grid = tuple(PairwiseConfig(l2=l2) for l2 in (3e-2, 1e-2, 6e-2))

    def _transform(self) -> Transform:
        return lambda queries, candidates: (queries, candidates)
