"""The command `report`: a page that compares finished runs."""

from dataclasses import dataclass
from pathlib import Path

from edgeformers.cli.command import OUT, Command, argument, option


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Compare finished runs on one HTML page.

    The page shows scores, learning curves and cost, and whether the graph and the text help.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o runs/stars --recipe fast
  edgeformers train link-prediction network -o runs/links --recipe fast
  edgeformers report runs -o report.html
"""

    runs: list[Path] = argument("Run folders, or folders that contain run folders.")
    out: Path = option("The page to write.", Path("report.html"), names=OUT)

    def run(self) -> None:
        from edgeformers.experiments.run_report import write_report
        from edgeformers.report.comparison import comparison_json, comparison_lines

        page = write_report(self.runs, self.out)
        values = {"page": str(self.out), **comparison_json(page)}
        self.print(values, *comparison_lines(page), f"\nAs a page: {self.out}")
