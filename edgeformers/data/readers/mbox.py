"""Mail archives (mbox) as networks: who answers whom, the answer's own words on the edge."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import parsedate_to_datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.data.readers.files import PathOrGlob, expand_paths, numbered_lines
from edgeformers.data.readers.mailtext import body_text, decode_bytes, header_text, own_words
from edgeformers.data.table import EdgeTable, OnError, RowErrors, edge_schema, rows_to_batches
from edgeformers.errors import InputError

BATCH_MAILS = 4096  # rows per Arrow batch: a mail's text can be long
EXTRA = {"subject": pa.string(), "message_id": pa.string()}

# "From ada@x.org Mon Jan  1 00:00:00 2024": the line before every message
FROM_LINE = re.compile(rb"From .*\d:\d\d.*\b\d{4}\b")
ESCAPED_FROM = re.compile(rb">+From ")  # how a text line that looks like one is written

LONGEST_LINE = 998  # characters of a mail's line (RFC 5322); no address is looked for beyond
ADDRESSES = (
    re.compile(r"<\s*([^<>\s@]+@[^<>\s@]+)\s*>"),  # Ada <ada@x.org>
    re.compile(r"([^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+)"),  # ada@x.org (Ada)
    re.compile(r"([^\s<>()\",]+ at [^\s<>()\",]+\.[^\s<>()\",]+)"),  # ada at x.org (Ada)
)


@dataclass
class MailTally:
    """What became of the messages of an archive, after its table was read to the end."""

    messages: int = 0
    answers: int = 0  # gave an edge
    openers: int = 0  # answer no message
    strays: int = 0  # answer a message that is not in the archive
    repeats: int = 0  # the same Message-ID again

    def restart(self) -> None:
        self.messages = self.answers = self.openers = self.strays = self.repeats = 0


@dataclass(frozen=True, kw_only=True)
class MailTable(EdgeTable):
    """The edges of a mail archive, with a tally of the messages that gave none."""

    tally: MailTally = field(default_factory=MailTally)


def read_mbox(path: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop") -> MailTable:
    """The answers in an mbox archive as edges answerer -> author of the message answered.

    A person is an address in lower case, because names vary from mail to mail; somebody who
    writes from two addresses is two nodes. "ada at x.org", as public archives write it, is
    ada@x.org. The message answered is the one named by In-Reply-To, else the last of
    References. Messages that answer none, or none in the archive, give no edge; the table's
    `tally` counts them. An archive in several files (a glob, or a list) is one archive: answers
    are found across them. Files may be compressed.

    The text is the plain part (or the HTML part reduced to text) without quoted lines, their
    attribution, forwarded originals and signature; where nothing else was written it is "".
    `time` is the Date header in UTC, null where it is missing or unreadable. The files are read
    twice, first for the addresses; only those and one message at a time are held in memory.
    """
    paths = expand_paths(path)
    for one in paths:
        _check_is_mbox(one)
    errors, tally = RowErrors(on_error), MailTally()
    schema = edge_schema(["time"], EXTRA)
    return MailTable(
        schema=schema,
        open=lambda: rows_to_batches(_rows(paths, tally, errors), schema, BATCH_MAILS),
        origin=", ".join(map(str, paths)),
        bipartite=False,
        errors=errors,
        tally=tally,
    )


@dataclass(frozen=True)
class _Mail:
    """One message as it stands in the archive."""

    path: Path
    line: int  # of its From line
    lines: list[bytes]

    def parse(self, *, headers_only: bool = False) -> Message:
        lines = takewhile(bool, self.lines) if headers_only else self.lines
        return BytesParser(policy=compat32).parsebytes(b"\n".join(lines), headers_only)


def _check_is_mbox(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give an mbox file, or a glob such as '*.mbox'")
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
    """Message-ID -> address of its author; the first message of an id counts."""
    known: dict[str, str] = {}
    for mail in _mails(paths):
        message = mail.parse(headers_only=True)
        address = address_of(header_text(message, "From"))
        if address:
            for message_id in _message_ids(header_text(message, "Message-ID"))[:1]:
                known.setdefault(message_id, address)
    return known


def _rows(paths: list[Path], tally: MailTally, errors: RowErrors) -> Iterator[Mapping[str, Any]]:
    tally.restart()
    known = _addresses(paths)
    seen: set[str] = set()
    for mail in _mails(paths):
        tally.messages += 1
        message = mail.parse(headers_only=True)
        message_id = next(iter(_message_ids(header_text(message, "Message-ID"))), None)
        answered = _answered_ids(message)
        author = next((known[one] for one in answered if one in known), None)
        if message_id in seen:
            tally.repeats += 1
        elif not answered:
            tally.openers += 1
        elif author is None:
            tally.strays += 1
        elif row := _row(mail, message, author, errors):
            tally.answers += 1
            yield {**row, "message_id": message_id}
        if message_id:
            seen.add(message_id)


def _row(mail: _Mail, message: Message, author: str, errors: RowErrors) -> dict[str, Any] | None:
    sender = header_text(message, "From")
    if not (address := address_of(sender)):
        errors.report(
            f"{mail.path}, line {mail.line}: the message has no address in its From header "
            f"(got '{sender}'); every edge needs both ends, skip it with on_error='skip'"
        )
        return None
    try:
        text = own_words(body_text(mail.parse()))
    except RecursionError:
        errors.report(
            f"{mail.path}, line {mail.line}: the message has parts within parts beyond all "
            "reading; skip it with on_error='skip'"
        )
        return None
    return {
        "source": address,
        "target": author,
        "text": text,
        "time": _time(header_text(message, "Date")),
        "subject": header_text(message, "Subject"),
    }


def address_of(sender: str) -> str | None:
    """The address in a From header, in lower case."""
    for pattern in ADDRESSES:
        if found := pattern.search(sender, 0, LONGEST_LINE):
            return found[1].replace(" at ", "@").strip("'").lower()
    return None


def _message_ids(value: str) -> list[str]:
    return ["".join(one.split()) for one in re.findall(r"<([^<>]+)>", value)] or value.split()


def _answered_ids(message: Message) -> list[str]:
    references = _message_ids(header_text(message, "References"))
    return _message_ids(header_text(message, "In-Reply-To")) + references[-1:]


def _time(date: str) -> datetime | None:
    try:
        time = parsedate_to_datetime(date)
        return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
