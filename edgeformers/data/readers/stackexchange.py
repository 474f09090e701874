"""Stack Exchange: answers, comments and questions of the XML dump, and BigQuery's comments."""

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.files import (
    PathOrGlob,
    expand_paths,
    numbered_lines,
    parse_rows,
)
from edgeformers.data.readers.html import html_to_text
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.table import (
    EdgeTable,
    NodeTable,
    OnError,
    RowErrors,
    edge_schema,
    naive_utc,
)
from edgeformers.data.types import Ids
from edgeformers.errors import EdgeformersError, FormatError, InputError

logger = logging.getLogger("edgeformers")

QUESTION, ANSWER = "1", "2"  # PostTypeId
TAGS = re.compile(r"[^<>|]+")  # of a question, written as `<ale><hops>` or `|ale|hops|`
EXTRA = {"score": pa.int64()}

Attributes = Mapping[str, str]


def read_stackexchange_posts(path: str | PathLike[str], *, on_error: OnError = "stop") -> EdgeTable:
    """Posts.xml (plain, gz or zst): an answer is an edge answerer -> question, its text the body.

    Labels are "accepted" and "other"; `score` is an extra column. Answers of deleted users have
    no source and are left out; their number is logged. The file is read twice, since a question
    may be far from the answer it accepts.
    """
    file, errors = _single_file(path), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        accepted = _accepted_answers(file)
        for edge in _edges(file, "answers", errors):
            post = _post_number(edge["id"])
            place = bisect_left(accepted, post)
            is_accepted = place < len(accepted) and accepted[place] == post
            label = "accepted" if is_accepted else "other"
            yield {**edge, "text": html_to_text(edge["text"]), "label": label}

    return _table(file, rows, ("label", "time"), errors)


