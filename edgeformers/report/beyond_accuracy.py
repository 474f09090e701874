"""What runs are judged by besides accuracy: calibration of edges, and recommendations of links."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgeformers.data.card.phrasing import listed, percent
from edgeformers.report.figures import COLORS, LineChart, Points
from edgeformers.report.page import Bar, Block, Paragraph, Plot, Table, TableCell

FEW_EDGES = 10  # bins of confidence with fewer edges are not drawn
PERFECT = "perfect calibration"
CALIBRATION_NOTE = (
    "A model is calibrated if predictions with a probability of 80% are correct 80% of the time: "
    "on the diagonal. Below it, the model is overconfident. The expected calibration error is the "
    "mean distance from it. The temperature, chosen on validation, divides the logits: above 1 it "
    "makes probabilities more cautious, 1 leaves them as they were."
)
RECOMMENDATION_NOTE = (
    "Of the ten best candidates of each test source, without what it links to in training. "
    "Coverage: the share of all candidates that anybody gets. Diversity: how different two "
    "recommendations to the same source are. Novelty: bits of surprise, higher for rare "
    "candidates. Popularity lift: how much more popular recommendations are than what sources "
    "link to; 0 is no bias."
)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How often the predicted class of a model is correct, by its probability."""

    model: str
    lines: list[Points]  # per run: (mean probability, share of correct predictions) of each bin
    error: float  # expected calibration error, mean over runs
    temperature: float | None  # mean over runs; None if it is not known


@dataclass(frozen=True, kw_only=True)
class RecommendationQuality:
    """Means over runs of what `evaluate` says about recommendations."""

    model: str
    metrics: Mapping[str, float]  # coverage, diversity, novelty, popularity_lift


def calibration_blocks(curves: Sequence[Calibration]) -> list[Block]:
    """A reliability diagram, and a table of errors and temperatures."""
    if not curves:
        return []
    shown = curves[: len(COLORS) - 1]
    chart = LineChart(
        label=f"Share of correct predictions of {listed([c.model for c in shown])} by probability",
        lines={**{c.model: c.lines for c in shown}, PERFECT: [[(0.0, 0.0), (1.0, 1.0)]]},
        tip=lambda model, x, y: f"{model}: probability {percent(x)}, correct {percent(y)}",
        format_y=percent,
        ticks={share: percent(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)},
        include=[(0.0, 0.0), (1.0, 1.0)],
    )
    rows: list[list[TableCell]] = [["", "expected calibration error", "temperature"]]
    for curve in curves:
        heat = "–" if curve.temperature is None else f"{curve.temperature:.2f}"
        rows.append([curve.model, f"{curve.error:.3f}", heat])
    note = "correct predictions by the probability of the predicted class, test"
    return [
        Plot("Reliability", chart, note),
        Table(rows),
        Paragraph(CALIBRATION_NOTE, muted=True),
    ]


def recommendation_blocks(models: Sequence[RecommendationQuality]) -> list[Block]:
    """Coverage, also as a bar, diversity, novelty and popularity lift."""
    if not models:
        return []
    head = ["", "coverage", "", "diversity", "novelty", "popularity lift"]
    rows: list[list[TableCell]] = [[*head]]
    for each in models:
        coverage = each.metrics.get("coverage")
        row: list[TableCell] = [each.model, _shown(coverage, percent), Bar(coverage or 0.0)]
        row.append(_shown(each.metrics.get("diversity"), "{:.2f}".format))
        row.append(_shown(each.metrics.get("novelty"), "{:.2f}".format))
        row.append(_shown(each.metrics.get("popularity_lift"), "{:+.0%}".format))
        rows.append(row)
    return [Table(rows), Paragraph(RECOMMENDATION_NOTE, muted=True)]


def _shown(value: float | None, style: Callable[[float], str]) -> str:
    return "–" if value is None else style(value)
