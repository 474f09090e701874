"""Mail archives (mbox) as networks: who replies to whom, with the text of the reply.

Messages are split by hand: `mailbox.mbox` reads neither compressed files nor line numbers, and
splits at every line that begins with "From ".
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import parsedate_to_datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.data.readers.files import PathOrGlob, expand_paths, numbered_lines
from edgeformers.data.readers.mailtext import body_text, decode_bytes, header_text, remove_quotes
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


@dataclass(frozen=True)
class _Mail:
    """One message of the archive, unparsed."""

    path: Path
    line: int  # of its From line
    lines: list[bytes]

    def parse(self, *, headers_only: bool = False) -> Message:
        lines = takewhile(bool, self.lines) if headers_only else self.lines
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


def _mails(paths: Iterable[Path]) -> Iterator[_Mail]:
    for path in paths:
        mail: _Mail | None = None
        after_blank = True
        for number, line in numbered_lines(path):
            if after_blank and FROM_LINE.match(line):
                if mail:
                    yield mail
                mail = _Mail(path, number, [])
            elif mail:
                mail.lines.append(line[1:] if ESCAPED_FROM.match(line) else line)
            after_blank = not line
        if mail:
            yield mail


def _addresses(paths: Iterable[Path]) -> dict[str, str]:
    """Message-ID -> address of its author; the first message with an id counts."""
    addresses: dict[str, str] = {}
    for mail in _mails(paths):
        message = mail.parse(headers_only=True)
        address = find_address(header_text(message, "From"))
        if address:
            for message_id in _message_ids(message, "Message-ID")[:1]:
                addresses.setdefault(message_id, address)
    return addresses


def _rows(paths: list[Path], counts: MailCounts, errors: RowErrors) -> Iterator[Mapping[str, Any]]:
    vars(counts).update(vars(MailCounts()))
    addresses = _addresses(paths)
    seen: set[str] = set()
    for mail in _mails(paths):
        counts.messages += 1
        message = mail.parse(headers_only=True)
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
                row = _row(mail, message, author)
            except ValueError as error:
                errors.report(f"{mail.path}, line {mail.line}: {error}")
            else:
                counts.replies += 1
                yield {**row, "message_id": message_id}
        if message_id:
            seen.add(message_id)


def _row(mail: _Mail, headers: Message, author: str) -> dict[str, Any]:
    sender = header_text(headers, "From")
    if not (address := find_address(sender)):
        raise ValueError(f"no address in the From header (got '{sender}'); use on_error='skip'")
    try:
        text = remove_quotes(body_text(mail.parse()))
    except RecursionError:
        raise ValueError("the parts are nested too deeply; use on_error='skip'") from None
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