def read_stackexchange_comments(
    path: str | PathLike[str], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Comments.xml (plain, gz or zst): a comment is an edge user -> post, with time and score.

    Comments without a user are left out; their number is logged.
    """
    file, errors = _single_file(path), RowErrors(on_error)
    return _table(file, lambda: _edges(file, "comments", errors), ("time",), errors)


def read_stackexchange_questions(
    path: str | PathLike[str], *, on_error: OnError = "stop"
) -> NodeTable:
    """The questions of Posts.xml, with tags as labels, and title and body as text."""
    file, errors = _single_file(path), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        questions = _xml_rows(file, "posts", QUESTION)
        for _, row in parse_rows(questions, _question, file, errors):
            yield row

    return NodeTable.from_rows(rows, origin=str(file), errors=errors)


def read_bigquery_comments(
    paths: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Exports of BigQuery's table `comments` (CSV, JSON Lines or Parquet): an edge user -> post.

    Comments without a user are left out; their number is logged.
    """
    # A missing user is no error, but a missing source is: the post is read as source at first.
    table = read_edges(
        expand_paths(paths),
        source="post_id",
        target="post_id",
        text="text",
        time="creation_date",
        weight="score",
        keep=("user_id",),
        on_error=on_error,
    )
    schema = edge_schema(("time",), EXTRA)

    def batches() -> Iterator[pa.RecordBatch]:
        omitted = 0
        for batch in table.open():
            users = pc.fill_null(pc.cast(batch.column("user_id"), pa.string()), "")
            target, text, time = (batch.column(name) for name in ("target", "text", "time"))
            score = pc.cast(batch.column("weight"), pa.int64(), safe=False)
            edges = pa.RecordBatch.from_arrays([users, target, text, time, score], schema=schema)
            with_user = edges.filter(pc.not_equal(users, ""))
            omitted += edges.num_rows - with_user.num_rows
            yield with_user
        logger.info("%s: left out %d comments without a user", table.origin, omitted)

    return replace(table, schema=schema, open=batches, place=None)


def _table(
    file: Path,
    rows: Callable[[], Iterator[dict[str, Any]]],
    fields: Sequence[str],
    errors: RowErrors,
) -> EdgeTable:
    return EdgeTable.from_rows(
        rows, fields=fields, extra=EXTRA, origin=str(file), bipartite=True, errors=errors
    )


def _single_file(path: str | PathLike[str]) -> Path:
    files = expand_paths(path)
    if len(files) != 1 or files[0].is_dir():
        raise InputError(f"{path}: expected one XML file of a Stack Exchange dump")
    return files[0]


def _xml_rows(
    file: Path, root: str, post_type: str | None = None
) -> Iterator[tuple[int, Attributes]]:
    """(line, attributes) of every <row> of a dump file (of one type), in constant memory."""
    parser, rows = expat.ParserCreate(), list[tuple[int, Attributes]]()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth == 1 and tag != root:
            raise FormatError(f"{file}: expected <{root}> as the first element (got <{tag}>)")
        if tag == "row" and post_type in (None, attributes.get("PostTypeId")):
            rows.append((parser.CurrentLineNumber, attributes))

    parser.StartElementHandler = start
    try:
        for _, line in numbered_lines(file):
            parser.Parse(line + b"\n")
            yield from rows
            rows.clear()
        parser.Parse(b"", True)
    except EdgeformersError:
        raise
    except expat.ExpatError as error:
        raise FormatError(
            f"{file}, line {error.lineno}: not well-formed XML ({expat.ErrorString(error.code)}); "
            "download the file again or repair the line"
        ) from error
    except (LookupError, ValueError) as error:  # of the encoding in its first line
        raise FormatError(f"{file} cannot be read ({error}); write it in UTF-8") from error


def _accepted_answers(file: Path) -> Ids:
    """The sorted ids of all accepted answers: 8 bytes each, so that the largest site fits."""
    ids = (_post_number(post.get("AcceptedAnswerId")) for _, post in _xml_rows(file, "posts"))
    return np.sort(np.fromiter((number for number in ids if number >= 0), dtype=np.int64))


def _post_number(text: str | None) -> int:
    """A post's id as a number of 64 bits; -1 if it is none."""
    return int(text) if text and text.isdecimal() and len(text) < 19 else -1


def _edges(file: Path, kind: str, errors: RowErrors) -> Iterator[dict[str, Any]]:
    """The answers of Posts.xml or the comments of Comments.xml that have a user."""
    columns = ("OwnerUserId", "ParentId", "Body")
    rows = _xml_rows(file, "posts", ANSWER)
    if kind == "comments":
        columns, rows = ("UserId", "PostId", "Text"), _xml_rows(file, "comments")
    omitted = 0
    for _, edge in parse_rows(rows, lambda row: _edge(row, *columns), file, errors):
        if edge is None:
            omitted += 1
        else:
            yield edge
    logger.info("%s: left out %d %s without a user", file, omitted, kind)


def _edge(row: Attributes, user: str, target: str, text: str) -> dict[str, Any] | None:
    """The edge of a row, or None if it has no user; the other arguments name attributes."""
    if user not in row:
        return None
    where = f"row {row.get('Id', '?')} has"
    for name in (user, target):
        if not row.get(name):
            raise ValueError(f"{where} no {name}; every edge needs source and target")
    try:
        date, score = row.get("CreationDate"), int(row["Score"]) if "Score" in row else None
        time = naive_utc(datetime.fromisoformat(date)) if date else None
        if score is not None and abs(score) >> 63:
            raise ValueError("more than 64 bits")
    except (ValueError, OverflowError):
        raise ValueError(
            f"{where} CreationDate '{row.get('CreationDate')}' and Score '{row.get('Score')}'; "
            "expected an ISO time and an integer"
        ) from None
    edge = {"id": row.get("Id"), "source": row[user], "target": row[target]}
    return {**edge, "text": row.get(text, ""), "time": time, "score": score}


def _question(post: Attributes) -> dict[str, Any]:
    if not post.get("Id"):
        raise ValueError("a question has no Id; every post needs one")
    text = f"{post.get('Title', '')}\n{html_to_text(post.get('Body', ''))}".strip()
    labels = TAGS.findall(post.get("Tags", ""))
    return {"id": post["Id"], "side": "target", "labels": labels, "text": text}
