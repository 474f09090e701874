"""The data card for the eye: compact in a terminal, and one page of HTML to hand around."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from edgeformers.data.card.card import DataCard
from edgeformers.data.card.describe import describe
from edgeformers.files import write_atomic
from edgeformers.report.card_page import card_html
from edgeformers.report.card_rows import headline
from edgeformers.report.card_terminal import card_text

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph

__all__ = ["card_html", "card_text", "headline", "write_card"]


def write_card(graph_or_card: "EdgeTextGraph | DataCard", folder: str | PathLike[str]) -> Path:
    """Write card.json and card.html into a folder; gives the path of the page."""
    card = graph_or_card if isinstance(graph_or_card, DataCard) else describe(graph_or_card)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    write_atomic(place / "card.json", card.to_json() + "\n")
    write_atomic(place / "card.html", card_html(card))
    return place / "card.html"
