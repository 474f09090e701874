"""Protocols that rank links, the report that always names them, and how sure a number is."""

from edgeformers.evaluation.negatives import NEGATIVES, sample_negatives
from edgeformers.evaluation.pairs import KnownLinks, columns_of
from edgeformers.evaluation.ranking import BATCH, rank_full, rank_in_batch, rank_sampled
from edgeformers.evaluation.report import (
    PROTOCOLS,
    RANK_METRICS,
    LinkProtocol,
    LinkReport,
    degree_groups,
    evaluate_links,
)
from edgeformers.evaluation.scorers import Factors, ScoreFunction, Scorer
from edgeformers.evaluation.statistics import (
    Interval,
    PairedComparison,
    Spread,
    bootstrap_f1,
    bootstrap_interval,
    bootstrap_statistic,
    compare_paired,
    summarize_seeds,
)

__all__ = [
    "BATCH",
    "NEGATIVES",
    "PROTOCOLS",
    "RANK_METRICS",
    "Factors",
    "Interval",
    "KnownLinks",
    "LinkProtocol",
    "LinkReport",
    "PairedComparison",
    "ScoreFunction",
    "Scorer",
    "Spread",
    "bootstrap_f1",
    "bootstrap_interval",
    "bootstrap_statistic",
    "columns_of",
    "compare_paired",
    "degree_groups",
    "evaluate_links",
    "rank_full",
    "rank_in_batch",
    "rank_sampled",
    "sample_negatives",
    "summarize_seeds",
]
