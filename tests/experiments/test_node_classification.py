import json
from dataclasses import replace

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.experiments import node_classification
from edgeformers.experiments.node_classification import classify_all, find_labels
from edgeformers.experiments.runner import OUTCOME, execute


def test_metrics_are_computed_once_and_again_for_other_labels(tiny_plan, simulated, monkeypatch):
    plan = tiny_plan("netmf", experiment="node-classification")
    execute(plan, show=False)
    outcome = plan.runs[0].path / OUTCOME
    outcome.write_text(json.dumps({**json.loads(outcome.read_text()), "seconds": 7.0}))
    labels = find_labels(simulated)
    record, failures = classify_all(plan, simulated, labels, regressions=3)
    assert (len(record.entries), failures) == (3, [])
    assert [entry.seconds for entry in record.entries] == [7.0, 0.0, 0.0]
    assert set(record.entries[0].metrics["test"]) == {"macro_f1", "micro_f1", "precision"}

    def refuse(*args):
        raise InputError("computed again")

    monkeypatch.setattr(node_classification, "_node_vectors", refuse)
    assert classify_all(plan, simulated, labels, regressions=3) == (record, [])
    other = replace(labels, labels=np.roll(labels.labels, 1))
    for changed in ({"labels": other, "regressions": 3}, {"labels": labels, "regressions": 2}):
        _, (failure,) = classify_all(plan, simulated, **changed)
        assert "computed again" in failure


def test_labels_of_the_network_are_those_of_targets(simulated, reviews):
    labels = find_labels(simulated)
    assert labels.nodes.min() >= simulated.num_sources
    assert len(labels.labels) == len(labels.nodes)
    with pytest.raises(InputError, match="`labels="):
        find_labels(reviews)


def test_a_baseline_without_node_embeddings_fails(tiny_plan, simulated):
    plan = tiny_plan("popularity", experiment="node-classification")
    execute(plan, show=False)
    record, (failure,) = classify_all(plan, simulated, find_labels(simulated))
    assert record.entries == []
    assert "'popularity'" in failure
