r"""The processed folders that the paper's authors published: train.tsv, val.tsv and test.tsv.

There are two kinds: in edge-classification folders a line is an edge; in link-prediction folders
a line is a pair of nodes, each with sampled neighbors. The pickle files next to them are never
opened; the .tsv files contain everything.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from edgeformers.data.readers.files import parse_lines
from edgeformers.data.readers.values import excerpt
from edgeformers.data.table import EdgeTable, OnError, RowErrors
from edgeformers.errors import InputError

FIELD = r"\$\$"  # four characters, between the fields of a line
PART = r"\*\*"  # four characters, between the parts of a node's description
PADDING = "-1"  # in place of a missing neighbor
GROUP_LABELS = ("1", "0")  # the first group of neighbors is positive, the second negative

Neighbor = tuple[str, str, str]  # id, text, label


class NodePair(NamedTuple):
    """One line of a link-prediction file."""

    source: str
    target: str
    label: str
    source_neighbors: list[Neighbor]
    target_neighbors: list[Neighbor]


def looks_like_authors_folder(path: str | PathLike[str]) -> Literal["edges", "pairs"] | None:
    """The kind of folder, from the first line of its train.tsv."""
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
            for _, (text, source, target, label) in parse_lines(file, _parse_edge, errors):
                yield _row(source, target, text, label, split)

    return _table(folder, rows, errors)


def read_authors_pairs(folder: str | PathLike[str], *, on_error: OnError = "stop") -> EdgeTable:
    r"""A link-prediction folder as one network: a line is ``node1\$\$node2\$\$label``.

    Each node is ``id\*\*texts 1\*\*texts 2\*\*neighbors 1\*\*neighbors 2`` (or a single group).
    Edges to the neighbors in train.tsv are training edges, labeled "1" in the first group and
    "0" in the second. A pair is an edge in the split of its file; its text is the one that any
    neighbor list has for it, or empty. An edge that is a pair of val.tsv or test.tsv is never a
    training edge, and no (source, target, text) occurs twice. The pairs of val.tsv
    and test.tsv are in the order of their lines, which determines the batches of the protocol
    `paper`.
    """
    files, errors = _files(folder), RowErrors(on_error)

    def rows() -> Iterator[dict[str, Any]]:
        pairs = _label_and_split_of_pairs(files)
        seen, with_text = set[bytes](), set[tuple[str, str]]()
        held_out = defaultdict[tuple[str, str], list[str]](list)  # texts of val and test pairs
        for split, file in files.items():
            for source, target, text, label in _neighbor_edges(file, errors):
                pair = pairs.get((source, target))
                if pair is None and split != "train":
                    continue
                # 16 bytes per edge, so that millions of texts need not stay in memory
                key = blake2b(f"{source}\0{target}\0{text}".encode(), digest_size=16).digest()
                if key in seen:
                    continue
                seen.add(key)
                if pair is not None and pair[1] != "train":
                    held_out[source, target].append(text)
                    continue
                with_text.add((source, target))
                yield _row(source, target, text, *(pair or (label, "train")))
        for ends, pair in pairs.items():
            if ends not in with_text:
                for text in held_out.get(ends, [""]):
                    yield _row(*ends, text, *pair)

    return replace(_table(folder, rows, errors), has_published_order=True)


def _parse_edge(line: str) -> list[str]:
    fields = [field.strip() for field in line.rsplit(FIELD, 3)]  # a text may contain FIELD
    if len(fields) < 4 or not all(fields[1:]):
        expected = FIELD.join(("text", "source", "target", "label"))
        raise ValueError(f"expected {expected}, got '{excerpt(line)}'")
    return fields


def _parse_pair(line: str) -> NodePair:
    """One line of a link-prediction file; a ValueError says what is wrong with it."""
    fields = line.split(FIELD)
    if len(fields) != 3 or not fields[2].strip():
        raise ValueError(f"expected node1{FIELD}node2{FIELD}label, got '{excerpt(line)}'")
    source, source_neighbors = _parse_node(fields[0], "node1")
    target, target_neighbors = _parse_node(fields[1], "node2")
    return NodePair(source, target, fields[2].strip(), source_neighbors, target_neighbors)


def _parse_node(description: str, name: str) -> tuple[str, list[Neighbor]]:
    node, *parts = description.split(PART)
    if not node.strip() or len(parts) not in (2, 4):
        raise ValueError(
            f"{name} should be id{PART}texts{PART}neighbors, or the same with two groups of each; "
            f"got {len(parts) + 1} parts: '{excerpt(description)}'"
        )
    groups, neighbors = len(parts) // 2, list[Neighbor]()
    for group, label in zip(range(groups), GROUP_LABELS, strict=False):
        ids, texts = parts[groups + group].split(), parts[group].split("\t")
        if len(texts) == len(ids) + 1 and not texts[-1].strip():
            texts.pop()
        if len(texts) != len(ids):
            raise ValueError(
                f"group {group + 1} of {name} has {len(texts)} texts for {len(ids)} neighbors"
            )
        pairs = zip(ids, texts, strict=True)
        neighbors += [(i, text.strip(), label) for i, text in pairs if i != PADDING]
    return node.strip(), neighbors


def _neighbor_edges(file: Path, errors: RowErrors) -> Iterator[tuple[str, str, str, str]]:
    """(source, target, text, label) of every neighbor: node1 is a source, node2 a target."""
    for _, pair in parse_lines(file, _parse_pair, errors):
        for neighbor, text, label in pair.source_neighbors:
            yield pair.source, neighbor, text, label
        for neighbor, text, label in pair.target_neighbors:
            yield neighbor, pair.target, text, label


def _label_and_split_of_pairs(files: dict[str, Path]) -> dict[tuple[str, str], tuple[str, str]]:
    """(source, target) -> (label, split) of all pairs; val.tsv and test.tsv take precedence.

    Invalid lines are ignored here, since reading the neighbors reports them.
    """
    pairs: dict[tuple[str, str], tuple[str, str]] = {}
    for split in sorted(files, key=lambda name: name == "train"):
        for _, pair in parse_lines(files[split], _parse_pair, RowErrors("skip")):
            pairs.setdefault((pair.source, pair.target), (pair.label, split))
    return pairs


def _files(folder: str | PathLike[str]) -> dict[str, Path]:
    files = {name: Path(folder) / f"{name}.tsv" for name in ("train", "val", "test")}
    if not files["train"].is_file():
        raise InputError(
            f"{folder} has no train.tsv; pass the folder with train.tsv, val.tsv and test.tsv"
        )
    return {name: file for name, file in files.items() if file.is_file()}


def _row(source: str, target: str, text: str, label: str, split: str) -> dict[str, str]:
    return {"source": source, "target": target, "text": text, "label": label, "split": split}


def _table(folder: Any, rows: Any, errors: RowErrors) -> EdgeTable:
    return EdgeTable.from_rows(
        rows, fields=("label", "split"), origin=str(folder), bipartite=True, errors=errors
    )
