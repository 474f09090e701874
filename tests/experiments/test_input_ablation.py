"""Whether the graph and the text help, told of a trained model."""

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import metrics
from edgeformers.experiments.input_ablation import MaskedNodes, MaskedTexts, ablate_inputs
from edgeformers.report.conclusions import conclusion
from tests.estimators.conftest import tiny
from tests.estimators.test_edge_estimator import edges_of


@pytest.fixture(scope="module")
def trained(simulated):
    return tiny(EdgeClassifier, **{"train.epochs": 6}).fit(simulated)


@pytest.fixture(scope="module")
def told(trained):
    return ablate_inputs(trained)


def test_every_kind_of_model_is_there_and_scored_on_the_test_part(told, trained):
    kinds = {model.model: model.inputs for model in told.models}
    assert kinds == {
        "Edgeformer-E": "both",
        "Edgeformer-E, nodes hidden": "text",
        "Edgeformer-E, texts hidden": "nodes",
        "TF-IDF": "text",
        "node ids": "nodes",
    }
    whole = next(model for model in told.models if model.inputs == "both").metrics["macro_f1"]
    assert whole.value == trained.evaluate(intervals=False)["macro_f1"]
    assert whole.low <= whole.value <= whole.high


def test_gains_are_over_the_best_of_each_kind(told):
    value = {
        sees: max(m.metrics["macro_f1"].value for m in told.models if m.inputs == sees)
        for sees in ("text", "nodes", "both")
    }
    for sees in ("text", "nodes"):
        assert told.gains[sees].value == pytest.approx(value["both"] - value[sees])
        assert told.gains[sees].low <= told.gains[sees].value <= told.gains[sees].high
    assert "The text helps: nodes alone do worse." in conclusion(told)


def test_hidden_nodes_and_texts_are_not_there(trained, simulated):
    given, edges = vars(trained.fitted_.network.loader), np.arange(9)
    without_nodes, without_texts = MaskedNodes(**given), MaskedTexts(**given)
    for batch in (without_nodes.batch(edges), without_nodes.whole(edges)):
        assert (batch.src == -1).all()
        assert (batch.dst == -1).all()
        assert batch.text.lengths.float().mean() > 4
    for batch in (without_texts.batch(edges), without_texts.whole(edges)):
        assert batch.src.tolist() == simulated.src[edges].tolist()
        assert (batch.text.lengths == trained.fitted_.network.loader.tokens.num_special).all()


def test_a_hidden_side_is_as_if_it_had_never_been_met(trained, simulated, told):
    test = trained.fitted_.network.parts["test"]
    strangers = [("nobody", "nothing", text) for *_, text in edges_of(simulated, test)]
    truth = np.asarray(simulated.labels)[test]
    said = [trained.label_names.index(name) for name in trained.predict(strangers)]
    hidden = next(m for m in told.models if m.model.endswith("nodes hidden"))
    assert hidden.metrics["macro_f1"].value == pytest.approx(metrics.macro_f1(truth, said))


def test_links_are_told_beside_models_of_links_alone(simulated):
    made = tiny(LinkPredictor).fit(simulated)
    told = ablate_inputs(made)
    kinds = {model.model: model.inputs for model in told.models}
    nodes = dict.fromkeys(["popularity", "EASE", "MF", "LightGCN"], "nodes")
    assert kinds == {"Edgeformer-N": "both", **nodes}
    assert set(told.gains) == {"nodes"}
    assert "no model here uses the text alone" in conclusion(told)  # its backbone knows nothing


def test_a_model_of_texts_alone_cannot_tell(simulated):
    settings = {"model.name": "bert", "train.epochs": 1, "edges.ensemble": False}
    told = ablate_inputs(tiny(EdgeClassifier, **settings).fit(simulated))
    assert told.gains == {}
    assert "no model here uses both text and nodes" in conclusion(told)


def test_numbers_are_refused(make_network):
    names = [f"u{i % 4}" for i in range(40)]
    rows = [
        {"source": name, "target": f"t{i % 3}", "text": "a good film", "label": str(i % 7)}
        for i, name in enumerate(names)
    ]
    graph = make_network(rows, label_kind="number")
    made = tiny(EdgeClassifier, **{"train.epochs": 1}).fit(graph)
    with pytest.raises(InputError, match="one class"):
        ablate_inputs(made)


def test_a_model_that_reads_around_its_ends_is_judged_with_its_nodes_hidden_alone(simulated):
    settings = {"model.name": "ehgnn", "train.epochs": 1, "edges.ensemble": False}
    told = ablate_inputs(tiny(EdgeClassifier, **settings).fit(simulated))
    hidden = [model.model for model in told.models if "hidden" in model.model]
    assert hidden == ["EHGNN, nodes hidden"]


def test_a_split_without_test_edges_is_refused(trained, monkeypatch):
    monkeypatch.setitem(trained.fitted_.network.parts, "test", np.empty(0, np.int64))
    with pytest.raises(InputError, match="the split has no edge in 'test'"):
        ablate_inputs(trained)
