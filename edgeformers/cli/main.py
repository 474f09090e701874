"""The program `edgeformers`; errors a user can correct are one sentence and exit code 2."""

import sys
from typing import Annotated

import typer

import edgeformers
from edgeformers.aliases import current_option
from edgeformers.cli.command import Command, add_command
from edgeformers.cli.export import Export
from edgeformers.cli.prepare import Prepare
from edgeformers.cli.recommend import Index, Recommend
from edgeformers.cli.report import Describe, Quickstart, Report
from edgeformers.cli.reproduce import Reproduce
from edgeformers.cli.runs import ClassifyNodes, Embed, Predict
from edgeformers.cli.serve import Serve
from edgeformers.cli.train import Evaluate, Train
from edgeformers.errors import EdgeformersError, with_options
from edgeformers.file_errors import file_error_sentence
from edgeformers.threads import set_thread_defaults

COMMANDS: dict[str, type[Command]] = {
    "prepare": Prepare,
    "describe": Describe,
    "train": Train,
    "evaluate": Evaluate,
    "predict": Predict,
    "embed": Embed,
    "export": Export,
    "index": Index,
    "recommend": Recommend,
    "classify-nodes": ClassifyNodes,
    "reproduce": Reproduce,
    "report": Report,
    "quickstart": Quickstart,
    "serve": Serve,
}

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for _name, _command in COMMANDS.items():
    add_command(app, _name, _command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(edgeformers.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Train language models on networks whose edges carry text."""


def run() -> None:
    """Run the program."""
    set_thread_defaults()  # before a command imports torch
    try:
        app([current_option(argument) for argument in sys.argv[1:]])
    except (EdgeformersError, OSError) as error:
        sentence = file_error_sentence(error) if isinstance(error, OSError) else str(error)
        typer.echo(f"error: {with_options(sentence)}", err=True)
        sys.exit(2)
