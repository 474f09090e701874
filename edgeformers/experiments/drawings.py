"""The figures of the paper: embeddings on a plane, what a text reads, and studies of a setting."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.experiments.figures import Drawing, Lines
from edgeformers.experiments.illustrations import attention_picture, node_map
from edgeformers.experiments.plan import Plan
from edgeformers.experiments.png import write_figure
from edgeformers.experiments.record import Record
from edgeformers.experiments.tables import PART_NAMES, row_means, table_specs
from edgeformers.report.results import AttentionMap, NodeMap
from edgeformers.runs import open_run

MAPPED_NODES = 8
LEAST_TOKENS = 12  # of a text whose attention is drawn
ACROSS = {
    "node-dimension": "dimension of the node vectors",
    "neighbor-size": "edges read around a node",
}


def draw(plan: Plan, graph: EdgeTextGraph | None, record: Record) -> tuple[list[Path], list[str]]:
    """The figure files of an experiment, and sentences about those that could not be made.

    Pictures of a model need its network; studies are drawn from their record alone.
    """
    named: Mapping[str, Drawing] = study_plots(record)
    if graph is not None and plan.experiment in PICTURES and record.entries and not plan.pending:
        named = {plan.experiment: PICTURES[plan.experiment](plan, graph)}
    files: list[Path] = []
    notes: list[str] = []
    for name, drawing in named.items():
        made, note = write_figure(plan.path / name, drawing)
        files += made
        notes += [note] if note else []
    return files, notes


def study_plots(record: Record) -> dict[str, Lines]:
    """MRR on the test part over the values of a setting, a plot per protocol."""
    if record.experiment not in ACROSS:
        return {}
    found = {}
    for spec in table_specs(record.experiment):
        metric, means = spec.metrics[0], row_means(record, spec)
        title = {info.name: info.title for info in record.rows}
        points = [
            (float(title[row]), cells[metric].value, cells[metric].deviation or 0.0)
            for row, cells in means.items()
            if metric in cells
        ]
        if points:
            protocol = metric.partition("/")[0]
            found[f"mrr-{protocol}"] = Lines(
                title=f"Link prediction on {record.network['name']}, protocol {protocol}",
                across=ACROSS[record.experiment],
                upward="MRR",
                series={"Edgeformer-N": sorted(points)},
            )
    return found


def _embeddings(plan: Plan, graph: EdgeTextGraph) -> NodeMap:
    predictor = open_run(plan.runs[0].path, graph, device=plan.device, show=False)
    assert isinstance(predictor, LinkPredictor)
    first = graph.num_sources if graph.is_bipartite else 0
    degrees = predictor.objective.loader.target_sampler.adjacency.degrees()[first:]
    nodes = first + np.argsort(-np.asarray(degrees), kind="stable")[:MAPPED_NODES]
    title = f"Nodes (stars) and their edges (points) of {graph.name}"
    return node_map(predictor, nodes, graph.node_names(nodes), title)


def _attention(plan: Plan, graph: EdgeTextGraph) -> AttentionMap:
    classifier = open_run(plan.runs[0].path, graph, device=plan.device, show=False)
    assert isinstance(classifier, EdgeClassifier)
    objective = classifier.objective
    part = "test" if len(objective.parts["test"]) else "val"  # which no classifier is without
    edge = pick_edge(objective.parts[part], objective.loader.lengths(objective.parts[part]))
    named = PART_NAMES[part].removesuffix(" part")
    title = f"What the read-out token of one {named} edge reads, by layer"
    return attention_picture(classifier, edge, title)


PICTURES: Mapping[str, Callable[[Plan, EdgeTextGraph], Drawing]] = {
    "embedding-plot": _embeddings,
    "attention-map": _attention,
}


def pick_edge(edges: Ids, lengths: ArrayLike) -> int:
    """One edge at random, always the same, among those with enough text; else the longest."""
    long = edges[np.asarray(lengths) >= LEAST_TOKENS]
    if not len(long):
        return int(edges[int(np.argmax(lengths))])
    return int(long[int(np.argmin(hash_keys(0, 0xF16, long)))])
