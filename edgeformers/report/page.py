"""Pages as plain data: sections of blocks, rendered as HTML here and as text by `terminal`."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from edgeformers.data.card.card import Finding
from edgeformers.report.figures import FigureData, legend
from edgeformers.report.formatting import printable
from edgeformers.report.plotting import INSTALL_HINT, inline_svg

if TYPE_CHECKING:
    from jinja2 import Environment

#: Command-line options with their values, parts of a split such as +drop in parentheses, and
#: calls such as SplitConfig(new_pairs=True).
CODE = re.compile(
    r"--[a-z][\w-]*(?:[ =](?=\S*[=+:/\d])[^\s,;()&]*[^\s,;()&.])?|(?<=\()\+[a-z][\w-]*"
    r"|\b[A-Z]\w+\(\w+=\w+\)"
)


@dataclass(frozen=True)
class Paragraph:
    """Sentences; `code` in backticks and command-line options are marked as code."""

    text: str
    muted: bool = False


@dataclass(frozen=True)
class CommandLine:
    """A command, or options of one, to copy; a terminal breaks it only between options."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of remarks; a terminal shows the first `brief` of them."""

    lines: Sequence[str]
    brief: int | None = None


@dataclass(frozen=True)
class Quote:
    """A quoted text, and below it who wrote it about what."""

    text: str
    about: str


@dataclass(frozen=True)
class Tiles:
    """Key numbers in large type: (name, number)."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Findings:
    """Warnings and notes with their advice."""

    items: Sequence[Finding]


@dataclass(frozen=True)
class Cell:
    """Text with a muted suffix, and a muted note below."""

    text: str
    suffix: str = ""
    note: str = ""
    bold: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar that fills a share of its cell."""

    share: float


@dataclass(frozen=True)
class IntervalCell:
    """A dot on its interval, as positions from 0 to 1; a dashed line marks the best value."""

    low: float
    value: float
    high: float
    best: float | None = None


TableCell: TypeAlias = str | Cell | Bar | IntervalCell
Rows: TypeAlias = Sequence[Sequence[TableCell]]


@dataclass(frozen=True)
class Table:
    """Rows named by their first cell."""

    rows: Rows
    header: bool = True
    is_settings: bool = False  # all values are wrapped and right-aligned
    in_columns: bool = False  # a long table as two short ones, side by side


@dataclass(frozen=True)
class StackedBar:
    """Parts of a total side by side: (name, share, tooltip, share of the part that is marked)."""

    label: str
    parts: Sequence[tuple[str, float, str, float]]
    mark: str  # the meaning of the marked share


@dataclass(frozen=True)
class Plot:
    """A figure under its title; `text` replaces it in a terminal."""

    title: str
    data: FigureData
    note: str = ""
    text: str = ""


@dataclass(frozen=True)
class SvgImage:
    """An SVG file as an image, which cannot run scripts or fetch anything."""

    title: str
    svg: str
    alt: str

    @property
    def base64(self) -> str:
        return b64encode(self.svg.encode()).decode()


@dataclass(frozen=True)
class SideBySide:
    """Blocks side by side where the page is wide enough."""

    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Details:
    """Blocks that are folded on a screen and printed in full."""

    summary: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Section:
    """A titled part of a page, or of another section; left out if it has no blocks."""

    title: str
    blocks: Sequence["Block"]
    anchor: str = ""  # links it from the table of contents


Block: TypeAlias = (
    Paragraph
    | CommandLine
    | Bullets
    | Quote
    | Tiles
    | Findings
    | Table
    | StackedBar
    | Plot
    | SvgImage
    | SideBySide
    | Details
    | Section
)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A header, sections and a footer."""

    kind: str  # "Data card"
    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    footer: str
    origin: str = ""
    tiles: Sequence[tuple[str, str]] = field(default_factory=list)

    @property
    def shown_sections(self) -> list[Section]:
        return [section for section in self.sections if section.blocks]


def render_html(page: Page) -> str:
    """The page as one HTML file without fonts, scripts (but copy buttons) or other resources."""
    draws = find_spec("matplotlib") is not None
    missing = "" if draws or not _has_plots(page.sections) else f" {INSTALL_HINT}"
    template = _environment().get_template("page.html.j2")
    return template.render(page=page, draws=draws, missing=missing)


def bullets(lines: Sequence[str]) -> list[Block]:
    """A list of remarks, if there are any."""
    return [Bullets(lines)] if lines else []


def _has_plots(blocks: Iterable[Block]) -> bool:
    return any(isinstance(b, Plot) or _has_plots(getattr(b, "blocks", ())) for b in blocks)


def html_environment(package: str, finalize: Callable[[Any], Any] | None = None) -> "Environment":
    """The templates of a package, which escape what they show; an unknown name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )


@cache
def _environment() -> "Environment":
    from markupsafe import Markup, escape

    def prose(text: str) -> Markup:
        marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(printable(text))))
        return Markup(CODE.sub(lambda match: f'<code class="nobr">{match[0]}</code>', marked))

    def breakable(name: str) -> Markup:
        """A dotted setting name may break after its dots and underscores."""
        return Markup(re.sub(r"([._])(?=\w)", r"\1<wbr>", str(escape(printable(name)))))

    environment = html_environment(
        "edgeformers.report",
        # data never brings control characters into a page
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {"prose": prose, "breakable": breakable}
    environment.filters["svg"] = lambda data: Markup(inline_svg(data))
    environment.tests |= {
        "words": lambda cell: (
            isinstance(cell, str) and cell not in ("", "–") and not any(map(str.isdigit, cell))
        ),
        "a": lambda block, kind: isinstance(block, globals()[kind]),  # an unknown name is an error
    }
    environment.globals |= {"legend": legend}
    return environment
