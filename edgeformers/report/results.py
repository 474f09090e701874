"""What runs have shown, for the eye: does the graph help, and everything behind the answer."""

from edgeformers.report.results_data import (
    VERSION,
    AttentionPicture,
    LearningCurve,
    ModelScores,
    NodeMap,
    ResultsPage,
    Score,
    Sees,
    TaskScores,
    learning_curve,
)
from edgeformers.report.results_page import FOOTER, results_html
from edgeformers.report.results_rows import ANY_SCALE, LOWER_IS_BETTER, OF_ONE, SEES
from edgeformers.report.results_terminal import results_text
from edgeformers.report.results_verdict import Verdict, verdict

__all__ = [
    "ANY_SCALE",
    "FOOTER",
    "LOWER_IS_BETTER",
    "OF_ONE",
    "SEES",
    "VERSION",
    "AttentionPicture",
    "LearningCurve",
    "ModelScores",
    "NodeMap",
    "ResultsPage",
    "Score",
    "Sees",
    "TaskScores",
    "Verdict",
    "learning_curve",
    "results_html",
    "results_text",
    "verdict",
]
