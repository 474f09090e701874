"""Evaluation: link ranking protocols, reports, and statistical significance."""

from edgeformers.evaluation.links import LinkMask, LinkTable, node_positions
from edgeformers.evaluation.negatives import NEGATIVES, sample_negatives
from edgeformers.evaluation.popularity_correction import (
    SHIFTS,
    ScoreCorrection,
    ValidationPairs,
    choose_correction,
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
from edgeformers.evaluation.scorers import BonusScorer, FunctionScorer, InnerProductScorer, Scorer
from edgeformers.evaluation.significance import (
    Interval,
    PairedComparison,
    SeedSummary,
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
    "InnerProductScorer",
    "ScoreCorrection",
    "Interval",
    "LinkMask",
    "LinkTable",
    "ValidationPairs",
    "LinkProtocol",
    "LinkReport",
    "PairedComparison",
    "BonusScorer",
    "FunctionScorer",
    "Scorer",
    "SeedSummary",
    "bootstrap_f1",
    "bootstrap_interval",
    "bootstrap_statistic",
    "choose_correction",
    "node_positions",
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
