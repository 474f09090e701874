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
    return BLANK_LINES.sub("\n", _parse(html, is_mail=False)).strip()


def mail_html_to_text(html: str) -> str:
    """The text of an HTML mail; each quoted block becomes a line "> ".

    Whitespace is collapsed as in a browser, except in preformatted text.
    """
    return _parse(html, is_mail=True)


class _TextParser(HTMLParser):
    """Collects the text between tags; a block tag begins a new line.

    In a mail, of a quoted block it collects only that there is one.
    """

    def __init__(self, is_mail: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.is_mail = is_mail
        self.hidden_tags = {"script", "style"} | ({"title", "blockquote"} if is_mail else set())
        self.pieces: list[str] = []
        self.hidden_depth = 0
        self.pre_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._enter(tag, 1)
        if self.is_mail and tag == "blockquote":
            self.pieces.append("> \n")

    def handle_endtag(self, tag: str) -> None:
        self._enter(tag, -1)

    def handle_data(self, data: str) -> None:
        if not self.hidden_depth:
            collapses = self.is_mail and not self.pre_depth
            self.pieces.append(re.sub(r"\s+", " ", data) if collapses else data)

    def _enter(self, tag: str, step: int) -> None:
        """Enter (1) or leave (-1) a tag."""
        if tag in self.hidden_tags:
            self.hidden_depth = max(0, self.hidden_depth + step)
        if tag == "pre":
            self.pre_depth = max(0, self.pre_depth + step)
        if tag in BLOCK_TAGS:
            self.pieces.append("\n")


def _parse(html: str, *, is_mail: bool) -> str:
    parser = _TextParser(is_mail)
    try:
        parser.feed(html)
        parser.close()
    except AssertionError:  # html.parser raises it for malformed declarations
        return re.sub(r"<[^>]*>", " ", html)
    return "".join(parser.pieces)
