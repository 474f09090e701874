"""The command `describe`: the data card of a network."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgeformers.cli.command import Command, argument, option

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph


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
    verify: bool = option("Check the checksum of every file first.", False)

    def run(self) -> None:
        from edgeformers.data.graph import EdgeTextGraph

        show_card(EdgeTextGraph.open(self.network, verify=self.verify), as_json=self.as_json)


def show_card(graph: "EdgeTextGraph", *, as_json: bool = False, quiet: bool = False) -> None:
    """Write the data card of a network into its folder, and print it."""
    from edgeformers.data.card.describe import describe
    from edgeformers.report.card_page import card_page, write_card
    from edgeformers.report.terminal import render_text

    card = describe(graph)
    page = write_card(card, graph.path)
    if as_json:
        typer.echo(card.to_json())
    elif not quiet:
        typer.echo(f"{render_text(card_page(card))}\nAs a page: {page}")
