"""Messages between people: who has written to somebody is likely to be answered."""

import numpy as np
import pyarrow as pa
import pytest

from edgeformers.baselines.base import training_links
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.collaborative.reciprocity import Reciprocity, can_reciprocate
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import TRAIN, SplitConfig
from edgeformers.data.table import EdgeTable
from edgeformers.estimators import LinkPredictor, load
from edgeformers.experiments.input_ablation import ablate_inputs
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import experiment_rows
from edgeformers.experiments.scoring import score
from edgeformers.inference.batch_inference import recommend_all
from edgeformers.inference.ensemble import ReturnedPart, fit_ensemble

PEOPLE = 80


def write(out, *, directed=True):
    """Everyone writes to six others, and six in ten answer."""
    draw = np.random.default_rng(0)
    rows = []
    for one in range(PEOPLE):
        for other in draw.permutation(np.setdiff1d(np.arange(PEOPLE), [one]))[:6]:
            rows.append((one, other))
            if draw.random() < 0.6:
                rows.append((other, one))
    draw.shuffle(rows)
    records = [{"source": f"p{a}", "target": f"p{b}", "text": f"hello p{b}"} for a, b in rows]
    table = EdgeTable.from_rows(
        lambda: records, fields=list(records[0]), origin="mail", bipartite=False, directed=directed
    )
    splits = [SplitConfig(name="link", how="per_source", new_pairs=True)]
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
    return write_network(table, out, config=config)


@pytest.fixture(scope="module")
def mail(tmp_path_factory):
    return write(tmp_path_factory.mktemp("mail") / "network")


def make(**settings):
    usual = {"train.epochs": 1, "train.batch_size": 64, "model.node_width": 8}
    return LinkPredictor(
        "scratch:2x32", settings={**usual, **settings}, show=False, device="cpu", recipe="default"
    )


@pytest.fixture(scope="module")
def fitted(mail):
    return make().fit(mail)


def training_pairs(graph):
    is_train = graph.split("link") == TRAIN
    return set(zip(graph.src[is_train].tolist(), graph.dst[is_train].tolist(), strict=True))


def test_who_is_linked_to_a_node_is_known_from_training_alone(mail):
    back = training_links(mail, "link").train.transpose()
    everyone = np.arange(mail.num_nodes)
    found = set(zip(*(part.tolist() for part in back.of(everyone)), strict=True))
    assert found == {(to, by) for by, to in training_pairs(mail)}


def test_scores_are_raised_for_those_who_wrote_and_for_nobody_else(mail, fitted):
    ensemble = fitted.head.ensemble
    assert ensemble.returned is not None
    assert (ensemble.returned.amount > 0).all()
    everyone = np.arange(mail.num_nodes)
    whole = fitted.objective.scorer(everyone, everyone)
    raised = whole.scores(everyone) - whole.scorer.scores(everyone)
    amount = ensemble.returned.amount.numpy()[ensemble.group.long().numpy()]
    right = np.zeros_like(raised)
    for by, to in training_pairs(mail):
        right[to, by] = amount[to]
    np.testing.assert_allclose(raised, right, rtol=1e-4, atol=1e-4)


def test_all_ways_to_a_score_agree(mail, fitted):
    number = 3
    name = mail.node_names(np.array([number]))[0]
    everyone = np.arange(mail.num_nodes)
    scorer = fitted.objective.scorer(np.array([number]), everyone)
    scores = scorer.scores(np.array([0]))[0]
    some = np.array([9, 1, 40])
    np.testing.assert_allclose(scorer.scores(np.array([0]), some)[0], scores[some], rtol=1e-5)
    np.testing.assert_allclose(scorer.pick(np.array([0]), some[None])[0], scores[some], rtol=1e-5)
    others = fitted.objective.scorer(np.array([number]), some)  # candidates in any order
    np.testing.assert_allclose(others.scores(np.array([0]))[0], scores[some], rtol=1e-5)
    pairs = [(name, other) for other in mail.node_names(everyone)]
    np.testing.assert_allclose(fitted.score(pairs), scores, rtol=1e-4)
    found = fitted.recommend(name, k=PEOPLE, exclude_seen=False)
    by_name = dict(zip(mail.node_names(everyone), scores, strict=True))
    assert len(found) == PEOPLE
    for one in found:
        assert one.score == pytest.approx(by_name[one.node], rel=1e-4)


def test_who_wrote_and_was_not_answered_is_recommended_and_who_was_is_not(mail, fitted):
    sent = set(zip(mail.src.tolist(), mail.dst.tolist(), strict=True))
    names = mail.node_names(np.arange(mail.num_nodes))
    pairs = training_pairs(mail)
    node = next(to for by, to in sorted(pairs) if (to, by) not in sent)
    waiting = {names[by] for by, to in pairs if to == node and (node, by) not in sent}
    answered = {names[to] for by, to in sent if by == node}
    found = [one.node for one in fitted.recommend(names[node], k=PEOPLE)]
    assert set(found[: len(waiting)]) == waiting
    assert not answered & set(found)
    assert names[node] not in found


def test_it_ranks_above_what_does_not_know_who_wrote(mail, fitted):
    ours = fitted.evaluate(protocols=("full",))["full/mrr"]
    known, popular = (
        score(one.fit(mail, "link"), mail, "link").results["test"]["full/mrr"]
        for one in (Reciprocity(), Popularity())
    )
    assert known > popular + 0.1
    assert ours > known - 0.02


