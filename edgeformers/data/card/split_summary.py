"""Statistics of a split: the size of its parts, cold nodes, labels and overlap with training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgeformers.data.card.card import LabelSummary, NamedCount, Overlap, PartSummary, SplitSummary
from edgeformers.data.card.distributions import CHUNK, Array, distribution
from edgeformers.data.card.phrasing import NAME_CHARACTERS, shorten
from edgeformers.data.splits import PARTS

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph


def summarize_split(
    graph: "EdgeTextGraph", name: str, codes: Array, keys: dict[str, Array]
) -> SplitSummary:
    """All parts of a split; `keys` are equal for edges that share a text, a pair or both."""
    codes = np.asarray(codes)
    train = codes == PARTS["train"]
    known = touched_nodes(graph, train)
    trained = {
        what: np.sort(values[_counts_for(graph, what, train)]) for what, values in keys.items()
    }
    parts = []
    for part, code in PARTS.items():
        chosen = codes == code
        if part in ("profile", "none") and not chosen.any():
            continue
        overlaps: dict[str, Overlap | None] = dict.fromkeys(keys)
        if part in ("val", "test"):
            overlaps = {
                what: _overlap(graph, what, chosen, values, trained[what])
                for what, values in keys.items()
            }
        parts.append(_summarize_part(graph, part, chosen, known, overlaps))
    config = graph.split_configs.get(name)
    return SplitSummary(name, parts, config.to_text() if config else "")


def _summarize_part(
    graph: "EdgeTextGraph",
    name: str,
    chosen: Array,
    known: Array,
    overlaps: dict[str, Overlap | None],
) -> PartSummary:
    edges = int(np.count_nonzero(chosen))
    touched = touched_nodes(graph, chosen)
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
        labels=summarize_labels(graph, chosen),
        same_text=overlaps["text"],
        same_pair=overlaps["pair"],
        same_edge=overlaps["edge"],
    )


def touched_nodes(graph: "EdgeTextGraph", chosen: Array | slice) -> Array:
    """A mask of the nodes that have one of the chosen edges."""
    touched = np.zeros(graph.num_nodes, dtype=bool)
    touched[graph.src[chosen]] = True
    touched[graph.dst[chosen]] = True
    return touched


def _counts_for(graph: "EdgeTextGraph", what: str, chosen: Array) -> Array:
    """The chosen edges that can overlap: an empty text is not shared."""
    return chosen & (graph.text_lengths > 0) if what == "text" else chosen


def _overlap(
    graph: "EdgeTextGraph", what: str, chosen: Array, keys: Array, trained: Array
) -> Overlap:
    edge_ids = np.flatnonzero(_counts_for(graph, what, chosen))
    values = keys[edge_ids]
    ordered = np.sort(values)  # searching in order is many times faster than at random
    if not len(ordered) or not len(trained):
        return Overlap(0, 0.0, "")
    place = np.minimum(np.searchsorted(trained, ordered), len(trained) - 1)
    shared = ordered[trained[place] == ordered]
    if not len(shared):
        return Overlap(0, 0.0, "")
    example = int(edge_ids[int(np.argmax(values == shared[0]))])
    share = len(shared) / int(np.count_nonzero(chosen))
    return Overlap(len(shared), share, _example(graph, what, example))


def _example(graph: "EdgeTextGraph", what: str, edge_id: int) -> str:
    text = shorten(graph.texts(np.array([edge_id]))[0])
    ends = np.array([graph.src[edge_id], graph.dst[edge_id]])
    pair = " → ".join(shorten(name, NAME_CHARACTERS) for name in graph.node_names(ends))
    return {"text": text, "pair": pair, "edge": f"{pair}: {text}"}[what]


def summarize_labels(graph: "EdgeTextGraph", chosen: Array) -> LabelSummary | None:
    """The labels of the edges selected by a mask; None for a network without labels."""
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
        rows = np.asarray(values[start : start + CHUNK])[chosen[start : start + CHUNK]]
        has_label = rows.any(axis=1) if kind == "multi" else rows >= 0
        labeled += int(np.count_nonzero(has_label))
        if kind == "multi":
            counts += rows.sum(axis=0)
        else:
            counts += np.bincount(rows[has_label], minlength=len(counts))
    return LabelSummary(kind, labeled, total - labeled, _named(graph.label_names, counts), None)


def code_counts(codes: Array, names: Sequence[str]) -> list[NamedCount]:
    """How often the code of each name occurs."""
    return _named(names, np.bincount(codes, minlength=len(names)))


def _named(names: Sequence[str], counts: Array) -> list[NamedCount]:
    return [NamedCount(str(n), int(c)) for n, c in zip(names, counts, strict=True)]
