"""Render pages: templates with escaped values, static files, and the headers that protect them."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment
from markupsafe import Markup, escape

from edgeformers.report.figures import COLORS
from edgeformers.report.formatting import printable
from edgeformers.report.page import html_environment

#: Nothing but the server's own files: no inline script or style, no other origin, no frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: For the report and the data card, which are one file each: their styles, but no script.
DOCUMENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
THEMES = ("light", "dark")


def html(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """A page, or a part of one."""
    text = _environment().get_template(template).render(**values)
    return HTMLResponse(text, status, HEADERS)


def document(text: str) -> Response:
    """A self-contained HTML file of the library, such as the report; its scripts do not run."""
    return HTMLResponse(text, 200, {**HEADERS, "Content-Security-Policy": DOCUMENT_POLICY})


def static_file(name: str) -> Response | None:
    """A static file; None if there is none of that name."""
    contents = _static_files().get(name)
    if contents is None:
        return None
    media_type = MEDIA_TYPES[name[name.rindex(".") :]]
    headers = {**HEADERS, "Cache-Control": "max-age=300"}
    return Response(contents, 200, headers, media_type=media_type)


def theme_of(request: Request) -> str:
    """The theme that someone has chosen; empty for the one of their system."""
    theme = request.cookies.get("theme", "")
    return theme if theme in THEMES else ""


def page_url(page: str, **values: Any) -> str:
    """A link to a page, relative to the others; empty values are left out."""
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return f"{page}?{urlencode(given, errors='surrogatepass')}" if given else page


@cache
def _static_files() -> dict[str, bytes]:
    folder = files("edgeformers.serve.explore") / "static"
    contents = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    contents["style.css"] = (files("edgeformers.report") / "templates/style.css").read_bytes()
    contents["palette.css"] = _palette().encode()
    return contents


def _palette() -> str:
    """Colors of points: the report's for labels and clusters, shades of one for degrees."""
    rules = [
        f'.map[data-color="label"] .l{i}, .map[data-color="cluster"] .k{i} {{ --c: {color}; }}'
        for i, color in enumerate(COLORS)
    ]
    rules += [
        f'.map[data-color="degree"] .d{i} {{ --c: color-mix(in srgb, var(--accent) {share}%, '
        "var(--line)); }"
        for i, share in enumerate((15, 35, 55, 78, 100))
    ]
    return "\n".join(rules) + "\n"


@cache
def _environment() -> Environment:
    environment = html_environment(
        "edgeformers.serve.explore",
        finalize=lambda value: shown(value) if type(value) is str else value,
    )
    environment.globals["url"] = page_url
    environment.filters |= {
        "exact": lambda text: Markup(escape(text)),  # what a form sends back
        "signed": lambda value: f"{value:+.2f}".replace("-", "−"),
        "number": lambda value: "–" if value is None else f"{value:.2f}".replace("-", "−"),
        "count": counted,
    }
    return environment


def shown(text: str) -> str:
    """A text without control and bidirectional formatting characters, but with its line breaks."""
    lines = re.sub(r"[^\S\n]", " ", text).split("\n")
    return "\n".join(map(printable, lines))


def counted(number: int, thing: str) -> str:
    """1 edge, 2 edges."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
