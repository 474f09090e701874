"""Computes the data card of a network from all of its edges."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgeformers.data.card.card import (
    CUTS,
    Counts,
    DataCard,
    NamedCount,
    NodeLabelSummary,
    SideSummary,
    TextSummary,
    WeightSummary,
)
from edgeformers.data.card.distributions import (
    CHARACTER_WIDTHS,
    TOKEN_WIDTHS,
    Array,
    count_distinct,
    count_times,
    degree_borders,
    distribution,
    largest,
    length_distribution,
)
from edgeformers.data.card.findings import card_findings
from edgeformers.data.card.phrasing import shorten
from edgeformers.data.card.split_summary import (
    code_counts,
    summarize_labels,
    summarize_split,
    touched_nodes,
)
from edgeformers.data.random import splitmix64

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
        labels=summarize_labels(graph, np.ones(graph.num_edges, dtype=bool)),
        node_labels=_node_labels(graph),
        times=count_times(graph.times),
        weights=_weights(graph.weights),
        edge_types=_edge_types(graph),
        splits=[summarize_split(graph, name, codes, keys) for name, codes in graph.splits.items()],
        notes=list(graph.notes),
        skipped=graph.skipped.get("count", 0),
        skipped_examples=list(graph.skipped.get("examples", [])),
        findings=[],
    )
    return replace(card, findings=card_findings(card))


def _pair_keys(graph: "EdgeTextGraph") -> Array:
    """One number per edge, equal for edges between the same two nodes."""
    src, dst = np.asarray(graph.src), np.asarray(graph.dst)
    if not (graph.is_directed or graph.is_bipartite):
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    keys = np.multiply(src, max(graph.num_nodes, 1), dtype=np.uint64, casting="unsafe")
    return np.add(keys, dst, out=keys, casting="unsafe")


def _counts(graph: "EdgeTextGraph", keys: dict[str, Array]) -> Counts:
    edges_per_pair = count_distinct(keys["pair"])[1]
    return Counts(
        nodes=graph.num_nodes,
        sources=graph.num_sources,
        targets=graph.num_targets,
        edges=graph.num_edges,
        pairs=len(edges_per_pair),
        repeated_pairs=int(np.count_nonzero(edges_per_pair > 1)),
        repeating_edges=graph.num_edges - len(edges_per_pair),
        identical_edges=graph.num_edges - len(count_distinct(keys["edge"])[0]),
        self_loops=int(np.count_nonzero(graph.src == graph.dst)),
        isolated=graph.num_nodes - int(np.count_nonzero(touched_nodes(graph, slice(None)))),
        shared_names=graph.node_index.count_shared_ids(),
    )


def _sides(graph: "EdgeTextGraph") -> list[SideSummary]:
    """Sources and targets; outgoing and incoming edges in a directed network of one node type."""
    out, into = (np.bincount(ends, minlength=graph.num_nodes) for ends in (graph.src, graph.dst))
    border = graph.num_sources
    if graph.is_bipartite:
        return [
            _side(graph, "sources", out[:border], 0),
            _side(graph, "targets", into[border:], border),
        ]
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
    hashes, counts = count_distinct(np.asarray(graph.text_hashes)[lengths > 0])
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
    return NodeLabelSummary(labeled, code_counts(codes, graph.node_label_names))


def _weights(weights: Array | None) -> WeightSummary | None:
    if weights is None:
        return None
    known = np.asarray(weights)[np.isfinite(weights)]
    negative = int(np.count_nonzero(known < 0))
    return WeightSummary(len(weights) - len(known), negative, distribution(known))


def _edge_types(graph: "EdgeTextGraph") -> list[NamedCount]:
    if graph.edge_types is None:
        return []
    types = np.asarray(graph.edge_types)
    return code_counts(types[types >= 0], graph.edge_type_names)
