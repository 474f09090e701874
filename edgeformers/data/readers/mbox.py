"""Mail archives (mbox) as networks: who replies to whom, with the text of the reply.

Messages are split by hand: `mailbox.mbox` reads neither compressed files nor line numbers, and
splits at every line that begins with "From ". They are parsed with the lenient policy compat32:
policy.default takes ten times as long per header and raises on malformed ones.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import parsedate_to_datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.data.readers.files import PathOrGlob, expand_paths, numbered_lines
from edgeformers.data.readers.html import mail_html_to_text
from edgeformers.data.table import (
    EdgeTable,
    OnError,
    RowErrors,
    edge_schema,
    naive_utc,
    rows_to_batches,
)
from edgeformers.errors import InputError

BATCH_MAILS = 4096  # rows per Arrow batch, since the text of a mail can be long
EXTRA = {"subject": pa.string(), "message_id": pa.string()}

# "From ada@x.org Mon Jan  1 00:00:00 2024", the line before every message
FROM_LINE = re.compile(rb"From .*\d:\d\d.*\b\d{4}\b")
ESCAPED_FROM = re.compile(rb">+From ")  # an escaped line of text

MAX_LINE = 998  # characters of a line in a mail (RFC 5322); addresses are searched up to there
ADDRESSES = (
    re.compile(r"<\s*([^<>\s@]+@[^<>\s@]+)\s*>"),  # Ada <ada@x.org>
    re.compile(r"([^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+)"),  # ada@x.org (Ada)
    re.compile(r"([^\s<>()\",]+ at [^\s<>()\",]+\.[^\s<>()\",]+)"),  # ada at x.org (Ada)
)

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


@dataclass
class MailCounts:
    """The messages of an archive by outcome, once its table has been read."""

    messages: int = 0
    replies: int = 0  # became edges
    no_parent: int = 0  # reply to no message
    unknown_parent: int = 0  # reply to a message that is not in the archive
    duplicates: int = 0  # repeat an earlier Message-ID


@dataclass(frozen=True, kw_only=True)
class MailTable(EdgeTable):
    """The edges of a mail archive, with counts of the messages that are no edges."""

    counts: MailCounts = field(default_factory=MailCounts)


def read_mbox(path: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop") -> MailTable:
    """The replies in an mbox archive as edges from the sender to the author of the parent message.

    A person is a lowercase address; someone who writes from two addresses is two nodes. The
    "ada at x.org" of public archives is read as ada@x.org. The parent is the message in
    In-Reply-To, or else the last of References. Messages without a parent in the archive are no
    edges; the table's `counts` has their number. Several files (a glob or a list) form one
    archive. Files may be compressed.

    The text is the plain part (or the HTML part as text) without quoted lines, their
    attribution, forwarded originals and signature; it may be empty. `time` is the Date header in
    UTC, or null if it is missing or invalid. The files are read twice, first for the addresses;
    only these and one message at a time are held in memory.
    """
    paths = expand_paths(path)
    for file in paths:
        _check_is_mbox(file)
    errors, counts = RowErrors(on_error), MailCounts()
    schema = edge_schema(["time"], EXTRA)
    return MailTable(
        schema=schema,
        open=lambda: rows_to_batches(_rows(paths, counts, errors), schema, BATCH_MAILS),
        origin=", ".join(map(str, paths)),
        bipartite=False,
        errors=errors,
        counts=counts,
    )


def _parse(lines: Iterable[bytes], *, headers_only: bool = False) -> Message:
    lines = takewhile(bool, lines) if headers_only else lines
    return BytesParser(policy=compat32).parsebytes(b"\n".join(lines), headers_only)


def _check_is_mbox(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass an mbox file, or a glob such as '*.mbox'")
    number, line = next(((n, text) for n, text in numbered_lines(path) if text.strip()), (1, b""))
    if not FROM_LINE.match(line):
        raise InputError(
            f"{path}, line {number}: an mbox archive begins with a line such as "
            f"'From ada@x.org Mon Jan  1 00:00:00 2024' (got '{decode_bytes(line[:60], None)}')"
        )


def _mails(paths: Iterable[Path]) -> Iterator[tuple[str, list[bytes]]]:
    """(file and line, lines) of every message, unparsed."""
    for path in paths:
        place, lines = "", list[bytes]()
        after_blank = True
        for number, line in numbered_lines(path):
            if after_blank and FROM_LINE.match(line):
                if place:
                    yield place, lines
                place, lines = f"{path}, line {number}", []
            else:
                lines.append(line[1:] if ESCAPED_FROM.match(line) else line)
            after_blank = not line
        if place:
            yield place, lines


def _addresses(paths: Iterable[Path]) -> dict[str, str]:
    """Message-ID -> address of its author; the first message with an id counts."""
    addresses: dict[str, str] = {}
    for _, lines in _mails(paths):
        message = _parse(lines, headers_only=True)
        address = find_address(header_text(message, "From"))
        if address:
            for message_id in _message_ids(message, "Message-ID")[:1]:
                addresses.setdefault(message_id, address)
    return addresses


def _rows(paths: list[Path], counts: MailCounts, errors: RowErrors) -> Iterator[Mapping[str, Any]]:
    vars(counts).update(vars(MailCounts()))
    addresses = _addresses(paths)
    seen: set[str] = set()
    for place, lines in _mails(paths):
        counts.messages += 1
        message = _parse(lines, headers_only=True)
        message_id = next(iter(_message_ids(message, "Message-ID")), None)
        parents = _message_ids(message, "In-Reply-To") + _message_ids(message, "References")[-1:]
        author = next((addresses[parent] for parent in parents if parent in addresses), None)
        if message_id in seen:
            counts.duplicates += 1
        elif not parents:
            counts.no_parent += 1
        elif author is None:
            counts.unknown_parent += 1
        else:
            try:
                row = _row(lines, message, author)
            except ValueError as error:
                errors.report(f"{place}: {error}")
            else:
                counts.replies += 1
                yield {**row, "message_id": message_id}
        if message_id:
            seen.add(message_id)


def _row(lines: list[bytes], headers: Message, author: str) -> dict[str, Any]:
    sender = header_text(headers, "From")
    if not (address := find_address(sender)):
        raise ValueError(f"no address in the From header (got '{sender}'); use `on_error='skip'`")
    try:
        text = remove_quotes(body_text(_parse(lines)))
    except RecursionError:
        raise ValueError("the parts are nested too deeply; use `on_error='skip'`") from None
    return {
        "source": address,
        "target": author,
        "text": text,
        "time": _time(header_text(headers, "Date")),
        "subject": header_text(headers, "Subject"),
    }


def find_address(sender: str) -> str | None:
    """The lowercase address in a From header."""
    for pattern in ADDRESSES:
        if match := pattern.search(sender, 0, MAX_LINE):
            return match[1].replace(" at ", "@").strip("'").lower()
    return None


def _message_ids(message: Message, header: str) -> list[str]:
    value = header_text(message, header)
    return ["".join(id_.split()) for id_ in re.findall(r"<([^<>]+)>", value)] or value.split()


def _time(date: str) -> datetime | None:
    try:
        return naive_utc(parsedate_to_datetime(date))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


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
