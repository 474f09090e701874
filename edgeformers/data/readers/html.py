"""Plain text from HTML: fragments from posts and shops, and whole mails.

Built on html.parser: BeautifulSoup uses the same parser, but takes nine times as long to build a
tree that is not needed here.
"""

import re
from html.parser import HTMLParser

BLOCK_TAGS = {"blockquote", "br", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6"}
BLOCK_TAGS |= {"hr", "li", "ol", "p", "pre", "table", "tr", "ul"}
BLANK_LINES = re.compile(r"\s*\n\s*\n|[ \t]+\n")


def html_to_text(html: str) -> str:
    """The text of an HTML fragment, each block on its own line, without script and style.

    Line ends and indentation are kept, as in code.
    """
    if "<" not in html and "&" not in html:
        return html.strip()
    return BLANK_LINES.sub("\n", _parse(html, _TextParser())).strip()


def mail_html_to_text(html: str) -> str:
    """The text of an HTML mail; each quoted block becomes a line "> ".

    Whitespace is collapsed as in a browser, except in preformatted text.
    """
    return _parse(html, _MailParser())


class _TextParser(HTMLParser):
    """Collects the text between tags; a block tag begins a new line."""

    hidden_tags = frozenset(("script", "style"))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.hidden_depth = 0
        self.pre_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._enter(tag, 1)

    def handle_endtag(self, tag: str) -> None:
        self._enter(tag, -1)

    def handle_data(self, data: str) -> None:
        if not self.hidden_depth:
            self.pieces.append(data)

    def _enter(self, tag: str, step: int) -> None:
        """Enter (1) or leave (-1) a tag."""
        if tag in self.hidden_tags:
            self.hidden_depth = max(0, self.hidden_depth + step)
        if tag == "pre":
            self.pre_depth = max(0, self.pre_depth + step)
        if tag in BLOCK_TAGS:
            self.pieces.append("\n")


class _MailParser(_TextParser):
    """Collects what the sender wrote; of a quoted block, only that there is one."""

    hidden_tags = frozenset(("script", "style", "title", "blockquote"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        if tag == "blockquote":
            self.pieces.append("> \n")

    def handle_data(self, data: str) -> None:
        super().handle_data(data if self.pre_depth else re.sub(r"\s+", " ", data))


def _parse(html: str, parser: _TextParser) -> str:
    try:
        parser.feed(html)
        parser.close()
    except AssertionError:  # html.parser raises it for malformed declarations
        return re.sub(r"<[^>]*>", " ", html)
    return "".join(parser.pieces)
