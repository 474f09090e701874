import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import metrics
from edgeformers.experiments.input_ablation import MaskedNodes, MaskedTexts, ablate_inputs
from edgeformers.report.scores import conclusion
from tests.estimators.conftest import tiny
from tests.estimators.test_edge_estimator import edges_of


@pytest.fixture(scope="module")
def trained(simulated):
    return tiny(EdgeClassifier, **{"train.epochs": 6}).fit(simulated)


@pytest.fixture(scope="module")
def ablation(trained):
    return ablate_inputs(trained)


def test_models_of_every_kind_of_input_are_scored_on_the_test_part(ablation, trained):
    assert {model.model: model.inputs for model in ablation.models} == {
        "Edgeformer-E": "both",
        "Edgeformer-E, nodes hidden": "text",
        "Edgeformer-E, texts hidden": "nodes",
        "TF-IDF": "text",
        "node ids": "nodes",
    }
    complete = next(model for model in ablation.models if model.inputs == "both")
    score = complete.metrics["macro_f1"]
    assert score.value == trained.evaluate(intervals=False)["macro_f1"]
    assert score.low <= score.value <= score.high


def test_gains_are_over_the_best_model_of_each_kind(ablation):
    best = {
        kind: max(m.metrics["macro_f1"].value for m in ablation.models if m.inputs == kind)
        for kind in ("text", "nodes", "both")
    }
    for kind, gain in ablation.gains.items():
        assert gain.value == pytest.approx(best["both"] - best[kind])
        assert gain.low <= gain.value <= gain.high
    assert "The text helps" in conclusion(ablation)


def test_masked_loaders_hide_nodes_or_texts(trained, simulated):
    loader, edges = trained.fitted_.network.loader, np.arange(9)
    without_nodes, without_texts = MaskedNodes(**vars(loader)), MaskedTexts(**vars(loader))
    for batch in (without_nodes.batch(edges), without_nodes.untruncated(edges)):
        assert (batch.src == -1).all()
        assert (batch.dst == -1).all()
        assert batch.text.lengths.float().mean() > 4
    for batch in (without_texts.batch(edges), without_texts.untruncated(edges)):
        assert batch.src.tolist() == simulated.src[edges].tolist()
        assert (batch.text.lengths == loader.tokens.num_special).all()


def test_masked_nodes_are_scored_like_unknown_nodes(trained, simulated, ablation):
    test = trained.fitted_.network.parts["test"]
    unknown = [("nobody", "nothing", text) for *_, text in edges_of(simulated, test)]
    predicted = [trained.label_names.index(name) for name in trained.predict(unknown)]
    expected = metrics.macro_f1(np.asarray(simulated.labels)[test], predicted)
    masked = next(model for model in ablation.models if model.model.endswith("nodes hidden"))
    assert masked.metrics["macro_f1"].value == pytest.approx(expected)


def test_link_models_are_compared_with_models_of_the_links_alone(simulated):
    ablation = ablate_inputs(tiny(LinkPredictor).fit(simulated))
    nodes = dict.fromkeys(["popularity", "EASE", "ALS", "LightGCN"], "nodes")
    kinds = {model.model: model.inputs for model in ablation.models}
    assert kinds == {"Edgeformer-N": "both", **nodes}
    assert set(ablation.gains) == {"nodes"}  # an untrained backbone is no model of the text


@pytest.mark.parametrize(
    ("name", "hidden", "gains"),
    [
        ("bert", [], set()),  # reads the text alone
        ("ehgnn", ["EHGNN, nodes hidden"], {"text", "nodes"}),  # also reads texts around the ends
    ],
)
def test_only_inputs_that_a_model_uses_are_masked(simulated, name, hidden, gains):
    settings = {"model.name": name, "train.epochs": 1, "edges.ensemble": False}
    ablation = ablate_inputs(tiny(EdgeClassifier, **settings).fit(simulated))
    assert [model.model for model in ablation.models if "hidden" in model.model] == hidden
    assert set(ablation.gains) == gains


def test_numeric_labels_are_rejected(make_network):
    rows = [
        {"source": f"u{i % 4}", "target": f"t{i % 3}", "text": "a good film", "label": str(i % 7)}
        for i in range(40)
    ]
    graph = make_network(rows, label_kind="number")
    model = tiny(EdgeClassifier, **{"train.epochs": 1}).fit(graph)
    with pytest.raises(InputError, match="one class"):
        ablate_inputs(model)


def test_a_split_without_test_edges_is_rejected(trained, monkeypatch):
    monkeypatch.setitem(trained.fitted_.network.parts, "test", np.empty(0, np.int64))
    with pytest.raises(InputError, match="'test'"):
        ablate_inputs(trained)
