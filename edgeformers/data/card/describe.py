"""Computes the data card of a network from all of its edges."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgeformers.data.card.card import (
    CUTS,
    NEW_ENDS,
    Counts,
    DataCard,
    LabelSummary,
    NamedCount,
    NodeLabelSummary,
    Overlap,
    PartSummary,
    SideSummary,
    SplitSummary,
    TextSummary,
    WeightSummary,
)
from edgeformers.data.card.distributions import (
    CHARACTER_WIDTHS,
    CHUNK,
    TOKEN_WIDTHS,
    Array,
    count_times,
    degree_borders,
    distribution,
    largest,
    length_distribution,
)
from edgeformers.data.card.findings import with_findings
from edgeformers.data.card.phrasing import NAME_CHARACTERS, shorten
from edgeformers.data.random import splitmix64
from edgeformers.data.scratch import count_values
from edgeformers.data.splits import PARTS
from edgeformers.errors import with_options

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph

LISTED = 10  # hubs and repeated texts that are listed by name


def describe(graph: "EdgeTextGraph") -> DataCard:
    """Compute the data card of a prepared network: statistics, splits and findings."""
    pairs = _pair_keys(graph)
    texts = np.asarray(graph.text_hashes, dtype=np.uint64)
    keys = {"text": texts, "pair": pairs, "edge": splitmix64(pairs) + texts}
    card = DataCard(
        name=graph.name,
        origin=graph.origin,
        is_bipartite=graph.is_bipartite,
        is_directed=graph.is_directed,
        counts=_counts(graph, keys),
        sides=_sides(graph),
        texts=_texts(graph),
        labels=_labels(graph, np.ones(graph.num_edges, dtype=bool)),
        node_labels=_node_labels(graph),
        times=count_times(graph.times),
        weights=_weights(graph.weights),
        edge_types=_named_counts(graph.edge_types, graph.edge_type_names),
        splits=[_split(graph, name, codes, keys) for name, codes in graph.splits.items()],
        notes=list(graph.notes),
        skipped=graph.skipped.get("count", 0),
        skipped_examples=list(map(with_options, graph.skipped.get("examples", []))),
        findings=[],
    )
    return with_findings(card)


def _pair_keys(graph: "EdgeTextGraph") -> Array:
    """One number per edge, equal for edges between the same two nodes."""
    src, dst = np.asarray(graph.src), np.asarray(graph.dst)
    if graph.is_undirected:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    keys = np.multiply(src, max(graph.num_nodes, 1), dtype=np.uint64, casting="unsafe")
    return np.add(keys, dst, out=keys, casting="unsafe")


def _counts(graph: "EdgeTextGraph", keys: dict[str, Array]) -> Counts:
    edges_per_pair = np.unique_counts(keys["pair"]).counts
    return Counts(
        nodes=graph.num_nodes,
        sources=graph.num_sources,
        targets=graph.num_targets,
        edges=graph.num_edges,
        pairs=len(edges_per_pair),
        repeated_pairs=int(np.count_nonzero(edges_per_pair > 1)),
        repeating_edges=graph.num_edges - len(edges_per_pair),
        identical_edges=graph.num_edges - len(np.unique(keys["edge"])),
        self_loops=int(np.count_nonzero(graph.src == graph.dst)),
        isolated=graph.num_nodes - int(np.count_nonzero(_touched_nodes(graph, slice(None)))),
        shared_names=graph.node_index.count_shared_ids(),
    )


def _sides(graph: "EdgeTextGraph") -> list[SideSummary]:
    """Sources and targets; outgoing and incoming edges in a directed network of one node type."""
    out, into = (count_values(ends, graph.num_nodes) for ends in (graph.src, graph.dst))
    border = graph.num_sources
    if graph.is_bipartite:
        targets = _side(graph, "targets", into[border:], border)
        return [_side(graph, "sources", out[:border], 0), targets]
    if graph.is_directed:
        return [_side(graph, "outgoing", out, 0), _side(graph, "incoming", into, 0)]
    loops = np.bincount(graph.src[graph.src == graph.dst], minlength=graph.num_nodes)
    return [_side(graph, "nodes", out + into - loops, 0)]


def _side(graph: "EdgeTextGraph", name: str, degree: Array, first: int) -> SideSummary:
    top = largest(degree, LISTED)
    names = graph.node_names(top + first) if len(top) else []
    return SideSummary(
        name=name,
        nodes=len(degree),
        unused=int(np.count_nonzero(degree == 0)),
        single=int(np.count_nonzero(degree == 1)),
        degree=distribution(degree, degree_borders(int(degree.max(initial=0)))),
        hubs=[NamedCount(shorten(n), int(degree[i])) for n, i in zip(names, top, strict=True)],
    )


def _texts(graph: "EdgeTextGraph") -> TextSummary:
    lengths = np.asarray(graph.text_lengths)
    tokens = graph.tokens
    token_lengths = np.zeros(0, dtype=np.int32) if tokens is None else np.asarray(tokens.lengths)
    total = len(token_lengths)
    hashes, counts = np.unique_counts(np.asarray(graph.text_hashes)[lengths > 0])
    top = largest(counts, LISTED, at_least=2)
    edge_ids = [int(np.argmax(graph.text_hashes == hashes[i])) for i in top]
    texts = graph.texts(np.array(edge_ids, dtype=np.int64)) if edge_ids else []
    return TextSummary(
        empty=int(np.count_nonzero(lengths == 0)),
        distinct=len(hashes),
        shared=int(counts[counts > 1].sum()),
        most_repeated=[
            NamedCount(shorten(text), int(counts[i])) for text, i in zip(texts, top, strict=True)
        ],
        characters=length_distribution(lengths, CHARACTER_WIDTHS, reach=1),
        tokens=length_distribution(token_lengths, TOKEN_WIDTHS, reach=CUTS[0]),
        tokenizer=None if tokens is None else tokens.name,
        vocab_size=None if tokens is None else tokens.vocab_size,
        cut={str(n): int(np.count_nonzero(token_lengths > n)) / total for n in CUTS if total},
    )


def _node_labels(graph: "EdgeTextGraph") -> NodeLabelSummary | None:
    if graph.node_labels is None:
        return None
    offsets, codes = graph.node_labels
    labeled = int(np.count_nonzero(np.diff(offsets)))
    return NodeLabelSummary(labeled, _named_counts(codes, graph.node_label_names))


def _weights(weights: Array | None) -> WeightSummary | None:
    if weights is None:
        return None
    known = np.asarray(weights)[np.isfinite(weights)]
    negative = int(np.count_nonzero(known < 0))
    return WeightSummary(len(weights) - len(known), negative, distribution(known))


def _labels(graph: "EdgeTextGraph", chosen: Array) -> LabelSummary | None:
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


def _named_counts(codes: Array | None, names: Sequence[str]) -> list[NamedCount]:
    """How often the code of each name occurs; negative codes are missing values."""
    if codes is None:
        return []
    codes = np.asarray(codes)
    return _named(names, np.bincount(codes[codes >= 0], minlength=len(names)))


def _named(names: Sequence[str], counts: Array) -> list[NamedCount]:
    return [NamedCount(str(n), int(c)) for n, c in zip(names, counts, strict=True)]


def _split(graph: "EdgeTextGraph", name: str, codes: Array, keys: dict[str, Array]) -> SplitSummary:
    """All parts of a split; `keys` are equal for edges that share a text, a pair or both."""
    codes = np.asarray(codes)
    train = codes == PARTS["train"]
    known = _touched_nodes(graph, train)
    has_text = graph.text_lengths > 0  # an empty text is not shared
    trained = {
        what: np.sort(values[train & has_text if what == "text" else train])
        for what, values in keys.items()
    }
    new_ends = np.where(known[graph.src], 0, 1) + np.where(known[graph.dst], 0, 2)  # of NEW_ENDS
    sides = {"nodes": slice(0, graph.num_nodes)}
    if graph.is_bipartite:
        border = graph.num_sources
        sides = {"sources": slice(0, border), "targets": slice(border, graph.num_nodes)}
    parts = []
    for part, code in PARTS.items():
        chosen = codes == code
        edges = int(np.count_nonzero(chosen))
        if part in ("profile", "none") and not edges:
            continue
        overlaps: dict[str, Overlap | None] = dict.fromkeys(keys)
        if part in ("val", "test"):
            for what, values in keys.items():
                edge_ids = np.flatnonzero(chosen & has_text if what == "text" else chosen)
                overlaps[what] = _overlap(graph, what, edge_ids, values, trained[what], edges)
        touched = _touched_nodes(graph, chosen)
        cold = touched & ~known
        counts = np.bincount(new_ends[chosen], minlength=len(NEW_ENDS))
        parts.append(
            PartSummary(
                name=part,
                edges=edges,
                share=edges / max(graph.num_edges, 1),
                nodes={side: int(np.count_nonzero(touched[at])) for side, at in sides.items()},
                cold={side: int(np.count_nonzero(cold[at])) for side, at in sides.items()},
                cold_edges=int(np.count_nonzero(new_ends[chosen])),
                labels=_labels(graph, chosen),
                same_text=overlaps["text"],
                same_pair=overlaps["pair"],
                same_edge=overlaps["edge"],
                new_ends={n.name: n.count for n in _named(NEW_ENDS, counts)},
            )
        )
    config = graph.split_configs.get(name)
    return SplitSummary(name, parts, config.to_text() if config else "")


def _touched_nodes(graph: "EdgeTextGraph", chosen: Array | slice) -> Array:
    """A mask of the nodes that have one of the chosen edges."""
    touched = np.zeros(graph.num_nodes, dtype=bool)
    touched[graph.src[chosen]] = True
    touched[graph.dst[chosen]] = True
    return touched


def _overlap(
    graph: "EdgeTextGraph", what: str, edge_ids: Array, keys: Array, trained: Array, total: int
) -> Overlap:
    """The edges whose key is among those of training; `total` edges are in their part."""
    values = keys[edge_ids]
    ordered = np.sort(values)  # searching in order is many times faster than at random
    place = np.minimum(np.searchsorted(trained, ordered), len(trained) - 1)
    shared = ordered[trained[place] == ordered] if len(trained) else ordered[:0]
    if not len(shared):
        return Overlap(0, 0.0, "")
    example = int(edge_ids[int(np.argmax(values == shared[0]))])
    text = shorten(graph.texts(np.array([example]))[0])
    ends = np.array([graph.src[example], graph.dst[example]])
    pair = " → ".join(shorten(name, NAME_CHARACTERS) for name in graph.node_names(ends))
    shown = {"text": text, "pair": pair, "edge": f"{pair}: {text}" if text else pair}[what]
    return Overlap(len(shared), len(shared) / total, shown)
