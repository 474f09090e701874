"""The command `quickstart`: the whole workflow on a simulated network."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgeformers.cli.command import OUT, Command, option
from edgeformers.cli.recommend import recommendation_lines

if TYPE_CHECKING:
    from edgeformers.estimators import Recommendation

NEXT = """
NEXT
  Open {report}, and use the trained models:
    edgeformers evaluate {folder}/edges
    edgeformers recommend {folder}/links {source} -k 5 --explain 2
    edgeformers embed {folder}/links --nodes -o nodes.parquet

  With a table of your own, reviews.csv with the columns user, item, review and stars:
    edgeformers prepare reviews.csv --source user --target item --text review --label stars -o net
    edgeformers train edge-classification net -o run-edges
    edgeformers train link-prediction net -o run-links

Took {seconds:.0f} seconds."""


@dataclass(frozen=True, kw_only=True)
class Quickstart(Command):
    """Simulate a network, train all models, and write a report."""

    EXAMPLES = """\b
Examples:
  edgeformers quickstart
  edgeformers quickstart -o small --edges 1500
"""

    out: Path = option("Folder of all results.", Path("quickstart"), names=OUT)
    edges: int = option("Edges of the simulated network.", 5_000)
    backbone: str | None = option("[default: minilm if installed, else scratch:2x64]")
    quiet: bool = option("Hide progress bars.", False)

    def run(self) -> None:
        from edgeformers.experiments.quickstart import quickstart
        from edgeformers.report.results import results_page
        from edgeformers.report.terminal import render_text

        result = quickstart(
            self.out,
            edges=self.edges,
            backbone=self.backbone,
            log=self._tell,
            show=not self.quiet,
        )
        values = {
            "report": str(result.report),
            "tasks": [asdict(task) for task in result.results.tasks],
            "source": result.source,
            "recommendations": [asdict(each) for each in result.recommendations],
            "left_out": result.left_out,
            "seconds": result.seconds,
        }
        heading = reasons_heading(result.recommendations)
        self.print(
            values,
            "\n" + render_text(results_page(replace(result.results, settings={}))),
            f"RECOMMENDED to {result.source}, {heading}",
            *recommendation_lines(result.recommendations),
            NEXT.format(report=result.report, **vars(result)),
        )
        for line in result.left_out:
            typer.echo(f"left out: {line}", err=True)
        if result.left_out:
            raise typer.Exit(1)

    def _tell(self, line: str) -> None:
        if not self.quiet and not self.as_json:
            typer.echo(line)


def reasons_heading(recommendations: "list[Recommendation]") -> str:
    """What the texts below recommendations are; texts of weight 0 are not reasons."""
    if any(reason.weight for each in recommendations for reason in each.because):
        return "with the reviews that caused it"
    return "from the graph alone, with the most similar reviews"
