"""Links of a network as ranking problems: who asks, who can be recommended, what is known."""

from collections.abc import Callable, Mapping
from typing import TypedDict

import numpy as np

from edgeformers.data.adjacency import Adjacency
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import Ids
from edgeformers.data.splits import TEST, TRAIN, VAL
from edgeformers.errors import InputError
from edgeformers.evaluation import (
    LinkProtocol,
    LinkReport,
    LinkTable,
    Scorer,
    Validation,
    columns_of,
    evaluate_links,
    spaced_batches,
)

PROTOCOLS: tuple[LinkProtocol, ...] = ("full", "sampled", "paper", "paper-shifted", "paper-unseen")


def link_parts(graph: EdgeTextGraph, split: str) -> dict[str, Ids]:
    """The positive edges of each part of a split; training and validation need some."""
    codes, positive = graph.split(split), graph.is_positive
    parts = {
        part: np.flatnonzero((codes == code) & positive).astype(np.int64)
        for part, code in {"train": TRAIN, "val": VAL, "test": TEST}.items()
    }
    for part, least in (("train", 2), ("val", 1)):
        if len(parts[part]) < least:
            raise InputError(
                f"{graph.path}: the split '{split}' has {len(parts[part])} links in '{part}', "
                f"where {least} or more are needed; choose another with data.split, or other "
                "positive labels when preparing"
            )
    return parts


def candidate_nodes(graph: EdgeTextGraph) -> Ids:
    """The nodes that can be recommended: all targets, or all nodes where there is one kind."""
    first = graph.num_sources if graph.is_bipartite else 0
    return np.arange(first, graph.num_nodes, dtype=np.int64)


def drawable_nodes(graph: EdgeTextGraph, adjacency: Adjacency) -> Ids:
    """The candidates that training may meet as negatives: all but those held out."""
    nodes = candidate_nodes(graph)
    return nodes if adjacency.held_out is None else nodes[~adjacency.held_out[nodes]]


class PairDegrees(TypedDict):
    """How much is known of the ends of links, as `evaluate_links` takes it."""

    query_degree: Ids
    key_degree: Ids
    profile: Ids


def pair_degrees(adjacency: Adjacency, graph: EdgeTextGraph, pairs: Ids) -> PairDegrees:
    """Training edges of both ends of links, and edges in the profile of the one held out."""
    degrees, profiles = adjacency.training_degrees(), adjacency.profile_sizes()
    src, dst = graph.src[pairs], graph.dst[pairs]
    return PairDegrees(
        query_degree=degrees[src],
        key_degree=degrees[dst],
        profile=np.maximum(profiles[src], profiles[dst]),
    )


def rank_links(
    graph: EdgeTextGraph,
    parts: Mapping[str, Ids],
    pairs: Ids,
    scorer: Callable[[Ids, Ids], Scorer],
    *,
    adjacency: Adjacency,
    protocols: tuple[LinkProtocol, ...] = PROTOCOLS,
    seed: int = 0,
) -> LinkReport:
    """Ranks of links, edges of the network, by what `scorer` makes of queries and candidates.

    Scores of `paper-shifted` and `paper-unseen` are fitted on links of validation alone.
    """
    is_unseen, count = "paper-unseen" in protocols, len(pairs)
    is_tuned = is_unseen or "paper-shifted" in protocols
    tuned = parts["val"][spaced_batches(len(parts["val"]))] if is_tuned else pairs[:0]
    src, dst = (ends[np.concatenate([pairs, tuned])] for ends in (graph.src, graph.dst))
    asked = np.unique(src[:count])  # first: what `sampled` draws depends on their places
    queries = np.concatenate([asked, np.setdiff1d(src, asked)]).astype(np.int64)
    candidates = candidate_nodes(graph)
    rows, columns = columns_of(src, queries), columns_of(dst, candidates)
    linked = columns_of(graph.dst[parts["train"]], candidates)
    return evaluate_links(
        scorer(queries, candidates),
        columns[:count],
        queries=rows[:count],
        known=known_links(graph, queries, candidates),
        protocols=protocols,
        validation=Validation(
            queries=rows[count:],
            positives=columns[count:],
            popularity=np.bincount(linked, minlength=len(candidates)),
            seen=_seen_links(graph, queries, candidates, adjacency) if is_unseen else None,
        ),
        seed=seed,
        **pair_degrees(adjacency, graph, pairs),
    )


def _seen_links(
    graph: EdgeTextGraph, queries: Ids, candidates: Ids, adjacency: Adjacency
) -> LinkTable:
    """What the queries have an edge to that a model may read, be it a positive one or not."""
    return known_links(graph, queries, candidates, np.unique(adjacency.edge_ids))


def known_links(
    graph: EdgeTextGraph, queries: Ids, candidates: Ids, edges: Ids | None = None
) -> LinkTable:
    """Links of the queries, of all positive edges or of some; of a one-kind network also itself.

    An undirected edge is a link of both its ends.
    """
    place = np.full(graph.num_nodes, -1, np.int64)
    place[queries] = np.arange(len(queries))
    chosen = graph.is_positive if edges is None else edges
    src, dst = graph.src[chosen], graph.dst[chosen]
    if not graph.is_bipartite and not graph.is_directed:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    wanted = place[src] >= 0
    rows, columns = place[src[wanted]], columns_of(dst[wanted], candidates)
    if not graph.is_bipartite:
        rows = np.concatenate([rows, np.arange(len(queries))])
        columns = np.concatenate([columns, columns_of(queries, candidates)])
    return LinkTable.from_pairs(rows, columns, len(queries))


def seen_nodes(graph: EdgeTextGraph, node: int) -> Ids:
    """What a source is linked to already, of a one-kind network also itself.

    Who is linked to it by a directed edge alone is not seen: it may link back.
    """
    edges = graph.adjacency.edges_of(node)
    if graph.is_directed:
        edges = edges[graph.src[edges] == node]
    ends = np.unique(np.concatenate([graph.src[edges], graph.dst[edges], [node]]))
    return ends[ends != node].astype(np.int64) if graph.is_bipartite else ends.astype(np.int64)
