"""The paper's figures: node embeddings, attention, and the effect of a setting."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.random import hash_keys
from edgeformers.data.types import Ids
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.experiments.model_figures import attention_map, node_map
from edgeformers.experiments.plan import Plan
from edgeformers.experiments.record import Record
from edgeformers.experiments.tables import PART_NAMES, row_means, table_specs
from edgeformers.report.figures import AttentionFigure, FigureData, LineChart, NodeMap
from edgeformers.report.plotting import write_figure
from edgeformers.runs import open_run

MAPPED_NODES = 8
MIN_TOKENS = 12  # of the text whose attention is shown
X_LABELS = {
    "node-dimension": "dimension of the node embeddings",
    "neighbor-size": "sampled edges per node",
}


def write_figures(
    plan: Plan, graph: EdgeTextGraph | None, record: Record
) -> tuple[list[Path], list[str]]:
    """Write the figures of an experiment; returns the files, and notes on missing ones.

    Figures of a model need its network; studies of a setting need only their record.
    """
    figures: Mapping[str, FigureData] = study_charts(record)
    is_ready = graph is not None and record.entries and not plan.pending
    if is_ready and plan.experiment in MODEL_FIGURES:
        assert graph is not None
        figures = {plan.experiment: MODEL_FIGURES[plan.experiment](plan, graph)}
    files: list[Path] = []
    notes: list[str] = []
    for name, data in figures.items():
        written, note = write_figure(plan.path / name, data)
        files += written
        notes += [note] if note else []
    return files, notes


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
                label=f"Link prediction on {record.network['name']}, protocol {protocol}",
                lines={"Edgeformer-N": [[(i, cell.value) for i, (_, cell) in enumerate(cells)]]},
                deviations={"Edgeformer-N": [cell.deviation or 0.0 for _, cell in cells]},
                ticks={i: f"{value:g}" for i, (value, _) in enumerate(cells)},  # evenly spaced
                format_y="{:.3f}".format,
                x_label=X_LABELS[record.experiment],
                y_label="MRR",
            )
    return charts


def _embeddings(plan: Plan, graph: EdgeTextGraph) -> NodeMap:
    predictor = open_run(plan.runs[0].path, graph, device=plan.device, show=False)
    assert isinstance(predictor, LinkPredictor)
    first = graph.num_sources if graph.is_bipartite else 0
    degrees = predictor.fitted_.network.loader.target_sampler.adjacency.degrees()[first:]
    nodes = first + np.argsort(-np.asarray(degrees), kind="stable")[:MAPPED_NODES]
    title = f"Nodes (stars) and their edges (points) of {graph.name}"
    return node_map(predictor, nodes, graph.node_names(nodes), title)


def _attention(plan: Plan, graph: EdgeTextGraph) -> AttentionFigure:
    classifier = open_run(plan.runs[0].path, graph, device=plan.device, show=False)
    assert isinstance(classifier, EdgeClassifier)
    objective = classifier.fitted_.network
    part = "test" if len(objective.parts["test"]) else "val"  # never empty
    edge = pick_edge(objective.parts[part], objective.loader.lengths(objective.parts[part]))
    name = PART_NAMES[part].removesuffix(" part")
    return attention_map(classifier, edge, f"Attention of the readout token in one {name} edge")


MODEL_FIGURES: Mapping[str, Callable[[Plan, EdgeTextGraph], FigureData]] = {
    "embedding-plot": _embeddings,
    "attention-map": _attention,
}


def pick_edge(edges: Ids, lengths: ArrayLike) -> int:
    """A fixed random edge among those with MIN_TOKENS; if there are none, the longest."""
    long = edges[np.asarray(lengths) >= MIN_TOKENS]
    if not len(long):
        return int(edges[int(np.argmax(lengths))])
    return int(long[int(np.argmin(hash_keys(0, 0xF16, long)))])
