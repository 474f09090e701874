"""Simulated networks of readable texts, of any size, whose best achievable scores are known."""

from edgeformers.data.simulate.best import BestLinkScores, BestScores, EdgeScore, LinkScore
from edgeformers.data.simulate.config import SimulationConfig, library_config
from edgeformers.data.simulate.simulation import Simulation, simulate

__all__ = [
    "BestLinkScores",
    "BestScores",
    "EdgeScore",
    "LinkScore",
    "Simulation",
    "SimulationConfig",
    "library_config",
    "simulate",
]
