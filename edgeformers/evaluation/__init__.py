"""Protocols that rank links, the report that always names them, and how sure a number is."""

from edgeformers.evaluation.links import LinkTable, columns_of
from edgeformers.evaluation.negatives import NEGATIVES, sample_negatives
from edgeformers.evaluation.popularity_correction import (
    SHIFTS,
    Fit,
    Validation,
    choose_fit,
    spaced_batches,
)
from edgeformers.evaluation.ranking import BATCH, rank_full, rank_in_batch, rank_sampled
from edgeformers.evaluation.report import (
    DEGREES,
    PROFILES,
    PROTOCOLS,
    RANK_METRICS,
    UNTUNED,
    LinkProtocol,
    LinkReport,
    degree_groups,
    evaluate_links,
)
from edgeformers.evaluation.scorers import Factors, Raised, ScoreFunction, Scorer
from edgeformers.evaluation.significance import (
    Interval,
    PairedComparison,
    Spread,
    bootstrap_f1,
    bootstrap_interval,
    bootstrap_statistic,
    compare_paired,
    is_significant,
    summarize_seeds,
)

__all__ = [
    "BATCH",
    "DEGREES",
    "NEGATIVES",
    "PROFILES",
    "PROTOCOLS",
    "RANK_METRICS",
    "SHIFTS",
    "UNTUNED",
    "Factors",
    "Fit",
    "Interval",
    "LinkTable",
    "LinkProtocol",
    "LinkReport",
    "PairedComparison",
    "Raised",
    "ScoreFunction",
    "Scorer",
    "Spread",
    "Validation",
    "bootstrap_f1",
    "bootstrap_interval",
    "bootstrap_statistic",
    "choose_fit",
    "columns_of",
    "compare_paired",
    "degree_groups",
    "evaluate_links",
    "is_significant",
    "rank_full",
    "rank_in_batch",
    "rank_sampled",
    "sample_negatives",
    "spaced_batches",
    "summarize_seeds",
]
