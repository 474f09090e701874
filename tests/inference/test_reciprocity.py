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
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import experiment_rows
from edgeformers.experiments.scoring import score
from edgeformers.inference.batch_inference import recommend_all
from edgeformers.inference.components import ReciprocityComponent
from edgeformers.inference.ensemble import fit_ensemble

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


def reciprocity(predictor):
    """The component, its weights [G] and the degree group of each node."""
    ensemble = predictor.fitted_.ensemble
    if ensemble is None:
        return None
    for at, component in enumerate(ensemble.components, 1):
        if component.name == "reciprocity":
            return component, ensemble.weights[:, at].numpy(), ensemble.group.numpy()
    return None


def test_only_candidates_with_an_edge_to_the_source_get_a_bonus(mail, fitted):
    _, weights, group = reciprocity(fitted)
    assert (weights > 0).all()
    everyone = np.arange(mail.num_nodes)
    scorer = fitted.fitted_.scorer.among(everyone, everyone)
    bonus = scorer.scores(everyone) - scorer.scorer.scores(everyone)
    expected = np.zeros_like(bonus)
    for by, to in training_pairs(mail):
        expected[to, by] = weights[group[to]]
    np.testing.assert_allclose(bonus, expected, rtol=1e-4, atol=1e-4)


def test_all_ways_to_a_score_agree(mail, fitted):
    number, everyone, row = 3, np.arange(mail.num_nodes), np.array([0])
    names = mail.node_names(everyone)
    scorer = fitted.fitted_.scorer.among(np.array([number]), everyone)
    scores = scorer.scores(row)[0]
    some = np.array([9, 1, 40])
    np.testing.assert_allclose(scorer.scores(row, some)[0], scores[some], rtol=1e-5)
    np.testing.assert_allclose(scorer.pick(row, some[None])[0], scores[some], rtol=1e-5)
    others = fitted.fitted_.scorer.among(np.array([number]), some)  # candidates in any order
    np.testing.assert_allclose(others.scores(row)[0], scores[some], rtol=1e-5)
    pairs = [(names[number], other) for other in names]
    np.testing.assert_allclose(fitted.score(pairs), scores, rtol=1e-4)
    recommended = fitted.recommend(names[number], k=PEOPLE, exclude_seen=False)
    assert len(recommended) == PEOPLE
    for one in recommended:
        assert one.score == pytest.approx(scores[names.index(one.node)], rel=1e-4)


def test_unanswered_nodes_are_recommended_first(mail, fitted):
    sent = set(zip(mail.src.tolist(), mail.dst.tolist(), strict=True))
    names = mail.node_names(np.arange(mail.num_nodes))
    pairs = training_pairs(mail)
    node = next(to for by, to in sorted(pairs) if (to, by) not in sent)
    waiting = {names[by] for by, to in pairs if to == node and (node, by) not in sent}
    answered = {names[to] for by, to in sent if by == node}
    recommended = [one.node for one in fitted.recommend(names[node], k=PEOPLE)]
    assert set(recommended[: len(waiting)]) == waiting
    assert not answered & set(recommended)
    assert names[node] not in recommended


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


def test_reciprocity_may_be_the_only_component(mail, fitted, monkeypatch, tmp_path):
    for limit in ("EASE_NODES", "ALS_LINKS", "LIGHTGCN_LINKS", "LIGHTGCN_LINKS_GPU"):
        monkeypatch.setattr(f"edgeformers.inference.ensemble.{limit}", 0)
    predictor = make().fit(mail)
    assert [c.name for c in predictor.fitted_.ensemble.components] == ["reciprocity"]
    loaded = load(predictor.save(tmp_path / "model"), network=mail)
    name = mail.node_names(np.array([5]))[0]
    assert loaded.recommend(name)[0].node == predictor.recommend(name)[0].node
    assert loaded.recommend(edges=[(name, "hello")], k=1)


def test_reciprocity_is_left_out_if_validation_says_so(mail, monkeypatch):
    def without(chosen, ranking, group):
        kinds = [type(one.component) for one in chosen]
        return np.array([[float(kind is not ReciprocityComponent) for kind in kinds]] * 3)

    monkeypatch.setattr("edgeformers.inference.ensemble.choose_group_weights", without)
    predictor = make(**{"links.ensemble": False}).make_objective(mail)
    components = fit_ensemble(predictor.fitted).components
    assert "reciprocity" not in [component.name for component in components]


@pytest.mark.parametrize("kind", ["simulated", "undirected"])
def test_nothing_is_returned_between_two_kinds_of_nodes_or_along_undirected_edges(
    kind, simulated, tmp_path
):
    graph = simulated if kind == "simulated" else write(tmp_path / "network", directed=False)
    assert not can_reciprocate(graph)
    made = make(**{"train.epochs": 1}).fit(graph)
    assert reciprocity(made) is None
    nodes = np.arange(5)
    right = Popularity().fit(graph, "link").scores(nodes, np.arange(graph.num_sources, 40))
    found = Reciprocity().fit(graph, "link").scores(nodes, np.arange(graph.num_sources, 40))
    assert (np.argsort(-found, kind="stable") == np.argsort(-right, kind="stable")).all()


def test_tables_and_verdicts_have_it_where_it_can_be(mail, fitted, simulated):
    names = [
        row.name for row in experiment_rows("as-shipped", ExperimentOptions(), reciprocal=True)
    ]
    assert "reciprocity" in names
    assert "reciprocity" not in [
        row.name for row in experiment_rows("as-shipped", ExperimentOptions())
    ]


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


def test_reciprocity_comes_with_the_text_of_an_edge_to_the_source(mail, fitted):
    names = mail.node_names(np.arange(mail.num_nodes))
    pairs, (_, weights, group) = training_pairs(mail), reciprocity(fitted)
    for node in range(20):
        for one in fitted.recommend(names[node], k=6, explain=2):
            found = {reason.kind: reason for reason in one.because}
            assert ("reciprocity" in found) == ((names.index(one.node), node) in pairs)
            if "reciprocity" in found:
                reason = found["reciprocity"]
                assert (reason.text, reason.node) == (f"hello {names[node]}", one.node)
                assert reason.weight == pytest.approx(weights[group[node]])
                assert one.components["reciprocity"] == pytest.approx(reason.weight)
