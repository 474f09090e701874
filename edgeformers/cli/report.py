"""The commands that write HTML pages: describe, report and quickstart."""

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgeformers.cli.command import OUT, Command, argument, option

if TYPE_CHECKING:
    from edgeformers.data.card.card import DataCard
    from edgeformers.data.graph import EdgeTextGraph

NEXT = """
NEXT
  Open {report}, and use the trained models:
    edgeformers evaluate {folder}/edges
    edgeformers recommend {folder}/links {source} -k 5 --explain 2
    edgeformers recommend {folder}/links --likes "{likes}" -k 5
    edgeformers embed {folder}/links --nodes -o nodes.parquet

  With a table of your own, reviews.csv with the columns user, item, review and stars:
    edgeformers prepare reviews.csv --source user --target item --text review --label stars -o net
    edgeformers train edge-classification net -o run-edges
    edgeformers train link-prediction net -o run-links

Took {seconds:.0f} seconds. Explore what was trained in a browser:
  {explore}"""


@dataclass(frozen=True, kw_only=True)
class Describe(Command):
    """Show the data card of a network.

    The card is also written into the network's folder, as card.html and card.json.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network
  edgeformers describe network
"""

    network: Path = argument("A prepared network.")
    full: bool = option("Compare the checksums of all files, not only of changed ones.", False)

    def run(self) -> None:
        from edgeformers.data.graph import EdgeTextGraph

        graph = EdgeTextGraph.open(self.network, verify=self.full)
        if not self.full:
            graph.verify()
        print_card(add_card(graph), graph.path, as_json=self.as_json)


def add_card(graph: "EdgeTextGraph") -> "DataCard":
    """Write the data card of a network into its folder, and return it."""
    from edgeformers.data.card.describe import describe
    from edgeformers.report.card_page import write_card

    card = describe(graph)
    write_card(card, graph.path)
    return card


def print_card(card: "DataCard", network: Path, *, as_json: bool) -> None:
    """Print the data card of a network, and where its page is."""
    from edgeformers.report.card_page import card_page
    from edgeformers.report.terminal import render_text

    if as_json:
        typer.echo(card.to_json())
    else:
        typer.echo(f"{render_text(card_page(card))}\nAs a page: {network / 'card.html'}")


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


@dataclass(frozen=True, kw_only=True)
class Quickstart(Command):
    """Train all models on simulated notes; write a report."""

    EXAMPLES = """\b
Examples:
  edgeformers quickstart
  edgeformers quickstart -o small --edges 1500
"""

    out: Path = option("Folder of all results.", Path("quickstart"), names=OUT)
    edges: int = option("Notes in the simulated library.", 4_000)
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
            log=lambda line: None if self.quiet or self.as_json else typer.echo(line),
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
        story = result.results.story
        assert story is not None
        shown = replace(result.results, settings={}, story=replace(story, command=""))
        first = result.recommendations[0]
        following = NEXT.format(
            report=result.report,
            folder=result.folder,
            source=shlex.quote(result.source),
            likes=f"{first.node}=I love stories of the sea.",
            seconds=result.seconds,
            explore=story.command,
        )
        self.print(values, "\n" + render_text(results_page(shown)), following)
        for line in result.left_out:
            typer.echo(f"left out: {line}", err=True)
        if result.left_out:
            raise typer.Exit(1)
