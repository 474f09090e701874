"""Table 4: how well a linear model tells what nodes are from the embeddings of link prediction."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import EdgeformersError, InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.estimators.node_labels import (
    LabeledNodes,
    network_node_labels,
    read_node_labels,
)
from edgeformers.experiments.collect import make_record, numbers
from edgeformers.experiments.execute import Failure
from edgeformers.experiments.plan import Plan, Run
from edgeformers.experiments.record import Entry, Record
from edgeformers.experiments.worker import fit_simple, read_outcome
from edgeformers.files import write_atomic
from edgeformers.inference.node_classification import classify_nodes
from edgeformers.runs import open_run

SEPARATOR = "|"  # between several labels of a node
PROBES = 5  # regressions per run, each with its own split of the labeled nodes


def find_labels(graph: EdgeTextGraph, file: Path | None = None) -> LabeledNodes:
    """The labels in a table with the columns node and label, or the network's own.

    Of a bipartite network's own those of targets are taken, of sources where targets have none.
    """
    if file is None:
        return _own_labels(graph)
    return read_node_labels(graph.node_index, str(file), label_separator=SEPARATOR)


def _own_labels(graph: EdgeTextGraph) -> LabeledNodes:
    offsets, _ = graph.node_labels or (np.zeros(graph.num_nodes + 1, np.int64), None)
    has_targets = graph.is_bipartite and offsets[-1] > offsets[graph.num_sources]
    return network_node_labels(graph, side="target" if has_targets else None)


def classify_all(
    plan: Plan, graph: EdgeTextGraph, labels: LabeledNodes, *, probes: int = PROBES
) -> tuple[Record, list[Failure]]:
    """Every finished run's nodes classified; what was done before is left."""
    entries: list[Entry] = []
    failed = []
    for run in plan.runs:
        if not plan.is_done(run):
            continue
        try:
            entries += _entries(run, _probed(plan, run, graph, labels, probes))
        except EdgeformersError as error:
            failed.append(Failure(row=run.row, seed=run.seed, sentence=str(error)))
    record = make_record(plan, entries)
    told = [f"Failed: {failure}" for failure in failed]
    return replace(record, failures=[*record.failures, *told]), failed


def _probed(
    plan: Plan, run: Run, graph: EdgeTextGraph, labels: LabeledNodes, probes: int
) -> list[dict[str, float]]:
    path = plan.seen(run)
    asked = {"labels": _fingerprint(labels), "probes": probes, "run": run.folder}
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if {name: known.get(name) for name in asked} == asked:
            return list(known["metrics"])
    vectors = _vectors(plan, run, graph, labels)
    found = classify_nodes(vectors, labels.labels, seeds=range(probes))
    made = [numbers(one) for one in found.runs]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps({**asked, "metrics": made}, indent=1) + "\n")
    return made


def _vectors(plan: Plan, run: Run, graph: EdgeTextGraph, labels: LabeledNodes) -> NDArray[Any]:
    """The embeddings of the labeled nodes, of a trained model or of a factorization."""
    if run.kind == "simple":
        made = fit_simple(run, graph)
        if not hasattr(made, "node_vectors"):
            raise InputError(f"'{run.model}' has no vectors of nodes to classify")
        return np.asarray(made.node_vectors(labels.nodes))
    predictor = open_run(run.path, graph, device=plan.device, show=False)
    assert isinstance(predictor, LinkPredictor)
    return predictor.embed_nodes(labels.nodes)


def _fingerprint(labels: LabeledNodes) -> str:
    """Changes with any label: what was computed for others is computed again."""
    told = repr((labels.nodes.tolist(), labels.labels.tolist(), labels.names))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _entries(run: Run, found: Sequence[dict[str, float]]) -> list[Entry]:
    """An entry per regression; the time of training is told once."""
    outcome = read_outcome(run)
    return [
        Entry(
            row=run.row,
            seed=run.seed,
            metrics={"test": metrics},
            settings=run.settings,
            seconds=0.0 if number else round(float(outcome.get("seconds", 0.0)), 1),
            device=str(outcome.get("device", "")),
        )
        for number, metrics in enumerate(found)
    ]
