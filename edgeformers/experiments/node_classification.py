"""Table 4: logistic regression on the node embeddings of link prediction models."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import EdgeformersError, InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.experiments.collect import flat_metrics, make_record, run_entry
from edgeformers.experiments.plan import Plan, PlannedRun
from edgeformers.experiments.record import Entry, Record
from edgeformers.experiments.runner import fit_baseline
from edgeformers.files import write_atomic
from edgeformers.inference.node_classification import (
    LabeledNodes,
    classify_nodes,
    network_node_labels,
    read_node_labels,
)
from edgeformers.runs import open_run

SEPARATOR = "|"  # between several labels of a node
REGRESSIONS = 5  # per run, each with its own split of the labeled nodes


def find_labels(graph: EdgeTextGraph, file: Path | None = None) -> LabeledNodes:
    """Node labels from a table with the columns node and label, or from the network.

    In a bipartite network they are those of targets, or of sources if targets have none.
    """
    if file is None:
        offsets, _ = graph.node_labels or (np.zeros(graph.num_nodes + 1, np.int64), None)
        has_targets = graph.is_bipartite and offsets[-1] > offsets[graph.num_sources]
        return network_node_labels(graph, side="target" if has_targets else None)
    return read_node_labels(graph.node_index, str(file), label_separator=SEPARATOR)


def classify_all(
    plan: Plan, graph: EdgeTextGraph, labels: LabeledNodes, *, regressions: int = REGRESSIONS
) -> tuple[Record, list[str]]:
    """Classify the nodes of every finished run; saved metrics are reused."""
    entries: list[Entry] = []
    failures = []
    for run in plan.runs:
        if plan.is_done(run):
            try:
                metrics = _node_metrics(plan, run, graph, labels, regressions)
            except EdgeformersError as error:
                failures.append(f"{run.row}, seed {run.seed}: {error}")
                continue
            # An entry per regression; only the first counts the time of training.
            own = [run_entry(run, {"test": values}) for values in metrics]
            entries += own[:1] + [replace(entry, seconds=0.0) for entry in own[1:]]
    record = make_record(plan, entries)
    reasons = [f"Failed: {failure}" for failure in failures]
    return replace(record, failures=[*record.failures, *reasons]), failures


def _node_metrics(
    plan: Plan, run: PlannedRun, graph: EdgeTextGraph, labels: LabeledNodes, regressions: int
) -> list[dict[str, float]]:
    """Test metrics of each regression, computed or read from the run's file."""
    path = plan.node_metrics_file(run)
    key = {"labels": _fingerprint(labels), "probes": regressions, "run": run.folder}
    if path.is_file():
        saved = json.loads(path.read_text(encoding="utf-8"))
        if {name: saved.get(name) for name in key} == key:
            return list(saved["metrics"])
    vectors = _node_vectors(plan, run, graph, labels)
    report = classify_nodes(vectors, labels.labels, seeds=range(regressions))
    metrics = [flat_metrics(values) for values in report.runs]
    write_atomic(path, json.dumps({**key, "metrics": metrics}, indent=1) + "\n")
    return metrics


def _node_vectors(
    plan: Plan, run: PlannedRun, graph: EdgeTextGraph, labels: LabeledNodes
) -> NDArray[Any]:
    """Embeddings of the labeled nodes by a trained model or a factorization."""
    if run.kind == "simple":
        baseline = fit_baseline(run, graph)
        if not hasattr(baseline, "node_vectors"):
            raise InputError(f"'{run.model}' has no node embeddings to classify")
        return np.asarray(baseline.node_vectors(labels.nodes))
    predictor = open_run(run.path, graph, device=plan.device, show=False)
    assert isinstance(predictor, LinkPredictor)
    return predictor.embed_nodes(labels.nodes)


def _fingerprint(labels: LabeledNodes) -> str:
    """Changes with any label, so that metrics of other labels are not reused."""
    contents = repr((labels.nodes.tolist(), labels.labels.tolist(), labels.names))
    return hashlib.sha256(contents.encode()).hexdigest()[:16]
