import numpy as np
import pytest

from edgeformers.baselines.text.edge_classifiers import NodeOneHots
from edgeformers.baselines.text.tfidf import Tfidf, TfidfNodes
from edgeformers.data.splits import TEST
from edgeformers.errors import InputError
from edgeformers.evaluation.metrics import micro_f1

FEW = {"grid": [1.0, 10.0]}


def held_out(graph):
    labels = np.asarray(graph.labels)
    test = np.flatnonzero((graph.split("given") == TEST) & (labels >= 0))
    return test, labels[test]


@pytest.mark.parametrize("lbfgs_edges", [10**6, 0], ids=["lbfgs", "sgd"])
@pytest.mark.parametrize("kind", [Tfidf, TfidfNodes])
def test_words_predict_the_class(opinions, kind, lbfgs_edges):
    model = kind(**FEW, lbfgs_edges=lbfgs_edges).fit(opinions, "given")
    test, labels = held_out(opinions)
    assert micro_f1(labels[:-1], model.predict(test[:-1])) == 1.0
    assert model.setting["solver"] == ("lbfgs" if lbfgs_edges else "sgd")


def test_classes_follow_label_names_and_one_without_training_edges_has_probability_0(opinions):
    model = Tfidf(**FEW).fit(opinions, "given")
    test, labels = held_out(opinions)
    table = model.predict_proba(test)
    assert table.shape == (len(test), 3)
    np.testing.assert_allclose(table.sum(1), 1.0)
    odd, good = (opinions.label_names.index(name) for name in ("odd", "good"))
    assert not table[:, odd].any()
    assert set(model.predict(test[labels == good])) == {good}
    assert model.predict_proba([]).shape == (0, 3)


def test_node_ids_help_if_words_do_not(make_parts):
    part = ["train", "train", "val", "test"]
    rows = [
        {
            "source": f"u{n % 4}",
            "target": f"i{n % 3}",
            "text": "some words",
            "label": "up" if n % 4 < 2 else "down",
            "split": part[n // 4 % 4],
        }
        for n in range(96)
    ]
    graph = make_parts(rows)
    test, labels = held_out(graph)
    with_nodes = TfidfNodes(**FEW).fit(graph, "given").predict(test)
    without = Tfidf(**FEW).fit(graph, "given").predict(test)
    assert micro_f1(labels, with_nodes) == 1.0
    assert micro_f1(labels, without) == 0.5


def test_both_nodes_are_one_hot_and_a_new_node_has_no_feature(opinions):
    one_hots = NodeOneHots(opinions, "given")
    first, new = 0, opinions.num_edges - 1  # the last edge comes from a node new in test
    table = one_hots.of(np.array([first, new])).toarray()
    assert one_hots.width == 7 + 5
    assert table.sum(1).tolist() == [2, 1]
    assert table[0, [0, 7]].tolist() == [1, 1]


@pytest.mark.parametrize(("directed", "width"), [(True, 6), (False, 3)])
def test_a_node_has_a_column_for_each_direction(make_parts, directed, width):
    rows = [
        {"source": s, "target": t, "text": "", "split": "train"}
        for s, t in [("a", "b"), ("b", "a"), ("c", "a")]
    ]
    graph = make_parts(rows, bipartite=False, directed=directed)
    one_hots = NodeOneHots(graph, "given")
    table = one_hots.of(np.array([0, 1])).toarray()
    assert one_hots.width == width
    assert (table[0] == table[1]).all() == (not directed)


def test_the_penalty_is_chosen_on_validation_by_macro_f1(opinions):
    model = Tfidf(grid=[1e-6, 10.0]).fit(opinions, "given")
    assert model.setting["C"] == 10.0
    assert model.trials[0].score < model.trials[1].score == 1.0


def test_numeric_labels_are_refused(make_parts):
    row = {"source": "a", "target": "x", "text": "t", "label": "1.5", "split": "train"}
    graph = make_parts([row, {**row, "label": "2.5"}], label_kind="number")
    with pytest.raises(InputError, match="a number"):
        Tfidf().fit(graph, "given")


def test_a_single_class_is_refused(make_parts):
    row = {"source": "a", "target": "x", "text": "t", "label": "up", "split": "train"}
    with pytest.raises(InputError, match="two classes"):
        Tfidf().fit(make_parts([row, row]), "given")


def test_texts_without_words_are_refused(make_parts):
    row = {"source": "a", "target": "x", "text": "!", "label": "up", "split": "train"}
    with pytest.raises(InputError, match="words"):
        Tfidf().fit(make_parts([row, {**row, "label": "down"}]), "given")
