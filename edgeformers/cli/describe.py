"""The verb `describe`: what a network is like, in the terminal, as JSON and as a page."""

from pathlib import Path
from typing import Annotated

import typer

from edgeformers.data.card.describe import describe
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.report.card import card_text, write_card

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network
  edgeformers describe network
"""


def describe_command(
    network: Annotated[Path, typer.Argument(help="A prepared network.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the checksum of every file first.")
    ] = False,
) -> None:
    """Show the data card of a network, and write it as card.html and card.json beside it."""
    show_card(EdgeTextGraph.open(network, verify=verify), as_json=as_json)


def show_card(graph: EdgeTextGraph, *, as_json: bool = False) -> None:
    """Describe a network, write its page, and print the card."""
    card = describe(graph)
    page = write_card(card, graph.path)
    if as_json:
        typer.echo(card.to_json())
    else:
        typer.echo(card_text(card))
        typer.echo(f"\nThe same as a page: {page}")
