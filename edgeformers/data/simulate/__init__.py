"""A network of readable reviews with a known best answer, of any size, from a seed."""

from edgeformers.data.simulate.best import BestScores, EdgeScore
from edgeformers.data.simulate.config import SimulationConfig
from edgeformers.data.simulate.links import BestLinkScores, LinkScore
from edgeformers.data.simulate.simulation import Simulation, simulate

__all__ = [
    "BestLinkScores",
    "BestScores",
    "LinkScore",
    "EdgeScore",
    "Simulation",
    "SimulationConfig",
    "simulate",
]
