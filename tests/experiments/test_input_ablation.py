import numpy as np
import pyarrow as pa
import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.experiments.input_ablation import (
    MODEL,
    EdgesOfOtherNodes,
    EgosOfUnknownNodes,
    OtherTexts,
    _answers,
    _links_without_nodes,
    _shuffled_test,
    ablate_inputs,
)
from edgeformers.report.verdict import read_verdict
from tests.estimators.conftest import tiny
from tests.torture import known_effects, null_verdicts
from tests.torture.verdicts import Case, judge


@pytest.fixture(scope="module")
def trained(simulated):
    return tiny(EdgeClassifier, **{"train.epochs": 6}).fit(simulated)


@pytest.fixture(scope="module")
def verdict(trained):
    return ablate_inputs(trained)


def questions(verdict):
    """The alternatives that a model was compared with, by question."""
    return {answer.question: set(answer.gains) for answer in verdict.answers}


def test_a_classifier_is_compared_with_every_alternative(verdict, trained):
    assert questions(verdict) == {
        "graph": {"nodes hidden", "nodes shuffled", "TF-IDF"},
        "text": {"texts hidden", "texts shuffled", "node ids"},
        **({} if trained.fitted_.head.ensemble is None else {"ensemble": {"the model alone"}}),
    }
    for answer in verdict.answers:
        assert answer.gain == answer.gains[answer.alternative]
        assert answer.low <= answer.gain <= answer.high
    (text,) = (answer for answer in verdict.answers if answer.question == "text")
    assert text.finding == "helps"
    test = trained.fitted_.network.parts["test"]
    sources = np.unique(trained.fitted_.network.graph.src[test])
    assert (verdict.examples, verdict.sources) == (len(test), len(sources))


@pytest.fixture(scope="module")
def predictor(simulated):
    return tiny(LinkPredictor, **{"links.ensemble": True}).fit(simulated)


def test_a_link_model_is_compared_with_and_without_refitted_weights(predictor, tmp_path):
    assert predictor.fitted_.ensemble is not None
    verdict = ablate_inputs(predictor, run=tmp_path)
    assert questions(verdict) == {
        "graph": {"nodes hidden"},
        "text": {"texts hidden", "the ensemble without texts"},
        "ensemble": {"the model alone"},
    }
    assert read_verdict(tmp_path) == verdict


def table(correct, sources=50, edges=200):
    """Predictions of two classes of which `correct` are right."""
    labels = np.arange(edges) % 2
    predicted = np.where(correct, labels, 1 - labels)
    columns = {"edge": np.arange(edges), "source": np.arange(edges) % sources}
    columns |= {"label": labels, "predicted": predicted}
    part = pa.array(["test"] * edges)
    return pa.table({"part": part, **columns})


def answer_for(model, *alternatives):
    """The answer of a model that predicts each edge correctly or not, given its alternatives."""
    names = [f"alternative {i}" for i in range(len(alternatives))]
    tables = {MODEL: model, **dict(zip(names, alternatives, strict=True))}
    (answer,) = _answers(tables, {"text": names}, "macro_f1")
    return answer


def test_every_alternative_must_be_beaten():
    rng = np.random.default_rng(0)
    good, bad = (table(rng.random(200) < chance) for chance in (0.9, 0.6))
    helps = answer_for(good, bad, bad)
    assert (helps.finding, helps.low > 0) == ("helps", True)
    assert answer_for(good, bad, good).finding == "no"
    hurts = answer_for(bad, bad, good)
    assert (hurts.finding, hurts.alternative, hurts.high < 0) == ("hurts", "alternative 1", True)


def test_more_questions_need_more_evidence():
    rng = np.random.default_rng(1)
    base = rng.random(200) < 0.7
    better = base | (rng.random(200) < 0.09)
    model, other = table(better), table(base)
    tables = {MODEL: model, "other": other, "same": model}
    alone = _answers(tables, {"text": ["other"]}, "macro_f1")[0]
    several = _answers(tables, {"text": ["other"], "graph": ["same"]}, "macro_f1")[0]
    assert several.p_value > alone.p_value
    assert several.low < alone.low


