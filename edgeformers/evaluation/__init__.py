"""Evaluation: link ranking protocols, reports, and statistical significance."""

from edgeformers.evaluation.links import LinkMask, LinkTable, node_positions
from edgeformers.evaluation.negatives import sample_negatives
from edgeformers.evaluation.popularity_correction import ScoreCorrection, ValidationPairs
from edgeformers.evaluation.ranking import order_pairs, rank_full, rank_in_batch, rank_sampled
from edgeformers.evaluation.report import (
    DEGREES,
    PROFILES,
    PROTOCOLS,
    RANK_METRICS,
    LinkProtocol,
    LinkReport,
    evaluate_links,
)
from edgeformers.evaluation.scorers import (
    BonusScorer,
    FunctionScorer,
    InnerProductScorer,
    Scorer,
)
from edgeformers.evaluation.significance import (
    Interval,
    PairedComparison,
    PolynomialFit,
    SeedSummary,
    bootstrap_f1,
    bootstrap_interval,
    bootstrap_statistic,
    compare_paired,
    draw_clusters,
    f1_intervals,
    fit_polynomial,
    holm,
    is_significant,
    summarize_seeds,
    two_level_difference,
    welch_test,
)

__all__ = [
    "DEGREES",
    "PROFILES",
    "PROTOCOLS",
    "RANK_METRICS",
    "BonusScorer",
    "FunctionScorer",
    "InnerProductScorer",
    "Interval",
    "LinkMask",
    "LinkProtocol",
    "LinkReport",
    "LinkTable",
    "PairedComparison",
    "PolynomialFit",
    "ScoreCorrection",
    "Scorer",
    "SeedSummary",
    "ValidationPairs",
    "bootstrap_f1",
    "bootstrap_interval",
    "bootstrap_statistic",
    "compare_paired",
    "draw_clusters",
    "evaluate_links",
    "f1_intervals",
    "fit_polynomial",
    "holm",
    "is_significant",
    "node_positions",
    "order_pairs",
    "rank_full",
    "rank_in_batch",
    "rank_sampled",
    "sample_negatives",
    "summarize_seeds",
    "two_level_difference",
    "welch_test",
]
