"""The verb `report`: one page over finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from edgeformers.cli.options import AsJson, say, say_json

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o runs/stars --recipe fast
  edgeformers train link-prediction network -o runs/links --recipe fast
  edgeformers report runs -o report.html
"""


def report_command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders of those.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Compare finished runs on one page: does the graph help, does the text, at what cost."""
    from edgeformers.experiments.run_report import write_report
    from edgeformers.report.conclusions import comparison_json, comparison_lines

    page = write_report(runs, out)
    if as_json:
        say_json({"page": str(out), **comparison_json(page)})
        return
    say("\n".join(comparison_lines(page)))
    say(f"\nAll of it as a page: {out}")
