"""The ego graph of a node as a drawing: curves from the node to its neighbors, with edge texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from unicodedata import east_asian_width

from edgeformers.report.formatting import printable

NAME_SIZE, TEXT_SIZE, LINE = 14.0, 13.0, 17.0  # font sizes and the height of a line, in pixels
TEXT_LINES = 2  # of a text; hovering shows all of it
GAP = 16.0  # between two rows
MARGIN = 12.0
CENTER_WIDTH = 190.0  # of the name of the node in the middle
MIN_TWO_COLUMNS = 900  # a narrower drawing has one column of neighbors

#: Widths at which the graph is drawn; the style sheet shows the one that fits the screen.
WIDTHS = {"narrow": 344, "medium": 640, "wide": 940, "widest": 1160}


@dataclass(frozen=True, kw_only=True)
class EgoEdge:
    """An edge of the node in the middle; `link` is the page of its neighbor."""

    neighbor: str
    text: str
    label: str = ""
    link: str = ""
    is_incoming: bool = False


@dataclass(frozen=True, kw_only=True)
class EgoRow:
    """A neighbor with the text of the edge, next to the end of a curve."""

    edge: EgoEdge
    path: str
    x: float  # of the dot
    y: float
    text_x: float
    text_y: float  # of the first line
    anchor: str  # of the text: start or end
    text_width: float
    name: str
    lines: list[str]

    @property
    def height(self) -> float:
        return LINE * (1 + len(self.lines)) + 2


@dataclass(frozen=True, kw_only=True)
class EgoDrawing:
    """Where everything is, in pixels."""

    kind: str  # one of WIDTHS
    width: float
    height: float
    x: float  # of the node in the middle
    y: float
    center: list[str]  # its name in lines
    center_anchor: str
    rows: list[EgoRow]


def draw_ego_graph(center: str, edges: Sequence[EgoEdge], kind: str) -> EgoDrawing:
    """The ego graph at one of the WIDTHS."""
    width = float(WIDTHS[kind])
    return (_two_columns if width >= MIN_TWO_COLUMNS else _one_column)(center, edges, kind, width)


def _one_column(center: str, edges: Sequence[EgoEdge], kind: str, width: float) -> EgoDrawing:
    """The node at the top left; its neighbors below, to the right of a vertical line."""
    x, y, dot = MARGIN, MARGIN, MARGIN + 28
    name = wrap_text(center, width - 2 * MARGIN - 10, NAME_SIZE, 1)
    rows, top = [], y + 30
    for edge in edges:
        row = _row(edge, dot, top, width - dot - MARGIN - 2, anchor="start")
        rows.append((row, f"M{x:g},{y:g}V{row.y - 12:g}Q{x:g},{row.y:g} {dot:g},{row.y:g}"))
        top += row.height + GAP
    return EgoDrawing(
        kind=kind,
        width=width,
        height=top,
        x=x,
        y=y,
        center=name,
        center_anchor="start",
        rows=[replace(row, path=path) for row, path in rows],
    )


def _two_columns(center: str, edges: Sequence[EgoEdge], kind: str, width: float) -> EgoDrawing:
    """The node in the middle; incoming edges on the left and outgoing ones on the right.

    If all have the same direction, they are divided among both sides.
    """
    left = [edge for edge in edges if edge.is_incoming]
    right = [edge for edge in edges if not edge.is_incoming]
    if not left or not right:
        left, right = list(edges[1::2]), list(edges[::2])
    x, reach = width / 2, CENTER_WIDTH / 2 + 60
    columns = []
    for own, dot, anchor in ((left, x - reach, "end"), (right, x + reach, "start")):
        rows, top = [], MARGIN
        for edge in own:
            rows.append(_row(edge, dot, top, x - reach - MARGIN - 10, anchor=anchor))
            top += rows[-1].height + GAP
        columns.append((rows, top))
    height = max([top for _, top in columns] + [120.0])
    y, drawn = height / 2, []
    for rows, top in columns:
        for row in rows:
            moved = _moved(row, (height - top) / 2)
            bend = (x + moved.x) / 2
            path = f"M{x:g},{y:g}C{bend:g},{y:g} {bend:g},{moved.y:g} {moved.x:g},{moved.y:g}"
            drawn.append(replace(moved, path=path))
    return EgoDrawing(
        kind=kind,
        width=width,
        height=height,
        x=x,
        y=y,
        center=wrap_text(center, CENTER_WIDTH, NAME_SIZE, 3),
        center_anchor="middle",
        rows=drawn,
    )


def _row(edge: EgoEdge, dot: float, top: float, width: float, *, anchor: str) -> EgoRow:
    label_width = text_width(f"  {edge.label}", TEXT_SIZE) if edge.label else 0.0
    (name,) = wrap_text(edge.neighbor, max(60.0, width - label_width), NAME_SIZE, 1)
    return EgoRow(
        edge=edge,
        path="",
        x=dot,
        y=top + LINE / 2,
        text_x=dot + (10 if anchor == "start" else -10),
        text_y=top + LINE * 0.78,
        anchor=anchor,
        text_width=width,
        name=name,
        lines=wrap_text(edge.text, width, TEXT_SIZE, TEXT_LINES) if edge.text else [],
    )


def _moved(row: EgoRow, down: float) -> EgoRow:
    return replace(row, y=row.y + down, text_y=row.text_y + down)


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a sans-serif font, in pixels."""
    wide = sum(east_asian_width(character) in "WF" for character in text)
    return size * (0.54 * (len(text) - wide) + wide)


def wrap_text(text: str, width: float, size: float, lines: int) -> list[str]:
    """The first lines of a text that fit; an ellipsis marks what is cut."""
    rest, wrapped = " ".join(printable(text.replace("\n", " ")).split()), list[str]()
    while rest and len(wrapped) < lines:
        end = len(rest)
        if text_width(rest, size) > width:
            end = _fitting(rest, width, size)
            is_last = len(wrapped) == lines - 1
            if is_last:
                wrapped.append(rest[: max(1, end - 1)].rstrip() + "…")
                break
            end = rest.rfind(" ", 1, end + 1) if " " in rest[1 : end + 1] else end
        wrapped.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return wrapped or [""]


def _fitting(text: str, width: float, size: float) -> int:
    """How many characters of a text fit, at least one."""
    used = 0.0
    for place, character in enumerate(text):
        used += text_width(character, size)
        if used > width:
            return max(1, place)
    return len(text)
