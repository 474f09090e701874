"""The program `edgeformers`: a verb a file; mistakes are answered with a sentence and code 2."""

import sys
from typing import Annotated

import typer

import edgeformers
from edgeformers.cli import (
    classify_nodes,
    describe,
    embed,
    evaluate,
    predict,
    prepare,
    quickstart,
    recommend,
    report,
    reproduce,
    train,
)
from edgeformers.cli.messages import name_options
from edgeformers.errors import EdgeformersError

app = typer.Typer(
    help="Language models on the edges of networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("prepare", epilog=prepare.EXAMPLES)(prepare.prepare_command)
app.command("describe", epilog=describe.EXAMPLES)(describe.describe_command)
app.command("train", epilog=train.EXAMPLES)(train.train_command)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.evaluate_command)
app.command("predict", epilog=predict.EXAMPLES)(predict.predict_command)
app.command("embed", epilog=embed.EXAMPLES)(embed.embed_command)
app.command("recommend", epilog=recommend.EXAMPLES)(recommend.recommend_command)
app.command("classify-nodes", epilog=classify_nodes.EXAMPLES)(classify_nodes.classify_nodes_command)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce_command)
app.command("report", epilog=report.EXAMPLES)(report.report_command)
app.command("quickstart", epilog=quickstart.EXAMPLES)(quickstart.quickstart_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(edgeformers.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Language models on the edges of networks."""


def run() -> None:
    """Run the program; what the user can mend gives a sentence and exit code 2."""
    try:
        app()
    except (EdgeformersError, OSError) as error:
        typer.echo(f"error: {_sentence(error)}", err=True)
        sys.exit(2)


def _sentence(error: Exception) -> str:
    if isinstance(error, EdgeformersError) or not isinstance(error, OSError):
        return name_options(str(error))
    if error.filename is None:
        return f"{error}; check the disk and the rights to its files"
    return f"{error.filename}: {(error.strerror or str(error)).lower()}; check the path"
