"""The verb `quickstart`: the whole product on a simulated network, in minutes."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeformers.cli.options import AsJson, Quiet, say, say_json
from edgeformers.cli.recommend import recommendation_lines

if TYPE_CHECKING:
    from edgeformers.estimators.links import Recommendation
    from edgeformers.experiments.quickstart import Quickstart

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers quickstart
  edgeformers quickstart -o small --edges 1500
"""

NEXT = """\
NEXT
  Open {report}, then ask the models that were trained:
    edgeformers evaluate {folder}/edges
    edgeformers recommend {folder}/links {source} -k 5 --explain 2
    edgeformers embed {folder}/links --nodes -o nodes.parquet

  With a table of your own, reviews.csv with the columns user, item, review and stars:
    edgeformers prepare reviews.csv --source user --target item --text review --label stars -o net
    edgeformers train edge-classification net -o run-edges
    edgeformers train link-prediction net -o run-links"""


def quickstart_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")] = Path(
        "quickstart"
    ),
    edges: Annotated[int, typer.Option(help="Reviews in the simulated network.")] = 5_000,
    backbone: Annotated[
        str | None, typer.Option(help="minilm where installed, else scratch:2x64.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a network, train both models beside baselines, and write report.html."""
    from edgeformers.experiments.quickstart import quickstart
    from edgeformers.report.results_terminal import results_text

    def tell(line: str) -> None:
        if not quiet and not as_json:
            typer.echo(line)

    made = quickstart(out, edges=edges, backbone=backbone, say=tell, show=not quiet)
    if as_json:
        say_json(_facts(made))
    else:
        say("\n" + results_text(replace(made.results, settings={})))
        say(f"RECOMMENDED to {made.source}, {reasons_heading(made.recommendations)}")
        say("\n".join(recommendation_lines(made.recommendations)))
        say("\n" + NEXT.format(report=made.report, folder=made.folder, source=made.source))
        say(f"\nMade in {made.seconds:.0f} seconds.")
    for line in made.left_out:
        typer.echo(f"left out: {line}", err=True)
    if made.left_out:
        raise typer.Exit(1)


def reasons_heading(found: "list[Recommendation]") -> str:
    """What the texts below recommendations are; those of weight 0 have caused nothing."""
    if any(why.weight for one in found for why in one.because):
        return "with the reviews that caused it"
    return "by who reviews what alone; with the reviews nearest to theirs"


def _facts(made: "Quickstart") -> dict[str, object]:
    return {
        "report": str(made.report),
        "tasks": [asdict(task) for task in made.results.tasks],
        "source": made.source,
        "recommendations": [asdict(one) for one in made.recommendations],
        "left_out": made.left_out,
        "seconds": made.seconds,
    }
