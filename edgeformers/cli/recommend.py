"""The command `recommend`: the best targets of one source, or of all sources."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeformers.cli.command import OUT, RunCommand, argument, option
from edgeformers.errors import InputError

if TYPE_CHECKING:
    from edgeformers.estimators import Recommendation

REASON_CHARACTERS = 200  # of a text in the terminal; --json prints all of it


@dataclass(frozen=True, kw_only=True)
class Recommend(RunCommand):
    """Recommend targets to one source or to all sources.

    With --explain, recommendations to one source come with the texts that caused them.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers recommend run-links user-000001 -k 3 --explain 2
  edgeformers recommend run-links --all -o tonight.parquet
"""

    node: str | None = argument("Id of the source.", None)
    k: int = option("Number of recommendations.", 10, names=["-k"])
    explain: int = option("Texts to show as reasons for each recommendation.", 0)
    include_seen: bool = option("Include targets that are already linked.", False)
    everyone: bool = option("Recommend to all sources.", False, names=["--all"])
    out: Path | None = option("With --all, output file: .parquet, .csv or .jsonl.", names=OUT)

    def run(self) -> None:
        from edgeformers.estimators import LinkPredictor
        from edgeformers.inference.batch_inference import recommend_all, write_rows

        self._check()
        predictor, exclude_seen = self.open(), not self.include_seen
        if not isinstance(predictor, LinkPredictor):
            command = f"edgeformers predict {self.folder} EDGES.csv -o OUT.csv"
            raise InputError(f"{self.folder} classifies edges; use: {command}")
        if self.out is not None:
            show = not self.quiet
            tables = recommend_all(predictor, self.k, exclude_seen=exclude_seen, show=show)
            count = write_rows(self.out, tables)
            line = f"{count:,} recommendations: {self.out}"
            self.print({"out": str(self.out), "recommendations": count}, line)
            return
        recommendations = predictor.recommend(
            self.node, self.k, exclude_seen=exclude_seen, explain=self.explain
        )
        lines = recommendation_lines(recommendations) or [
            f"{self.node} is already linked to every target; pass --include-seen to rank those"
        ]
        values = [asdict(recommendation) for recommendation in recommendations]
        self.print({"node": self.node, "recommendations": values}, *lines)

    def _check(self) -> None:
        if (self.node is None) != self.everyone:
            raise InputError("give the id of one source, or pass --all")
        if self.everyone and self.out is None:
            raise InputError("--all needs an output file: -o FILE.parquet")
        if not self.everyone and self.out is not None:
            raise InputError("-o needs --all; the recommendations to one source are printed")
        if self.everyone and self.explain:
            raise InputError("--explain works for one source; leave out --all")


def recommendation_lines(recommendations: "list[Recommendation]") -> list[str]:
    """A line per recommendation, followed by the texts that are its reasons."""
    from edgeformers.data.card.phrasing import shorten
    from edgeformers.report.terminal import format_table

    rows = [[str(i), r.node, f"{r.score:.3f}"] for i, r in enumerate(recommendations, 1)]
    lines: list[str] = []
    for line, recommendation in zip(format_table(rows, left=(1,)), recommendations, strict=True):
        lines.append(line)
        for reason in recommendation.because:
            lines.append(f"       {reason.node}: {shorten(reason.text, REASON_CHARACTERS)}")
    return lines
