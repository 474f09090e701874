"""The words of a mail: headers and body decoded, and in the body only what its writer added."""

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
ON_A_DAY = re.compile(
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
    """A header on one line, its encoded words decoded."""
    value = message.get(name, "")
    try:
        parts = decode_header(" ".join(value.split()) if isinstance(value, str) else value)
    except HeaderParseError:
        parts = [(str(value), None)]
    text = "".join(
        part if isinstance(part, str) else decode_bytes(part, charset) for part, charset in parts
    )
    return " ".join(text.split())


def decode_bytes(raw: bytes, charset: str | None) -> str:
    """Text in the charset it says, or else in UTF-8, or else in the commonest Western one."""
    for name in (charset or "ascii", "utf-8"):
        try:
            text = raw.decode(name)
        except (LookupError, ValueError):  # no such charset, or not what the bytes are in
            continue
        return text.encode("utf-8", errors="replace").decode("utf-8")  # no lone surrogates
    return raw.decode("cp1252", errors="replace")


def body_text(message: Message) -> str:
    """The first plain part, or else the first HTML part as text, or else nothing."""
    parts = {part.get_content_type(): part for part in reversed(list(_text_parts(message)))}
    part = parts.get("text/plain") or parts.get("text/html") or next(iter(parts.values()), None)
    if part is None:
        return ""
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    text = decode_bytes(raw, part.get_content_charset())
    return mail_html_to_text(text) if part.get_content_subtype() == "html" else text


def _text_parts(message: Message) -> Iterator[Message]:
    """The parts a reader would see; attached files and attached messages are not among them."""
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for part in message.get_payload():
            if isinstance(part, Message):
                yield from _text_parts(part)
    elif (
        message.get_content_maintype() in ("text", "multipart")
        and message.get_content_disposition() != "attachment"
    ):
        yield message


def own_words(body: str) -> str:
    """What the writer of a mail added: no quoted lines, attribution, original or signature."""
    lines = body.splitlines()
    pairs = ("\n".join(lines[i : i + 2]) for i in range(len(lines)))
    end = next((i for i, pair in enumerate(pairs) if TAIL.match(pair)), len(lines))
    lines = lines[:end]
    dropped = {i for i, line in enumerate(lines) if QUOTED.match(line)}
    for i, line in enumerate(lines):
        if WROTE.search(line):
            dropped.update(_attribution(lines, i))
    kept = "\n".join(line for i, line in enumerate(lines) if i not in dropped)
    return re.sub(r"\n\s*\n\s*\n", "\n\n", kept).strip()


def _attribution(lines: list[str], last: int) -> range:
    """The lines of an "On Monday, Ada wrote:" that ends on line `last`; none if it is not one."""
    for first in range(last, max(last - 3, -1), -1):
        if not lines[first].strip():
            break
        if ON_A_DAY.match("\n".join(lines[first : last + 1])):
            return range(first, last + 1)
    following = next((line for line in lines[last + 1 :] if line.strip()), "")
    return range(last, last + 1) if QUOTED.match(following) else range(0)
