"""The words of HTML: fragments as posts and shops publish them, and whole mails."""

import re
from html.parser import HTMLParser

BLOCK_TAGS = frozenset(
    ("blockquote", "br", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li")
) | frozenset(("ol", "p", "pre", "table", "tr", "ul"))
UNREAD_TAGS = frozenset(("script", "style"))
BLANK_LINES = re.compile(r"\s*\n\s*\n|[ \t]+\n")


def html_to_text(html: str) -> str:
    """The words of an HTML fragment: tags gone, entities resolved, blocks on their own lines.

    Line ends and indentation are kept, in code as in plain text with a stray entity; what stands
    in script and style elements is not text.
    """
    if "<" not in html and "&" not in html:
        return html.strip()
    return BLANK_LINES.sub("\n", _read(html, _Words())).strip()


def mail_html_to_text(html: str) -> str:
    """The text of an HTML mail, its paragraphs apart; a line "> " stands for what is quoted.

    Line ends are blanks, as in a browser, except where the text is preformatted.
    """
    return _read(html, _MailWords())


class _Words(HTMLParser):
    """Gathers the text between tags; a block tag begins a new line."""

    unread_tags = UNREAD_TAGS

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.unread = 0  # tags around that hide their content

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.step(tag, 1)

    def handle_endtag(self, tag: str) -> None:
        self.step(tag, -1)

    def step(self, tag: str, depth: int) -> None:
        if tag in self.unread_tags:
            self.unread = max(0, self.unread + depth)
        if tag in BLOCK_TAGS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.unread:
            self.pieces.append(data)


class _MailWords(_Words):
    """Gathers what a mail's writer added: of a blockquote only that there was one."""

    unread_tags = UNREAD_TAGS | {"title", "blockquote"}

    def __init__(self) -> None:
        super().__init__()
        self.preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        if tag == "blockquote":
            self.pieces.append("> \n")

    def step(self, tag: str, depth: int) -> None:
        super().step(tag, depth)
        if tag == "pre":
            self.preformatted = max(0, self.preformatted + depth)

    def handle_data(self, data: str) -> None:
        super().handle_data(data if self.preformatted else re.sub(r"\s+", " ", data))


def _read(html: str, parser: _Words) -> str:
    """What the parser gathers; broken HTML loses its tags only."""
    try:
        parser.feed(html)
        parser.close()
    except AssertionError:  # the parser's word for a declaration it cannot read
        return re.sub(r"<[^>]*>", " ", html)
    return "".join(parser.pieces)
