"""EdgeStore: edges that arrive after training, in a SQLite file that survives a crash.

Everything that happens to a store has a sequence number: edges are appended and the edges of a
node are removed. `prepare` merges a store with its input, and a server takes in what is new.
"""

import errno
import hashlib
import math
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock
from typing import Any, Self

import pyarrow as pa

from edgeformers.data.readers.times import TIME, parse_times
from edgeformers.data.readers.values import excerpt
from edgeformers.data.times import DAY
from edgeformers.data.types import Side
from edgeformers.errors import FormatError, InputError
from edgeformers.file_errors import writing
from edgeformers.locks import BusyError

APPLICATION = 0x45646765  # "Edge", in the header of the file
SCHEMA_VERSION = 1
WAIT = 30.0  # s, for a transaction of another process
ROWS = 65_536  # read at a time
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_SCHEMA = f"""
CREATE TABLE store (id TEXT NOT NULL);
CREATE TABLE edges (
    sequence INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL, text TEXT NOT NULL,
    label TEXT, time INTEGER, received INTEGER NOT NULL, digest BLOB NOT NULL UNIQUE
);
CREATE INDEX edges_by_source ON edges (source);
CREATE INDEX edges_by_target ON edges (target);
CREATE TABLE removals (sequence INTEGER PRIMARY KEY, node TEXT NOT NULL, side TEXT);
CREATE TABLE answers (
    key TEXT PRIMARY KEY, digest BLOB NOT NULL, added INTEGER NOT NULL,
    duplicates INTEGER NOT NULL, first_sequence INTEGER
);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {SCHEMA_VERSION};
"""
_EDGE = "sequence, source, target, text, label, time, received"
_CHANGES = f"""
SELECT {_EDGE}, NULL, NULL FROM edges WHERE sequence > ?1
UNION ALL SELECT sequence, NULL, NULL, NULL, NULL, NULL, NULL, node, side FROM removals
WHERE sequence > ?1 ORDER BY sequence LIMIT ?2
"""
_LAST = """
SELECT max(ifnull((SELECT max(sequence) FROM edges), 0),
           ifnull((SELECT max(sequence) FROM removals), 0))
"""
#: The edges of a node (?1) on a side; None with one node type.
_OF_NODE = {
    "source": "source = ?1",
    "target": "target = ?1",
    None: "(source = ?1 OR target = ?1)",
}
#: Primary result codes of SQLite as errors of the operating system.
_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
}


class KeyConflictError(InputError):
    """An idempotency key was used before, with other edges."""


@dataclass(frozen=True, kw_only=True)
class StoredEdge:
    """An edge of a store; it gets its sequence number and the time of arrival when it is stored."""

    source: str
    target: str
    text: str = ""
    label: str | None = None
    time: int | None = None  # microseconds since 1970 in UTC
    received: int = 0
    sequence: int = 0


@dataclass(frozen=True, kw_only=True)
class Removal:
    """All edges of a node on a side (None: on both) before this sequence number are removed."""

    node: str
    side: Side | None
    sequence: int


@dataclass(frozen=True, kw_only=True)
class Appended:
    """What `EdgeStore.append` did; edges that were there already are duplicates."""

    added: int
    duplicates: int
    first_sequence: int | None  # of the edges that were added


