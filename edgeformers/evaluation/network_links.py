"""Ranking problems from a network: its links, candidates and known links per query."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgeformers.data.adjacency import Adjacency
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.scratch import rows_where
from edgeformers.data.splits import TEST, TRAIN, VAL, is_in_parts
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation.links import LinkTable, node_positions, row_entries
from edgeformers.evaluation.popularity_correction import ValidationPairs, spaced_batches
from edgeformers.evaluation.ranking import order_pairs
from edgeformers.evaluation.report import PROTOCOLS, LinkProtocol, LinkReport, evaluate_links
from edgeformers.evaluation.scorers import Scorer


def link_parts(graph: EdgeTextGraph, split: str) -> dict[str, Ids]:
    """The positive edges of each part of a split; training needs two and validation one."""
    parts = {
        part: _positive_edges(graph, split, [code])
        for part, code in {"train": TRAIN, "val": VAL, "test": TEST}.items()
    }
    for part, least in (("train", 2), ("val", 1)):
        if len(parts[part]) < least:
            raise InputError(
                f"{graph.path}: part '{part}' of the split '{split}' has {len(parts[part])} "
                f"links but needs at least {least}; choose another split with `data.split=`, or "
                "other positive labels when preparing"
            )
    return parts


def candidate_nodes(graph: EdgeTextGraph) -> Ids:
    """The nodes that can be recommended: targets if the network is bipartite, else all nodes."""
    nodes = graph.nodes_on("target")
    return np.arange(nodes.start, nodes.stop, dtype=np.int64)


def drawable_nodes(graph: EdgeTextGraph, adjacency: Adjacency) -> Ids:
    """The candidates that may be drawn as training negatives: all except held-out nodes."""
    nodes = candidate_nodes(graph)
    return nodes if adjacency.held_out is None else nodes[~adjacency.held_out[nodes]]


def positive_links(graph: EdgeTextGraph, split: str, parts: Sequence[int]) -> LinkTable:
    """Links of all sources in the given parts of a split."""
    graph.verify()
    return _link_table(graph, _positive_edges(graph, split, parts), np.arange(graph.num_sources))


def known_links(graph: EdgeTextGraph, queries: Ids, edges: Ids | None = None) -> LinkTable:
    """Links of query nodes, one row each, from all positive edges or from the given ones.

    In a network with one node type, every query is also linked to itself: it is never recommended.
    """
    chosen = np.flatnonzero(graph.is_positive) if edges is None else edges
    return _link_table(graph, chosen, queries, with_self=not graph.is_bipartite)


def seen_links(graph: EdgeTextGraph, sources: Ids) -> LinkTable:
    """Candidates that each source already links to, plus itself in a network with one node type.

    A node with only a directed edge to the source is not included: it may be linked back.
    """
    adjacency = graph.adjacency
    row, entry = row_entries(adjacency.indptr[:: adjacency.num_strata], sources)
    nodes = adjacency.neighbors[entry].astype(np.int64)
    if graph.is_directed:
        leads_out = graph.src[adjacency.edge_ids[entry]] == sources[row]
        row, nodes = row[leads_out], nodes[leads_out]
    if not graph.is_bipartite:
        row = np.concatenate([row, np.arange(len(sources))])
        nodes = np.concatenate([nodes, sources])
    columns = nodes - graph.nodes_on("target").start
    return LinkTable.from_pairs(row, columns, len(sources))


def order_links(graph: EdgeTextGraph, links: Ids) -> Ids:
    """The order in which the protocol `paper` takes links, given as edges.

    As in `order_pairs`, by the ids of the nodes, so that it does not depend on the order of the
    file. A network from the authors' files keeps the order of their pairs.
    """
    if graph.meta.has_published_order:
        return np.argsort(links, kind="stable")
    index = graph.node_index
    return order_pairs(index.hashes(graph.src[links]), index.hashes(graph.dst[links]))


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
    """Rank links, given as edges, with the scorer built for their queries and candidates.

    `paper-shifted` and `paper-unseen` are tuned on validation links only.
    """
    is_unseen, count = "paper-unseen" in protocols, len(pairs)
    is_tuned = is_unseen or "paper-shifted" in protocols
    tuned = pairs[:0]
    if is_tuned:
        tuned = parts["val"][order_links(graph, parts["val"])][spaced_batches(len(parts["val"]))]
    src, dst = (ends[np.concatenate([pairs, tuned])] for ends in (graph.src, graph.dst))
    ranked = np.unique(src[:count])  # come first: `sampled` draws negatives by query position
    queries = np.concatenate([ranked, np.setdiff1d(src, ranked)]).astype(np.int64)
    candidates = candidate_nodes(graph)
    rows, columns = node_positions(src, queries), node_positions(dst, candidates)
    degrees, profiles = adjacency.training_degrees(), adjacency.profile_sizes()
    readable = np.unique(adjacency.edge_ids).astype(np.int64) if is_unseen else None
    return evaluate_links(
        scorer(queries, candidates),
        columns[:count],
        queries=rows[:count],
        known=known_links(graph, queries),
        protocols=protocols,
        validation=ValidationPairs(
            queries=rows[count:],
            positives=columns[count:],
            popularity=np.bincount(graph.dst[parts["train"]], minlength=graph.num_nodes)[
                candidates
            ],
            seen=None if readable is None else known_links(graph, queries, readable),
        ),
        query_degree=degrees[src[:count]],
        key_degree=degrees[dst[:count]],
        profile=np.maximum(profiles[src], profiles[dst])[:count],
        order=order_links(graph, pairs),
        seed=seed,
    )


def _positive_edges(graph: EdgeTextGraph, split: str, parts: Sequence[int]) -> Ids:
    codes, positive = graph.split(split), graph.is_positive
    return rows_where(
        lambda rows: is_in_parts(codes[rows], parts) & positive[rows], graph.num_edges
    )


def _link_table(
    graph: EdgeTextGraph, edges: Ids, queries: Ids, *, with_self: bool = False
) -> LinkTable:
    """The edges as links of the queries; an undirected edge is a link in both directions."""
    candidates = candidate_nodes(graph)
    position = np.full(graph.num_nodes, -1, np.int64)
    position[queries] = np.arange(len(queries))
    src, dst = graph.src[edges], graph.dst[edges]
    if graph.is_undirected:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    is_query = position[src] >= 0
    rows, nodes = position[src[is_query]], dst[is_query]
    if with_self:
        rows = np.concatenate([rows, np.arange(len(queries))])
        nodes = np.concatenate([nodes, queries])
    columns = nodes.astype(np.int64) - candidates[0]
    return LinkTable.from_pairs(rows, columns, len(queries), len(candidates))