def test_loaders_hide_or_exchange_nodes_and_texts(trained, simulated):
    fitted = trained.fitted_
    loader, order = fitted.network.loader, _shuffled_test(fitted)
    test, train = (fitted.network.parts[part][:9] for part in ("test", "train"))
    hidden = EdgesOfOtherNodes(**vars(loader), order=None)
    for batch in (hidden.batch(test), hidden.untruncated(test)):
        assert (batch.src == -1).all()
        assert (batch.dst == -1).all()
        assert batch.text.lengths.float().mean() > 4
    exchanged = EdgesOfOtherNodes(**vars(loader), order=order)
    assert exchanged.batch(test).src.tolist() == simulated.src[order[test]].tolist()
    assert exchanged.batch(train).src.tolist() == simulated.src[train].tolist()
    empty, others = OtherTexts(loader.tokens), OtherTexts(loader.tokens, order)
    assert set(np.diff(empty.take(test, 32)[1])) == {loader.tokens.num_special}
    assert (empty.lengths == loader.tokens.num_special).all()
    for texts, expected in (test, order[test]), (train, train):
        for part, other in zip(
            others.take(texts, 32), loader.tokens.take(expected, 32), strict=True
        ):
            assert part.tolist() == other.tolist()
        assert others.lengths[texts].tolist() == loader.tokens.lengths[expected].tolist()


def test_ego_graphs_can_have_unknown_nodes_only(predictor):
    loader = EgosOfUnknownNodes(**vars(predictor.fitted_.network.loader))
    batch = loader.nodes(np.arange(5))
    assert (batch.center == -1).all()
    assert (batch.neighbor == -1).all()
    assert batch.text.num_texts > 0


def test_links_of_equal_score_are_ranked_at_random(make_network):
    rng = np.random.default_rng(0)
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, 30, (400, 2))}
    rows = [{"source": f"u{a}", "target": f"t{b}", "text": "the same"} for a, b in sorted(pairs)]
    model = tiny(LinkPredictor).fit(make_network(rows))
    (_, texts) = next(_links_without_nodes(model.fitted_))
    ranks = texts.report(protocols=("full",)).ranks["full"]
    assert len(np.unique(ranks)) > 10
    assert (1 / ranks).mean() > 1.2 / 15  # equal ranks of half of the candidates would give 1 / 15


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bert", set()), ("ehgnn", {"graph", "text"})],  # of the text alone; also of texts around it
)
def test_only_inputs_that_a_model_uses_are_asked_about(simulated, name, expected):
    settings = {"model.name": name, "train.epochs": 1, "edges.ensemble": False}
    verdict = ablate_inputs(tiny(EdgeClassifier, **settings).fit(simulated))
    assert set(questions(verdict)) == expected


def test_empty_texts_do_not_help(make_network):
    rows = [
        {"source": f"u{i % 6}", "target": f"t{i % 5}", "text": "", "label": str(i % 6 // 3)}
        for i in range(120)
    ]
    model = tiny(EdgeClassifier, **{"train.epochs": 1}).fit(make_network(rows))
    answers = {answer.question: answer for answer in ablate_inputs(model).answers}
    assert set(answers["graph"].gains) == {"nodes hidden", "nodes shuffled"}  # no words to learn
    assert answers["text"].gains["texts shuffled"] == 0
    assert answers["text"].finding in ("no", "hurts")


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, False) for kind in null_verdicts.KINDS),
        *((kind, True) for kind in known_effects.KINDS),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_verdict_is_right_where_the_answer_is_known(kind, expected):
    outcome = judge(Case(kind, seed=0, number=0), expected=expected)
    assert outcome.kind == "accepted", outcome.detail
