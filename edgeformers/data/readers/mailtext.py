"""The text of a mail: decoded headers and body, and the part of the body its sender wrote.

Uses the lenient policy compat32 of `email`: policy.default takes ten times as long per header
and raises on malformed ones.
"""

import re
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message

from edgeformers.data.readers.html import mail_html_to_text

QUOTED = re.compile(r"\s*>")
WROTE = re.compile(
    r"\b(wrote|writes|said|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|skrev)\b"
    r".{0,80}:\s*$"
)
DATED = re.compile(
    r"\s*(On|At|Am|Le|El|Il|Em|Op|Den)\s.*(\d{4}|\d[:./-]\d)", re.DOTALL | re.IGNORECASE
)
TAIL = re.compile(  # where a copied original, a signature or a list's footer begins
    r"""[ ]*-{2,}[ ]*(original\ message|forwarded\ message|ursprüngliche\ nachricht|
            message\ d'origine|mensaje\ original|messaggio\ originale)[ ]*-{2,}
      | --[ ]?$
      | _{20,}[ ]*\n.*(mailing\ list|From:)
      | [ ]*\*?From:.*\n[ ]*\*?(Sent|Date|To):""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)


def header_text(message: Message, name: str) -> str:
    """A decoded header on one line; empty if it is missing."""
    value = message.get(name, "")
    try:
        parts = decode_header(" ".join(value.split()) if isinstance(value, str) else value)
    except HeaderParseError:
        parts = [(str(value), None)]
    texts = (part if isinstance(part, str) else decode_bytes(part, cs) for part, cs in parts)
    return " ".join("".join(texts).split())


def decode_bytes(raw: bytes, charset: str | None) -> str:
    """Text in its declared charset, or else in UTF-8, or else in Windows-1252."""
    for name in (charset or "ascii", "utf-8"):
        try:
            text = raw.decode(name)
        except (LookupError, ValueError):  # unknown charset, or not the actual one
            continue
        return text.encode("utf-8", errors="replace").decode("utf-8")  # no lone surrogates
    return raw.decode("cp1252", errors="replace")


def body_text(message: Message) -> str:
    """The first plain part, or else the first HTML part as text, or else an empty string."""
    parts = {part.get_content_type(): part for part in reversed(list(_text_parts(message)))}
    part = parts.get("text/plain") or parts.get("text/html") or next(iter(parts.values()), None)
    if part is None:
        return ""
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    text = decode_bytes(raw, part.get_content_charset())
    return mail_html_to_text(text) if part.get_content_subtype() == "html" else text


def _text_parts(message: Message) -> Iterator[Message]:
    """The parts that are displayed, without attached files and messages."""
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for part in message.get_payload():
            if isinstance(part, Message):
                yield from _text_parts(part)
    elif (
        message.get_content_maintype() in ("text", "multipart")
        and message.get_content_disposition() != "attachment"
    ):
        yield message


def remove_quotes(body: str) -> str:
    """The body without quoted lines, their attribution, copied originals and the signature."""
    lines = body.splitlines()
    pairs = ("\n".join(lines[i : i + 2]) for i in range(len(lines)))
    end = next((i for i, pair in enumerate(pairs) if TAIL.match(pair)), len(lines))
    lines = lines[:end]
    removed = {i for i, line in enumerate(lines) if QUOTED.match(line)}
    for i, line in enumerate(lines):
        if WROTE.search(line):
            removed.update(_attribution(lines, i))
    kept = "\n".join(line for i, line in enumerate(lines) if i not in removed)
    return re.sub(r"\n\s*\n\s*\n", "\n\n", kept).strip()


def _attribution(lines: list[str], last: int) -> range:
    """The lines of an "On Monday, Ada wrote:" that ends on line `last`; empty if it is not one."""
    for first in range(last, max(last - 3, -1), -1):
        if not lines[first].strip():
            break
        if DATED.match("\n".join(lines[first : last + 1])):
            return range(first, last + 1)
    following = next((line for line in lines[last + 1 :] if line.strip()), "")
    return range(last, last + 1) if QUOTED.match(following) else range(0)