class EdgeStore:
    """New edges on disk; several threads and processes may use the same file.

    A change is on disk when the method returns. Two edges with the same source, target, text and
    time are one edge.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = Path(path).expanduser()
        self._lock = RLock()
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"{self.path} is not a file; choose another path for the edges")
        if not create and not self.path.exists():
            raise InputError(f"{self.path}: no such store of edges; check the path")
        if create:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            self._connection = sqlite3.connect(
                self.path, timeout=WAIT, isolation_level=None, check_same_thread=False
            )
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    @contextmanager
    def snapshot(cls, path: str | os.PathLike[str]) -> Iterator[Self]:
        """An existing store as it is now, to be read while others may change it."""
        with cls(path, create=False) as store:
            with store._errors():
                store._connection.execute("BEGIN")
                store._connection.execute("SELECT id FROM store").fetchone()  # the snapshot begins
            yield store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @property
    def id(self) -> str:
        """A random name that the file keeps wherever it is moved."""
        return str(self._rows("SELECT id FROM store")[0][0])

    @property
    def last_sequence(self) -> int:
        """The number of the latest change; 0 if there is none."""
        return int(self._rows(_LAST)[0][0])

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM edges")[0][0])

    def append(self, edges: Sequence[StoredEdge], key: str | None = None) -> Appended:
        """Store edges in their order; returns once they are on disk.

        With an idempotency key, the same call again changes nothing and returns the first answer;
        the key with other edges is a KeyConflictError.
        """
        digests = [_digest(edge, place) for place, edge in enumerate(edges, 1)]
        body = hashlib.blake2b(b"".join(digests), digest_size=16)
        body.update(repr([edge.label for edge in edges]).encode())
        with self._transaction() as connection:
            if key is not None and (earlier := self._answer(key, body.digest())):
                return earlier
            first = connection.execute(_LAST).fetchone()[0] + 1
            received, added = time.time_ns() // 1000, 0
            for edge, digest in zip(edges, digests, strict=True):
                cursor = connection.execute(
                    "INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    (first + added, edge.source, edge.target, edge.text, edge.label, edge.time,
                     received, digest),
                )  # fmt: skip
                added += cursor.rowcount
            answer = Appended(
                added=added,
                duplicates=len(edges) - added,
                first_sequence=first if added else None,
            )
            if key is not None:
                values = (key, body.digest(), added, answer.duplicates, answer.first_sequence)
                connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", values)
        return answer

    def remove(self, node: str, side: Side | None = None) -> int:
        """Delete the edges of a node, on both sides by default; returns how many were stored.

        The removal is recorded: it also applies to the edges that the node has in a network. The
        texts are overwritten in the file, and in its log unless a snapshot is being read. Edges
        that are appended later stay.
        """
        _encoded(node, "the node")
        with self._transaction() as connection:
            found = f"DELETE FROM edges WHERE {_OF_NODE[side]}"
            sequence = connection.execute(_LAST).fetchone()[0] + 1
            count = connection.execute(found, (node,)).rowcount
            known = "SELECT 1 FROM removals WHERE node = ? AND side IS ?"
            if count or not connection.execute(known, (node, side)).fetchone():
                values = (sequence, node, side)
                connection.execute("INSERT INTO removals VALUES (?, ?, ?)", values)
        self._empty_log()
        return count

    def edges_after(self, sequence: int = 0, limit: int = ROWS) -> list[StoredEdge]:
        """The next edges after a sequence number, in their order."""
        query = f"SELECT {_EDGE} FROM edges WHERE sequence > ? ORDER BY sequence LIMIT ?"
        return [self._edge(row) for row in self._rows(query, sequence, limit)]

    def edges_of(
        self, node: str, side: Side | None = None, *, after: int = 0, limit: int = ROWS
    ) -> list[StoredEdge]:
        """The edges of a node on a side (None: on both) after a sequence number."""
        condition = f"{_OF_NODE[side]} AND sequence > ?2 ORDER BY sequence LIMIT ?3"
        query = f"SELECT {_EDGE} FROM edges WHERE {condition}"
        return [self._edge(row) for row in self._rows(query, node, after, limit)]

    def removals(self) -> list[Removal]:
        """All removals in their order."""
        rows = self._rows("SELECT node, side, sequence FROM removals ORDER BY sequence")
        return [self._removal(*row) for row in rows]

    def changes_after(self, sequence: int) -> list[StoredEdge | Removal]:
        """The next edges and removals after a sequence number, in their order."""
        rows = self._rows(_CHANGES, sequence, ROWS)
        return [
            self._edge(row[:7]) if row[7] is None else self._removal(row[7], row[8], row[0])
            for row in rows
        ]

    def _open(self) -> None:
        """Check what the file is; a new one gets its tables."""
        execute = self._connection.execute
        for setting in ("trusted_schema = OFF", "secure_delete = ON", "synchronous = FULL"):
            execute(f"PRAGMA {setting}")
        if self._is_new():
            self._enable_log()
            with self._transaction():
                if self._is_new():  # no other process was faster
                    for statement in filter(str.strip, _SCHEMA.split(";")):
                        execute(statement)
                    execute("INSERT INTO store VALUES (?)", (uuid.uuid4().hex,))
        if execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise FormatError(f"{self.path} is not a store of edges; choose another file")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA_VERSION:
            raise FormatError(
                f"{self.path} has schema version {version}, not {SCHEMA_VERSION}; use the version "
                "of edgeformers that wrote it"
            )
        self._enable_log()

    def _is_new(self) -> bool:
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = self._connection.execute("PRAGMA application_id").fetchone()[0]
        return not tables and not application

    def _enable_log(self) -> None:
        """Use a write-ahead log; two processes cannot turn it on at the same time."""
        deadline = time.monotonic() + WAIT
        while self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _empty_log(self) -> None:
        """Move all changes from the log to the file, if no snapshot needs the log."""
        self._rows("PRAGMA busy_timeout = 0")
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self._rows(f"PRAGMA busy_timeout = {1000 * WAIT:.0f}")

    def _answer(self, key: str, digest: bytes) -> Appended | None:
        """The answer that was given to a key before."""
        _encoded(key, "the idempotency key")
        query = "SELECT digest, added, duplicates, first_sequence FROM answers WHERE key = ?"
        row = self._connection.execute(query, (key,)).fetchone()
        if row is None:
            return None
        if row[0] != digest:
            raise KeyConflictError(
                f"the idempotency key '{key}' was used before with other edges; use a new one"
            )
        return Appended(added=row[1], duplicates=row[2], first_sequence=row[3])

    def _edge(self, row: Sequence[Any]) -> StoredEdge:
        sequence, source, target, text, label, when, received = row
        is_text = all(isinstance(value, str) for value in (source, target, text, label or ""))
        if not is_text or not isinstance(when or 0, int) or not isinstance(received, int):
            raise FormatError(
                f"{self.path} is damaged: edge {sequence} has a value of a wrong type"
            )
        return StoredEdge(
            source=source,
            target=target,
            text=text,
            label=label,
            time=when,
            received=received,
            sequence=sequence,
        )

    def _removal(self, node: Any, side: Any, sequence: int) -> Removal:
        if not isinstance(node, str) or side not in _OF_NODE:
            raise FormatError(f"{self.path} is damaged: removal {sequence} has an invalid value")
        return Removal(node=node, side=side, sequence=sequence)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, self._errors():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Changes that reach the disk together when the block ends, or not at all."""
        with self._lock, self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite into a sentence that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code == sqlite3.SQLITE_BUSY:
                raise BusyError(
                    f"another process has been writing {self.path} for {WAIT:.0f} seconds; wait "
                    "until it has finished"
                ) from error
            if code == sqlite3.SQLITE_CANTOPEN:
                raise InputError(
                    f"{self.path} cannot be opened ({error}); check the path and its permissions"
                ) from error
            if code not in _ERRNO:
                raise FormatError(
                    f"{self.path} is damaged or not a store of edges ({error}); restore a copy"
                ) from error
            with writing(self.path):
                raise OSError(_ERRNO[code], str(error)) from error


