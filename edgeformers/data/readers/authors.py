r"""The processed folders the paper's authors published: train.tsv, val.tsv and test.tsv.

Two kinds are read. In the edge-classification folders a line is one edge; in the
link-prediction folders a line is a pair of nodes, each with the neighbors sampled around it.
The pickle files beside them are never opened: the .tsv files hold everything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from edgeformers.data.readers.files import numbered_lines
from edgeformers.data.table import EdgeTable, OnError, RowErrors
from edgeformers.errors import InputError

FIELD = r"\$\$"  # four characters: between the fields of a line
PART = r"\*\*"  # four characters: between the parts of a node's description
SPLITS = ("train", "val", "test")
PADDING = "-1"  # the neighbor that is not there
GROUP_LABELS = ("1", "0")  # the first group of neighbors is positive, the second negative

FolderKind = Literal["edges", "pairs"]
Rows = Callable[[], Iterable[Mapping[str, Any]]]


class Ego(NamedTuple):
    """A node as a pair line describes it: its id, and (neighbor, text, label) around it."""

    node: str
    neighbors: list[tuple[str, str, str]]


class Pair(NamedTuple):
    """One line of a link-prediction file."""

    source: Ego
    target: Ego
    label: str


class _BadLine(Exception):
    """What is wrong with a line; the caller knows the file and the number."""


def looks_like_authors_folder(path: str | PathLike[str]) -> FolderKind | None:
    """Which kind of folder this is, told from the first line of its train.tsv."""
    file = Path(path) / "train.tsv"
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        line = stream.readline(1 << 22).decode("utf-8", errors="replace")
    if line.count(FIELD) >= 2 and PART in line:
        return "pairs"
    return "edges" if line.count(FIELD) >= 3 else None


def read_authors_edges(folder: str | PathLike[str], *, on_error: OnError = "stop") -> EdgeTable:
    r"""An edge-classification folder: a line is ``text\$\$source\$\$target\$\$label``.

    The rows are those of train.tsv, val.tsv and test.tsv in this order, with the column `split`.
    """
    files, errors = _files(folder), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        for split, file in files.items():
            for number, line in _lines(file, errors):
                fields = line.rsplit(FIELD, 3)  # from the right: a text may hold the separator
                if len(fields) < 4 or not all(part.strip() for part in fields[1:]):
                    errors.report(
                        f"{file}, line {number}: expected text{FIELD}source{FIELD}target{FIELD}"
                        f"label, got {_short(line)}"
                    )
                    continue
                text, source, target, label = (field.strip() for field in fields)
                row = {"source": source, "target": target, "text": text, "label": label}
                yield row | {"split": split}

    return _table(folder, rows, errors)


def read_authors_pairs(folder: str | PathLike[str], *, on_error: OnError = "stop") -> EdgeTable:
    r"""A link-prediction folder as one network: a line is ``node1\$\$node2\$\$label``.

    Each node is ``id\*\*texts 1\*\*texts 2\*\*neighbors 1\*\*neighbors 2`` (or one group alone).
    The edges met around the nodes of train.tsv are training edges, labeled "1" in the first
    group and "0" in the second. The pairs are edges of their own file's split; a pair's text is
    the one any neighbor list gives for it, or empty. An edge that is a pair of val.tsv or
    test.tsv is never a training edge, and no (source, target, text) comes twice.
    """
    files, errors = _files(folder), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        pairs = _pair_ends(files)
        seen, found = set[bytes](), set[tuple[str, str]]()
        for split, file in files.items():
            for source, target, text, label in _listed_edges(file, errors):
                given = pairs.get((source, target))
                if given is not None:
                    found.add((source, target))
                elif split != "train":
                    continue
                key = _digest(source, target, text)
                if key not in seen:
                    seen.add(key)
                    yield _row(source, target, text, *(given or (label, "train")))
        for (source, target), given in pairs.items():
            if (source, target) not in found:
                yield _row(source, target, "", *given)

    return _table(folder, rows, errors)


def _parse_pair(line: str) -> Pair:
    """One line of a link-prediction file; `_BadLine` says what is wrong with it."""
    fields = line.split(FIELD)
    if len(fields) != 3 or not fields[2].strip():
        raise _BadLine(f"expected node1{FIELD}node2{FIELD}label, got {_short(line)}")
    return Pair(_parse_ego(fields[0], "node1"), _parse_ego(fields[1], "node2"), fields[2].strip())


def _parse_ego(info: str, name: str) -> Ego:
    node, *parts = info.split(PART)
    if not node.strip() or len(parts) not in (2, 4):
        raise _BadLine(
            f"{name} should be id{PART}texts{PART}neighbors, or the same with two groups of each; "
            f"got {len(parts) + 1} parts: {_short(info)}"
        )
    groups, neighbors = len(parts) // 2, list[tuple[str, str, str]]()
    for group, label in zip(range(groups), GROUP_LABELS, strict=False):
        ids, texts = parts[groups + group].split(), parts[group].split("\t")
        if len(texts) == len(ids) + 1 and not texts[-1].strip():
            texts.pop()
        if len(texts) != len(ids):
            raise _BadLine(
                f"group {group + 1} of {name} has {len(texts)} texts for {len(ids)} neighbors"
            )
        listed = zip(ids, texts, strict=True)
        neighbors += [(i, text.strip(), label) for i, text in listed if i != PADDING]
    return Ego(node.strip(), neighbors)


def _listed_edges(file: Path, errors: RowErrors) -> Iterator[tuple[str, str, str, str]]:
    """(source, target, text, label) of every neighbor in the file: node1 gives, node2 receives."""
    for number, line in _lines(file, errors):
        try:
            pair = _parse_pair(line)
        except _BadLine as error:
            errors.report(f"{file}, line {number}: {error}")
            continue
        for neighbor, text, label in pair.source.neighbors:
            yield pair.source.node, neighbor, text, label
        for neighbor, text, label in pair.target.neighbors:
            yield neighbor, pair.target.node, text, label


def _pair_ends(files: dict[str, Path]) -> dict[tuple[str, str], tuple[str, str]]:
    """(source, target) -> (label, split) of all pairs, those of val.tsv and test.tsv first.

    Bad lines are passed over here: reading the neighbor lists reports each of them once.
    """
    pairs: dict[tuple[str, str], tuple[str, str]] = {}
    for split in sorted(files, key=lambda name: name == "train"):
        for _, line in _lines(files[split], RowErrors("skip")):
            try:
                source, target, label = _parse_pair(line)
            except _BadLine:
                continue
            pairs.setdefault((source.node, target.node), (label, split))
    return pairs


def _files(folder: str | PathLike[str]) -> dict[str, Path]:
    found = {name: Path(folder) / f"{name}.tsv" for name in SPLITS}
    if not found["train"].is_file():
        raise InputError(
            f"{folder}: no train.tsv here; give the folder that holds train.tsv, val.tsv, test.tsv"
        )
    return {name: file for name, file in found.items() if file.is_file()}


def _lines(file: Path, errors: RowErrors) -> Iterator[tuple[int, str]]:
    for number, line in numbered_lines(file):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            errors.report(f"{file}, line {number}: not UTF-8 text ({error.reason})")
            continue
        if text.strip():
            yield number, text


def _row(source: str, target: str, text: str, label: str, split: str) -> dict[str, str]:
    return {"source": source, "target": target, "text": text, "label": label, "split": split}


def _digest(source: str, target: str, text: str) -> bytes:
    """16 bytes in place of an edge's text: millions of texts need not stay in memory."""
    return blake2b("\0".join((source, target, text)).encode(), digest_size=16).digest()


def _short(line: str) -> str:
    return repr(line if len(line) <= 80 else line[:77] + "...")


def _table(folder: str | PathLike[str], rows: Rows, errors: RowErrors) -> EdgeTable:
    return EdgeTable.from_rows(
        rows, fields=("label", "split"), origin=str(folder), bipartite=True, errors=errors
    )
