"""The paper's figures: node embeddings, attention, and the effect of a setting."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids
from edgeformers.decode import decode
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.experiments.model_figures import (
    QueryToken,
    attention_map,
    measure_attention,
    measure_embeddings,
    node_map,
)
from edgeformers.experiments.plan import Plan
from edgeformers.experiments.record import Measurement, Record
from edgeformers.experiments.tables import PART_NAMES, row_means, table_specs
from edgeformers.files import write_atomic
from edgeformers.report.figures import AttentionFigure, FigureData, LineChart, NodeMap
from edgeformers.report.plotting import write_figure
from edgeformers.runs import open_run

FIGURE = "figure.json"  # the data of a model's figure, to draw it without the model
FIGURE_KINDS: Mapping[str, type[AttentionFigure | NodeMap]] = {
    "attention-map": AttentionFigure,
    "embedding-plot": NodeMap,
}
MAPPED_NODES = 8
MEASURED_NODES = 200  # whose embeddings are compared
MEASURED_TEXTS = 400  # whose attention is averaged
MIN_TOKENS = 12  # of the text whose attention is shown
X_LABELS = {
    "node-dimension": "dimension of the node embeddings",
    "neighbor-size": "sampled edges per node",
}


def write_figures(plan: Plan, record: Record) -> tuple[list[Path], list[str]]:
    """Write the figures of an experiment; returns the files, and notes on missing ones.

    Studies of a setting need only their record, figures of a model the data saved for them.
    """
    figures: dict[str, FigureData] = {**study_charts(record)}
    if (data := read_figure(plan)) is not None:
        figures[plan.experiment] = data
    files: list[Path] = []
    notes: list[str] = []
    for name, figure in figures.items():
        written, note = write_figure(plan.path / name, figure)
        files += written
        notes += [note] if note else []
    return files, notes


def measure_model(
    plan: Plan, graph: EdgeTextGraph, record: Record, *, token: QueryToken = "text"
) -> Record:
    """Save the data of a model's figure, and add what was measured for it to the record."""
    if plan.experiment not in FIGURE_KINDS or plan.pending or not record.entries:
        return record
    figure: AttentionFigure | NodeMap
    if plan.experiment == "attention-map":
        figure, measurements = _attention(plan, graph, token)
    else:
        figure, measurements = _embeddings(plan, graph)
    write_atomic(plan.path / FIGURE, json.dumps(asdict(figure), ensure_ascii=False) + "\n")
    return replace(record, measurements=measurements)


def read_figure(plan: Plan) -> FigureData | None:
    """The saved data of a model's figure, if there is any."""
    path = plan.path / FIGURE
    if plan.experiment not in FIGURE_KINDS or not path.is_file():
        return None
    values = json.loads(path.read_text(encoding="utf-8"))
    return decode(FIGURE_KINDS[plan.experiment], values, path=str(path))


def study_charts(record: Record) -> dict[str, LineChart]:
    """MRR on the test part by the value of a setting, one chart per protocol."""
    if record.experiment not in X_LABELS:
        return {}
    charts = {}
    titles = {info.name: info.title for info in record.rows}
    for spec in table_specs(record.experiment):
        metric, means = spec.metrics[0], row_means(record, spec)
        cells = [
            (float(titles[row]), cells[metric]) for row, cells in means.items() if metric in cells
        ]
        cells.sort(key=lambda cell: cell[0])
        if cells:
            protocol = metric.partition("/")[0]
            charts[f"mrr-{protocol}"] = LineChart(
                label=f"Edgeformer-N on {record.network['name']}, protocol {protocol}",
                lines={"Edgeformer-N": [[(i, cell.value) for i, (_, cell) in enumerate(cells)]]},
                deviations={"Edgeformer-N": [cell.deviation or 0.0 for _, cell in cells]},
                ticks={i: f"{value:g}" for i, (value, _) in enumerate(cells)},  # evenly spaced
                format_y="{:.3f}".format,
                x_label=X_LABELS[record.experiment],
                y_label="MRR",
            )
    return charts


def _embeddings(plan: Plan, graph: EdgeTextGraph) -> tuple[NodeMap, list[Measurement]]:
    predictor = open_run(plan.runs[0].path, graph, device=plan.device, show=False)
    assert isinstance(predictor, LinkPredictor)
    first = graph.nodes_on("target").start
    degrees = np.asarray(predictor.fitted_.network.loader.target_sampler.adjacency.degrees())
    nodes = first + np.argsort(-degrees[first:], kind="stable")[:MAPPED_NODES]
    title = f"Nodes (stars) and their edges (points) of {graph.name}"
    several = first + np.flatnonzero(degrees[first:] > 1)
    return (
        node_map(predictor, nodes, graph.node_names(nodes), title),
        measure_embeddings(predictor, _sample(several, MEASURED_NODES)),
    )


def _attention(
    plan: Plan, graph: EdgeTextGraph, token: QueryToken
) -> tuple[AttentionFigure, list[Measurement]]:
    classifier = open_run(plan.runs[0].path, graph, device=plan.device, show=False)
    assert isinstance(classifier, EdgeClassifier)
    objective = classifier.fitted_.network
    part = "test" if len(objective.parts["test"]) else "val"  # never empty
    edges = objective.parts[part]
    edge = pick_edge(edges, objective.loader.lengths(edges))
    title = f"Attention of “{{token}}” in one {PART_NAMES[part].removesuffix(' part')} edge"
    return (
        attention_map(classifier, edge, title, token=token),
        measure_attention(classifier, _sample(edges, MEASURED_TEXTS), token=token),
    )


def _sample(ids: Ids, count: int) -> Ids:
    """A fixed random sample, sorted."""
    return np.sort(ids[np.argsort(hash_keys(0, 0xF18, ids), kind="stable")[:count]])


def pick_edge(edges: Ids, lengths: ArrayLike) -> int:
    """A fixed random edge among those with MIN_TOKENS; if there are none, the longest."""
    long = edges[np.asarray(lengths) >= MIN_TOKENS]
    if not len(long):
        return int(edges[int(np.argmax(lengths))])
    return int(long[int(np.argmin(hash_keys(0, 0xF16, long)))])
