"""Stack Exchange: answers, comments and questions of the XML dump, and BigQuery's comments."""

import logging
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edgeformers.data.readers.files import PathOrGlob, expand_paths, numbered_lines
from edgeformers.data.readers.html import html_to_text
from edgeformers.data.readers.tables import read_edges
from edgeformers.data.table import EdgeTable, NodeTable, OnError, RowErrors, edge_schema
from edgeformers.data.types import Ids
from edgeformers.errors import FormatError, InputError

logger = logging.getLogger("edgeformers")

QUESTION, ANSWER = "1", "2"  # PostTypeId
TAGS = re.compile(r"[^<>|]+")
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
        answers = ((n, p) for n, p in _xml_rows(file, "posts") if p.get("PostTypeId") == ANSWER)
        columns = ("OwnerUserId", "ParentId", "Body")
        for post, edge in _edges(file, answers, columns, errors, "answers"):
            label = "accepted" if _contains(accepted, post.get("Id")) else "other"
            yield {**edge, "text": html_to_text(edge["text"]), "label": label}

    return EdgeTable.from_rows(
        rows,
        fields=("label", "time"),
        extra=EXTRA,
        origin=str(file),
        bipartite=True,
        errors=errors,
    )


def read_stackexchange_comments(
    path: str | PathLike[str], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Comments.xml (plain, gz or zst): a comment is an edge user -> post, with time and score.

    Comments without a user are left out; their number is logged.
    """
    file, errors = _single_file(path), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        comments = _xml_rows(file, "comments")
        for _, edge in _edges(file, comments, ("UserId", "PostId", "Text"), errors, "comments"):
            yield edge

    return EdgeTable.from_rows(
        rows, fields=("time",), extra=EXTRA, origin=str(file), bipartite=True, errors=errors
    )


def read_stackexchange_questions(
    path: str | PathLike[str], *, on_error: OnError = "stop"
) -> NodeTable:
    """The questions of Posts.xml, with tags as labels, and title and body as text."""
    file, errors = _single_file(path), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        for line, post in _xml_rows(file, "posts"):
            if post.get("PostTypeId") != QUESTION:
                continue
            if not post.get("Id"):
                errors.report(f"{file}, line {line}: a question has no Id; every post needs one")
                continue
            text = f"{post.get('Title', '')}\n{html_to_text(post.get('Body', ''))}".strip()
            labels = split_tags(post.get("Tags", ""))
            yield {"id": post["Id"], "side": "target", "labels": labels, "text": text}

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

    return replace(table, schema=schema, open=batches)


def split_tags(tags: str) -> list[str]:
    """The tags of a question, written as `<ale><hops>` or `|ale|hops|`."""
    return TAGS.findall(tags)


def _single_file(path: str | PathLike[str]) -> Path:
    files = expand_paths(path)
    if len(files) != 1 or files[0].is_dir():
        raise InputError(f"{path}: expected one XML file of a Stack Exchange dump")
    return files[0]


def _xml_rows(file: Path, root: str) -> Iterator[tuple[int, Attributes]]:
    """(line, attributes) of every <row> of a dump file, in constant memory."""
    parser, rows = expat.ParserCreate(), list[tuple[int, Attributes]]()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth == 1 and tag != root:
            raise FormatError(f"{file}: expected <{root}> as the first element (got <{tag}>)")
        if tag == "row":
            rows.append((parser.CurrentLineNumber, attributes))

    parser.StartElementHandler = start
    try:
        for _, line in numbered_lines(file):
            parser.Parse(line + b"\n")
            yield from rows
            rows.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise FormatError(
            f"{file}, line {error.lineno}: not well-formed XML ({expat.ErrorString(error.code)}); "
            "download the file again or repair the line"
        ) from error


def _accepted_answers(file: Path) -> Ids:
    """The sorted ids of all accepted answers: 8 bytes each, so that the largest site fits."""
    ids = (post.get("AcceptedAnswerId", "") for _, post in _xml_rows(file, "posts"))
    return np.sort(np.fromiter((int(i) for i in ids if i.isdecimal()), dtype=np.int64))


def _contains(ids: Ids, post: str | None) -> bool:
    if post is None or not post.isdecimal():
        return False
    index = bisect_left(ids, int(post))
    return index < len(ids) and bool(ids[index] == int(post))


def _edges(
    file: Path,
    rows: Iterable[tuple[int, Attributes]],
    columns: tuple[str, str, str],
    errors: RowErrors,
    kind: str,
) -> Iterator[tuple[Attributes, dict[str, Any]]]:
    """(attributes, edge) of every row that has a user; `columns` are source, target and text."""
    omitted = 0
    for line, row in rows:
        if columns[0] not in row:
            omitted += 1
            continue
        try:
            edge = _edge(row, columns)
        except ValueError as error:
            errors.report(f"{file}, line {line}: row {row.get('Id', '?')} {error}")
        else:
            yield row, edge
    logger.info("%s: left out %d %s without a user", file, omitted, kind)


def _edge(row: Attributes, columns: tuple[str, str, str]) -> dict[str, Any]:
    source, target, text = (row.get(name, "") for name in columns)
    if not source or not target:
        missing = columns[1] if source else columns[0]
        raise ValueError(f"has no {missing}; every edge needs source and target")
    try:
        time, score = _utc(row.get("CreationDate")), int(row["Score"]) if "Score" in row else None
    except ValueError:
        raise ValueError(
            f"has CreationDate '{row.get('CreationDate')}' and Score '{row.get('Score')}'; "
            "expected an ISO time and an integer"
        ) from None
    return {"source": source, "target": target, "text": text, "time": time, "score": score}


def _utc(time: str | None) -> datetime | None:
    """An ISO time as UTC without a zone; times without a zone are UTC."""
    if not time:
        return None
    parsed = datetime.fromisoformat(time)
    return parsed.astimezone(UTC).replace(tzinfo=None) if parsed.tzinfo else parsed