def test_it_is_saved_and_loaded(mail, fitted, tmp_path):
    loaded = load(fitted.save(tmp_path / "model"), network=mail)
    ours, theirs = loaded.evaluate("val"), fitted.evaluate("val")
    assert ours["full/mrr"] == pytest.approx(theirs["full/mrr"])
    name = mail.node_names(np.array([5]))[0]
    assert loaded.recommend(name)[0].node == fitted.recommend(name)[0].node
    new = loaded.recommend(edges=[(name, "hello")], k=3)  # nobody has written to who is new
    assert [one.node for one in new] == [
        one.node for one in fitted.recommend(edges=[(name, "hello")], k=3)
    ]


def test_it_may_stand_alone_beside_a_model(mail, fitted, monkeypatch, tmp_path):
    monkeypatch.setattr("edgeformers.inference.ensemble.EASE_TARGETS", 0)
    monkeypatch.setattr("edgeformers.inference.ensemble.ALS_LINKS", 0)
    monkeypatch.setattr("edgeformers.inference.ensemble.LIGHTGCN_LINKS", 0)
    monkeypatch.setattr("edgeformers.inference.ensemble.LIGHTGCN_LINKS_GPU", 0)
    made = make().fit(mail)
    assert made.head.ensemble.query.shape == (PEOPLE, 0)
    assert made.head.ensemble.returned is not None
    loaded = load(made.save(tmp_path / "model"), network=mail)
    name = mail.node_names(np.array([5]))[0]
    assert loaded.recommend(name)[0].node == made.recommend(name)[0].node
    assert loaded.recommend(edges=[(name, "hello")], k=1)


def test_where_validation_says_no_it_is_left_out(mail, fitted, monkeypatch):
    def without(parts, ranking, group):
        return np.array([[1.0] + [float(not isinstance(p, ReturnedPart)) for p in parts[1:]]] * 3)

    monkeypatch.setattr("edgeformers.inference.ensemble.weigh_groups", without)
    plain = make(**{"links.ensemble": False}).fit(mail)
    assert fit_ensemble(plain.objective, mail, "link", seed=0).returned is None


@pytest.mark.parametrize("kind", ["simulated", "undirected"])
def test_nothing_is_returned_between_two_kinds_of_nodes_or_along_undirected_edges(
    kind, simulated, tmp_path
):
    graph = simulated if kind == "simulated" else write(tmp_path / "network", directed=False)
    assert not can_reciprocate(graph)
    made = make(**{"train.epochs": 1}).fit(graph)
    assert made.head.ensemble is None or made.head.ensemble.returned is None
    nodes = np.arange(5)
    right = Popularity().fit(graph, "link").scores(nodes, np.arange(graph.num_sources, 40))
    found = Reciprocity().fit(graph, "link").scores(nodes, np.arange(graph.num_sources, 40))
    assert (np.argsort(-found, kind="stable") == np.argsort(-right, kind="stable")).all()


def test_tables_and_verdicts_have_it_where_it_can_be(mail, fitted, simulated):
    names = [
        row.name for row in experiment_rows("link-prediction", ExperimentOptions(), reciprocal=True)
    ]
    assert names[:2] == ["reciprocity", "popularity"]
    assert "reciprocity" not in [
        row.name for row in experiment_rows("link-prediction", ExperimentOptions())
    ]
    told = ablate_inputs(fitted)
    assert "reciprocity" in str(told).lower()


def test_the_table_of_every_night_says_what_one_source_is_told(mail, fitted):
    for exclude in (True, False):
        table = pa.concat_tables(
            list(recommend_all(fitted, k=5, exclude_seen=exclude, cells=900, show=False))
        ).to_pylist()
        for name in mail.node_names(np.array([0, 7, 79])):
            one = fitted.recommend(name, k=5, exclude_seen=exclude)
            rows = [row for row in table if row["source"] == name]
            assert [row["target"] for row in rows] == [found.node for found in one]
            np.testing.assert_allclose(
                [row["score"] for row in rows], [found.score for found in one], rtol=1e-4
            )


def test_what_somebody_wrote_to_the_source_is_the_first_reason(mail, fitted):
    names = mail.node_names(np.arange(mail.num_nodes))
    pairs = training_pairs(mail)
    for node in range(20):
        for one in fitted.recommend(names[node], k=6, explain=2):
            by = names.index(one.node)
            first = one.because[0]
            if (by, node) in pairs:
                assert (first.text, first.node) == (f"hello {names[node]}", names[node])
                assert first.weight == pytest.approx(fitted.head.ensemble.returned_amount(node))
            assert len(one.because) <= 2


def test_nobody_is_linked_to_a_node_never_met(mail, fitted):
    everyone, some = np.arange(mail.num_nodes), np.array([4, -1, 9])
    found = fitted.head.ensemble.returned.among(some, everyone)
    assert found.indptr[1] == found.indptr[2]
    right = fitted.head.ensemble.returned.among(np.array([4, 9]), everyone)
    assert found.candidates.tolist() == right.candidates.tolist()
    fewer = fitted.head.ensemble.returned.among(everyone, np.array([-1, 0]))
    assert not (fewer.candidates == 0).any()
    assert fewer.candidates.size == sum(by == 0 for by, _ in training_pairs(mail))
