"""One self-contained page of HTML: its frame, header, sections, tables and figures.

Text given to these functions is data and is escaped; what is called `body` or `plot` is HTML.
"""

import re
from base64 import b64encode
from collections.abc import Container, Iterable, Sequence
from html import escape

from edgeformers.data.card.card import Finding, NamedCount
from edgeformers.data.card.phrasing import percent
from edgeformers.report import svg
from edgeformers.report.style import STYLE
from edgeformers.report.text import Rows, printable

HEADING = re.compile(r"(</?h)([2-4])>")  # data cannot look like one: it is escaped


def safe(text: str) -> str:
    """Text of the data as part of a page: it shows, and does nothing else."""
    return escape(printable(text))


def page(title: str, body: Iterable[str], footer: str) -> str:
    """A whole page that needs nothing else: no script, no font, no network."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in body if section)
        + f"\n<footer>{safe(footer)}</footer>\n</main>\n</body>\n</html>\n"
    )


def header(kind: str, title: str, lead: str, origin: str, tiles: Sequence[tuple[str, str]]) -> str:
    """The top of a page: what it is about in a sentence a line, and its few main numbers."""
    said = "".join(f'<p class="lead">{safe(line)}</p>' for line in lead.splitlines())
    return (
        f'<header><p class="kind">{safe(kind)}</p><h1>{safe(title)}</h1>'
        f'{said}<p class="soft">{safe(origin)}</p>'
        f"{numbers(tiles)}</header>"
    )


def numbers(tiles: Iterable[tuple[str, str]]) -> str:
    """A few main numbers in large letters: (name, number)."""
    shown = "".join(
        f"<div><dt>{safe(name)}</dt><dd>{safe(number)}</dd></div>" for name, number in tiles
    )
    return f'<dl class="tiles">{shown}</dl>' if shown else ""


def section(title: str, *body: str, anchor: str = "") -> str:
    """A part of the page under its title; `anchor` is what `contents` leads to."""
    place = f' id="{safe(anchor)}"' if anchor else ""
    return f"<section{place}><h2>{safe(title)}</h2>{''.join(body)}</section>"


def contents(parts: Iterable[tuple[str, str]]) -> str:
    """Where to find what on a long page: (anchor, title) of its sections."""
    lines = "".join(
        f'<li><a href="#{safe(anchor)}">{safe(title)}</a></li>' for anchor, title in parts
    )
    return f'<nav aria-label="Contents"><ul>{lines}</ul></nav>'


def details(summary: str, body: str) -> str:
    """A part that is folded on a screen; on paper all of it is there."""
    return f"<details><summary>{safe(summary)}</summary>{body}</details>"


def deeper(body: str, levels: int) -> str:
    """The same with every heading so many levels down, to stand within another part."""
    return HEADING.sub(lambda found: f"{found[1]}{int(found[2]) + levels}>", body)


def together(body: str) -> str:
    """On paper, what fits one sheet is not torn apart."""
    return f'<div style="break-inside:avoid">{body}</div>'


def block(title: str, body: str) -> str:
    """A smaller part within a section."""
    return f"<h3>{safe(title)}</h3>{body}"


def side_by_side(body: Iterable[str]) -> str:
    """Blocks in columns where the page is wide enough."""
    return f'<div class="pair">{"".join(body)}</div>'


def paragraph(text: str, *, soft: bool = False) -> str:
    """Some sentences; `soft` for remarks."""
    return f'<p class="soft">{safe(text)}</p>' if soft else f"<p>{safe(text)}</p>"


def bullets(lines: Iterable[str]) -> str:
    """Remarks one below the other."""
    return f'<ul class="soft">{"".join(f"<li>{safe(line)}</li>" for line in lines)}</ul>'


def findings(items: Iterable[Finding]) -> str:
    """What to know and to do, warnings marked."""
    return f'<ul class="findings">{"".join(map(_finding, items))}</ul>'


def _finding(item: Finding) -> str:
    named = "split" if len(item.splits) == 1 else "splits"
    where = f" · {named} {safe(', '.join(item.splits))}" if item.splits else ""
    return (
        f'<li class="{item.severity}"><p class="tag"><b>{item.severity.capitalize()}</b>'
        f" · {safe(item.about)}{where}</p><p>{safe(item.sentence)}</p>"
        f'<p class="soft">{safe(item.advice)}</p></li>'
    )


def figure(title: str, plot: str, note: str = "") -> str:
    """A plot under its title; nothing where there is no plot."""
    more = f"<br>{safe(note)}" if note else ""
    caption = f"<figcaption><b>{safe(title)}</b>{more}</figcaption>"
    return f"<figure>{caption}{plot}</figure>" if plot else ""


def picture(svg_file: str, alt: str) -> str:
    """An SVG that stands alone: as an image it can run and fetch nothing, whatever is in it."""
    data = b64encode(svg_file.encode()).decode()
    image = f'<img alt="{safe(alt)}" src="data:image/svg+xml;base64,{data}">'
    return f'<div class="scroll">{image}</div>'


def figure_with_legend(plot: str, keys: Iterable[tuple[str, str]]) -> str:
    """A plot above what its colors mean: (class of the color, name)."""
    legend = "".join(
        f'<span><svg class="key" aria-hidden="true"><rect class="{kind}" width="100%" '
        f'height="100%"/></svg>{safe(name)}</span>'
        for kind, name in keys
    )
    return f'<figure>{plot}<figcaption class="legend">{legend}</figcaption></figure>'


def table(rows: Rows, head: bool = True, bold: Container[tuple[int, int]] = ()) -> str:
    """The first column names the row; a first row of names stands above.

    Cells at the places `bold` (row, column) are marked.
    """
    top = "".join(f'<th scope="col">{safe(cell)}</th>' for cell in rows[0]) if head else ""
    body = "".join(
        f'<tr><th scope="row">{safe(row[0])}</th>'
        + "".join(_cell(cell, (y, x) in bold) for x, cell in enumerate(row) if x)
        + "</tr>"
        for y, row in enumerate(rows)
        if y or not head
    )
    opening = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f'<div class="scroll"><table>{opening}<tbody>{body}</tbody></table></div>'


def _cell(cell: str, is_bold: bool) -> str:
    shown = f"<b>{safe(cell)}</b>" if is_bold else safe(cell)
    return f"<td{_words(cell)}>{shown}</td>"


def _words(cell: str) -> str:
    return "" if not cell or any(c.isdigit() for c in cell) or cell == "–" else ' class="words"'


def bar_table(items: Iterable[NamedCount], total: int, share_of: str) -> str:
    """Counts with their bars."""
    rows = ""
    for item in items:
        share = item.count / max(total, 1)
        rows += (
            f'<tr><th scope="row">{safe(item.name)}</th><td>{item.count:,}</td>'
            f'<td>{percent(share)}</td><td class="meter">{svg.meter(share)}</td></tr>'
        )
    return (
        '<div class="scroll"><table><thead><tr><th scope="col"></th><th scope="col">count</th>'
        f'<th scope="col">of {safe(share_of)}</th><th></th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
