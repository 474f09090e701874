"""A simulated network of readable reviews, of any size, whose best achievable scores are known."""

from edgeformers.data.simulate.best_edges import BestScores, EdgeScore
from edgeformers.data.simulate.best_links import BestLinkScores, LinkScore
from edgeformers.data.simulate.config import SimulationConfig
from edgeformers.data.simulate.simulation import Simulation, simulate

__all__ = [
    "BestLinkScores",
    "BestScores",
    "EdgeScore",
    "LinkScore",
    "Simulation",
    "SimulationConfig",
    "simulate",
]
