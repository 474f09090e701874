"""A split in numbers: how large its parts are, how cold, how leaky."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.card.card import LabelSummary, NamedCount, Overlap, PartSummary, SplitSummary
from edgeformers.data.card.distributions import CHUNK, distribution
from edgeformers.data.card.phrasing import NAME_CHARACTERS, shorten
from edgeformers.data.splits import PARTS

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph

Array = NDArray[Any]


def describe_split(
    graph: "EdgeTextGraph", name: str, codes: Array, keys: dict[str, Array]
) -> SplitSummary:
    """Every part of a split; `keys` are equal where two edges share their text, pair or both."""
    codes = np.asarray(codes)
    train = codes == PARTS["train"]
    known = _touched(graph, train)
    trained = {what: np.sort(_part_keys(graph, keys, what, train)[0]) for what in keys}
    parts = []
    for part, code in PARTS.items():
        chosen = codes == code
        if part in ("profile", "none") and not chosen.any():
            continue
        overlaps = {
            what: _overlap(graph, what, *_part_keys(graph, keys, what, chosen), trained[what])
            if part in ("val", "test")
            else None
            for what in keys
        }
        parts.append(_part(graph, part, chosen, known, overlaps))
    how = graph.split_configs.get(name)
    return SplitSummary(name, parts, how.to_text() if how else "")


def _part(
    graph: "EdgeTextGraph",
    name: str,
    chosen: Array,
    known: Array,
    overlaps: dict[str, Overlap | None],
) -> PartSummary:
    edges = int(np.count_nonzero(chosen))
    touched = _touched(graph, chosen)
    is_known = known[graph.src] & known[graph.dst]
    sides = {"nodes": slice(0, graph.num_nodes)}
    if graph.is_bipartite:
        border = graph.num_sources
        sides = {"sources": slice(0, border), "targets": slice(border, graph.num_nodes)}
    return PartSummary(
        name=name,
        edges=edges,
        share=edges / max(graph.num_edges, 1),
        nodes={side: int(np.count_nonzero(touched[at])) for side, at in sides.items()},
        cold={side: int(np.count_nonzero((touched & ~known)[at])) for side, at in sides.items()},
        cold_edges=int(np.count_nonzero(chosen & ~is_known)),
        labels=labels_of(graph, chosen),
        same_text=overlaps["text"],
        same_pair=overlaps["pair"],
        same_edge=overlaps["edge"],
    )


def _touched(graph: "EdgeTextGraph", chosen: Array) -> Array:
    """Which nodes the chosen edges touch."""
    touched = np.zeros(graph.num_nodes, dtype=bool)
    touched[graph.src[chosen]] = True
    touched[graph.dst[chosen]] = True
    return touched


def _part_keys(
    graph: "EdgeTextGraph", keys: dict[str, Array], what: str, chosen: Array
) -> tuple[Array, Array, int]:
    """Keys and ids of the chosen edges, and their number before empty texts are left out."""
    kept = chosen & (graph.text_lengths > 0) if what == "text" else chosen
    return keys[what][kept], np.flatnonzero(kept), int(np.count_nonzero(chosen))


def _overlap(
    graph: "EdgeTextGraph", what: str, values: Array, ids: Array, total: int, trained: Array
) -> Overlap:
    ordered = np.sort(values)  # searching in order is many times faster than at random
    if not len(ordered) or not len(trained):
        return Overlap(0, 0.0, "")
    place = np.minimum(np.searchsorted(trained, ordered), len(trained) - 1)
    met = ordered[trained[place] == ordered]
    if not len(met):
        return Overlap(0, 0.0, "")
    example = ids[int(np.argmax(values == met[0]))]
    return Overlap(len(met), len(met) / total, _edge_example(graph, what, int(example)))


def _edge_example(graph: "EdgeTextGraph", what: str, edge_id: int) -> str:
    text = shorten(graph.texts(np.array([edge_id]))[0])
    ends = np.array([graph.src[edge_id], graph.dst[edge_id]])
    pair = " → ".join(shorten(name, NAME_CHARACTERS) for name in graph.node_names(ends))
    return {"text": text, "pair": pair, "edge": f"{pair}: {text}"}[what]


def labels_of(graph: "EdgeTextGraph", chosen: Array) -> LabelSummary | None:
    """The labels of the chosen edges (a mask)."""
    values, kind = graph.labels, graph.label_kind
    if values is None or kind is None:
        return None
    total = int(np.count_nonzero(chosen))
    if kind == "number":
        numbers = np.asarray(values)[chosen]
        numbers = numbers[np.isfinite(numbers)]
        return LabelSummary(kind, len(numbers), total - len(numbers), [], distribution(numbers))
    counts, labeled = np.zeros(len(graph.label_names), dtype=np.int64), 0
    for start in range(0, len(values), CHUNK):
        part = np.asarray(values[start : start + CHUNK])[chosen[start : start + CHUNK]]
        rows = part.any(axis=1) if kind == "multi" else part >= 0
        labeled += int(np.count_nonzero(rows))
        counts += part.sum(axis=0) if kind == "multi" else count_codes(part[rows], len(counts))
    return LabelSummary(
        kind, labeled, total - labeled, named_counts(graph.label_names, counts), None
    )


def count_codes(codes: Array, number: int) -> Array:
    """How often each of the codes 0 to `number` - 1 occurs."""
    return np.bincount(codes, minlength=number)


def named_counts(names: Sequence[str], counts: Array) -> list[NamedCount]:
    """Each name with its count."""
    return [NamedCount(str(n), int(c)) for n, c in zip(names, counts, strict=True)]