def edge_times(values: Sequence[float | str | None]) -> list[int | None]:
    """Microseconds since 1970 in UTC of the times of edges, or None.

    A number is in Unix seconds; a text is read as by `prepare`. A time later than tomorrow is an
    error, because all other edges would be old next to it.
    """
    read: list[int | None] = [None] * len(values)
    texts = [value if isinstance(value, str) else None for value in values]
    if any(texts):
        read = parse_times(pa.array(texts, pa.string()), "each").cast("int64").to_pylist()
    tomorrow = time.time_ns() // 1000 + DAY  # clocks and time zones differ
    for at, value in enumerate(values):
        if value is None:
            continue
        kind = TIME
        if not isinstance(value, str):
            read[at] = _from_seconds(value)
            kind = (
                "a time in Unix seconds; write it as 1685534400, or as the text 2023-05-31T12:00:00"
            )
        if (moment := read[at]) is None:
            raise InputError(f"edge {at + 1}: '{excerpt(str(value))}' is not {kind}")
        if moment > tomorrow:
            raise InputError(
                f"edge {at + 1}: the time '{excerpt(str(value))}' is in the future; correct it, or "
                "leave it out for the time of arrival"
            )
    return read


def _from_seconds(value: float) -> int | None:
    """Microseconds since 1970, or None if the number is no time of the years 1 to 9999."""
    try:
        since = timedelta(seconds=math.nan if isinstance(value, bool) else value)
        return (EPOCH + since - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def _digest(edge: StoredEdge, place: int) -> bytes:
    """A digest of what makes an edge; `place` counts from 1, for messages."""
    digest = hashlib.blake2b(repr(edge.time).encode(), digest_size=16)
    for name in ("source", "target", "text", "label"):
        value = getattr(edge, name)
        encoded = _encoded(value or "", f"edge {place}: the {name}")
        if name in ("source", "target") and not value:
            raise InputError(f"edge {place}: the {name} is empty; every edge needs both ends")
        if name != "label":
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} {text!r} has a lone surrogate; send valid Unicode") from error
