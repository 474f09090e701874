"""Stack Exchange: the XML dump (answers, comments, questions) and BigQuery's comments table."""

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from edgeformers.errors import FormatError, InputError

logger = logging.getLogger("edgeformers")

QUESTION, ANSWER = "1", "2"  # PostTypeId of the dump
TAGS = re.compile(r"[^<>|]+")

Row = tuple[int, Mapping[str, str]]  # line number, attributes
Rows = Callable[[], Iterable[Mapping[str, Any]]]


def read_stackexchange_posts(path: str | PathLike[str], *, on_error: OnError = "stop") -> EdgeTable:
    """Posts.xml (plain, gz or zst): an answer is an edge answerer -> question, its text the body.

    Labels are "accepted" and "other"; the column `score` is extra. Answers whose owner left the
    site have no source: they are left out, and the log says how many. Every reading passes over
    the file twice, as a question may be far from the answer it accepts.
    """
    file, errors = _one_file(path), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        accepted, ownerless = _accepted_answers(file), 0
        for line, post in _xml_rows(file, "posts"):
            if post.get("PostTypeId") != ANSWER:
                continue
            if "OwnerUserId" not in post:
                ownerless += 1
                continue
            edge = _edge(file, line, post, ("OwnerUserId", "ParentId", "Body"), errors)
            if edge is not None:
                edge["text"] = html_to_text(edge["text"])
                edge["label"] = "accepted" if _contains(accepted, post.get("Id")) else "other"
                yield edge
        logger.info("%s: %d answers without an owner are left out", file, ownerless)

    return _edge_table(file, rows, errors, fields=("label", "time"))


def read_stackexchange_comments(
    path: str | PathLike[str], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Comments.xml (plain, gz or zst): a comment is an edge user -> post, with its time and score.

    Comments without a user are left out, and the log says how many.
    """
    file, errors = _one_file(path), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        ownerless = 0
        for line, comment in _xml_rows(file, "comments"):
            if "UserId" not in comment:
                ownerless += 1
                continue
            edge = _edge(file, line, comment, ("UserId", "PostId", "Text"), errors)
            if edge is not None:
                yield edge
        logger.info("%s: %d comments without a user are left out", file, ownerless)

    return _edge_table(file, rows, errors, fields=("time",))


def read_stackexchange_questions(
    path: str | PathLike[str], *, on_error: OnError = "stop"
) -> NodeTable:
    """The questions of Posts.xml, with their tags as labels, and title and body as text."""
    file, errors = _one_file(path), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        for line, post in _xml_rows(file, "posts"):
            if post.get("PostTypeId") != QUESTION:
                continue
            if not post.get("Id"):
                errors.report(f"{file}, line {line}: a question without Id; every post needs one")
                continue
            text = f"{post.get('Title', '')}\n{html_to_text(post.get('Body', ''))}".strip()
            labels = split_tags(post.get("Tags", ""))
            yield {"id": post["Id"], "side": "target", "labels": labels, "text": text}

    return NodeTable.from_rows(rows, origin=str(file), errors=errors)


def read_bigquery_comments(
    paths: PathOrGlob | Iterable[PathOrGlob], *, on_error: OnError = "stop"
) -> EdgeTable:
    """Exports of BigQuery's table `comments` (CSV, JSON lines or Parquet): an edge user -> post.

    Comments without a user are left out, and the log says how many.
    """
    # The post stands in for both ends at first: unlike a post, a user may be missing.
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
    schema = edge_schema(("time",), {"score": pa.int64()})

    def batches() -> Iterator[pa.RecordBatch]:
        ownerless = 0
        for batch in table.open():
            users = pc.fill_null(pc.cast(batch.column("user_id"), pa.string()), "")
            target, text, time = (batch.column(name) for name in ("target", "text", "time"))
            score = pc.cast(batch.column("weight"), pa.int64(), safe=False)
            edges = pa.RecordBatch.from_arrays([users, target, text, time, score], schema=schema)
            known = edges.filter(pc.not_equal(users, ""))
            ownerless += edges.num_rows - known.num_rows
            yield known
        logger.info("%s: %d comments without a user are left out", table.origin, ownerless)

    return replace(table, schema=schema, open=batches)


def split_tags(tags: str) -> list[str]:
    """Both spellings of the dumps, `<ale><hops>` and `|ale|hops|`, as a list."""
    return TAGS.findall(tags)


def _one_file(path: str | PathLike[str]) -> Path:
    files = expand_paths(path)
    if len(files) != 1 or files[0].is_dir():
        raise InputError(f"{path}: expected one XML file of a Stack Exchange dump")
    return files[0]


def _xml_rows(file: Path, root: str) -> Iterator[Row]:
    """(line, attributes) of every <row> of a dump file, in constant memory."""
    parser, met = expat.ParserCreate(), list[Row]()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth == 1 and tag != root:
            raise FormatError(f"{file}: the XML begins with <{tag}>; a dump file has <{root}> here")
        if tag == "row":
            met.append((parser.CurrentLineNumber, attributes))

    parser.StartElementHandler = start
    try:
        for _, line in numbered_lines(file):
            parser.Parse(line + b"\n")
            yield from met
            met.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise FormatError(
            f"{file}, line {error.lineno}: not well-formed XML ({expat.ErrorString(error.code)}); "
            "fetch the file again or repair that line"
        ) from error


def _accepted_answers(file: Path) -> np.ndarray:
    """Sorted ids of all accepted answers: 8 bytes each, so the largest site fits."""
    ids = (post.get("AcceptedAnswerId", "") for _, post in _xml_rows(file, "posts"))
    return np.sort(np.fromiter((int(i) for i in ids if i.isdecimal()), dtype=np.int64))


def _contains(ids: np.ndarray, post: str | None) -> bool:
    if post is None or not post.isdecimal():
        return False
    at = bisect_left(ids, int(post))
    return at < len(ids) and bool(ids[at] == int(post))


def _edge(
    file: Path, line: int, row: Mapping[str, str], names: tuple[str, str, str], errors: RowErrors
) -> dict[str, Any] | None:
    """Source, target, text, time and score of one row; None where the row was reported."""
    source, target, text = (row.get(name, "") for name in names)
    if not source or not target:
        missing = names[1] if source else names[0]
        errors.report(
            f"{file}, line {line}: row {row.get('Id', '?')} has no {missing}; "
            "every edge needs both ends"
        )
        return None
    try:
        time, score = _utc(row.get("CreationDate")), int(row["Score"]) if "Score" in row else None
    except ValueError:
        errors.report(
            f"{file}, line {line}: row {row.get('Id', '?')} has CreationDate "
            f"'{row.get('CreationDate')}' and Score '{row.get('Score')}'; "
            "expected ISO time and a whole number"
        )
        return None
    return {"source": source, "target": target, "text": text, "time": time, "score": score}


def _utc(written: str | None) -> datetime | None:
    """ISO time as UTC without a zone; a time written without zone is UTC already."""
    if not written:
        return None
    time = datetime.fromisoformat(written)
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time


def _edge_table(file: Path, rows: Rows, errors: RowErrors, fields: Iterable[str]) -> EdgeTable:
    return EdgeTable.from_rows(
        rows,
        fields=fields,
        extra={"score": pa.int64()},
        origin=str(file),
        bipartite=True,
        errors=errors,
    )
