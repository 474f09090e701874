import json

import pyarrow.parquet as pq
import pytest

from edgeformers.cli.recommend import recommendation_lines
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.estimators import load
from edgeformers.inference.batch_inference import recommend_all
from edgeformers.inference.explain import Reason, Recommendation
from edgeformers.inference.fitted_links import FittedLinkPredictor
from tests.cli.commands import run_examples
from tests.cli.conftest import TINY, call


def test_recommendations_come_with_the_texts_that_caused_them(home):
    answer = call("recommend", "run-links", "user-000003", "-k", 3, "--explain", 2, "--json")
    told = json.loads(answer.out)
    assert told["node"] == "user-000003"
    scores = [one["score"] for one in told["recommendations"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    graph = EdgeTextGraph.open("network")
    texts = set(graph.texts(range(graph.num_edges)))
    history = [
        reason
        for one in told["recommendations"]
        for reason in one["because"]
        if reason["kind"] == "history"
    ]
    reasons = [reason["text"] for reason in history]
    assert len(reasons) > 3
    assert set(reasons) <= texts
    plain = call("recommend", "run-links", "user-000003", "-k", 3, "--explain", 2, "--quiet").out
    assert plain.splitlines()[0].split()[:2] == ["1", told["recommendations"][0]["node"]]
    assert reasons[0] in plain
    assert "rest" in plain


def test_what_is_linked_already_is_left_out_unless_asked_for(home):
    graph = EdgeTextGraph.open("network")
    number = graph.node_number("user-000003", "source")
    seen = set(graph.node_names(graph.adjacency.neighbors_of(number)))

    def nodes(*more):
        args = ("user-000003", "-k", 1000, "--json", "--quiet", *more)
        told = json.loads(call("recommend", "run-links", *args).out)
        return {one["node"] for one in told["recommendations"]}

    assert not nodes() & seen
    assert len(nodes()) == graph.num_targets - len(seen)
    assert seen <= nodes("--include-seen")


def test_all_edges_count_if_asked_for(edgeformers):
    split = ("--split", "link=chronological")
    edgeformers("prepare", "simulated", "-o", "network", "--edges", 300, *split, "--quiet")
    edgeformers("train", "link-prediction", "network", "-o", "run", *TINY)
    before = edgeformers("recommend", "run", "user-000003", "--quiet").out
    assert "--all-edges" in before
    after = edgeformers("recommend", "run", "user-000003", "--all-edges", "--quiet").out
    assert after.splitlines()[:10] != before.splitlines()[:10]
    fitted = load("run").fitted_
    fitted.read_all_edges()
    expected = fitted.recommend("user-000003", 10)
    lines = after.splitlines()[: len(expected)]
    assert [line.split()[1] for line in lines] == [each.node for each in expected]
    edgeformers("recommend", "run", "--all", "--all-edges", "-o", "all.parquet", "--quiet")
    rows = [
        row for row in pq.read_table("all.parquet").to_pylist() if row["source"] == "user-000003"
    ]
    assert [row["target"] for row in rows] == [each.node for each in expected]


def test_a_source_that_is_linked_to_every_target_gets_a_sentence(home, monkeypatch):
    monkeypatch.setattr(FittedLinkPredictor, "recommend", lambda *_, **__: [])
    answer = call("recommend", "run-links", "user-000003", "--quiet")
    assert answer.code == 0
    assert "--include-seen" in answer.out


def test_a_list_of_all_targets_says_that_there_are_no_others(home):
    answer = call("recommend", "run-links", "user-000003", "-k", 1000, "--include-seen", "--quiet")
    assert "no other targets" in answer.out
    assert "--include-seen" not in answer.out


def test_long_reasons_are_shortened_in_the_terminal():
    reason = Reason(node="item", text="words " * 1000, weight=1.0, effect=0.5)
    recommendation = Recommendation(node="other", score=1.0, because=[reason], quotes=[reason])
    for full_text, least, most in ((False, 150, 250), (True, 5000, 7000)):
        lines = recommendation_lines([recommendation], full_text=full_text)
        (*_, first, second) = (line for line in lines if "words" in line)
        for line in (first, second):
            assert least < len(line) < most
            assert "-0.500" in line


def test_what_decided_is_said_in_the_line_of_a_recommendation():
    above = {"text": 1.0, "popularity": 3.0}
    one = Recommendation(node="item", score=4.0, above_average=above, decided_by="popularity")
    (line,) = recommendation_lines([one])
    assert line.endswith("4.000  decided by popularity (75%, the texts 25%)")


def test_somebody_new_is_described_by_what_they_like(home):
    edges = [("item-000001", "My tent = excellent."), ("item-000009", "")]
    likes = ["--likes", "item-000001=My tent = excellent.", "--likes", "item-000009"]
    told = json.loads(call("recommend", "run-links", *likes, "-k", 3, "--json", "--quiet").out)
    expected = load("run-links").recommend(edges=edges, k=3)
    assert [one["node"] for one in told["recommendations"]] == [one.node for one in expected]
    plain = call("recommend", "run-links", *likes, "-k", 3, "--explain", 1, "--quiet").out
    assert "because of item-00000" in plain


def test_recommending_to_all_sources_gives_the_same_as_one_by_one(home, tmp_path):
    out = tmp_path / "tonight.parquet"
    answer = call("recommend", "run-links", "--all", "-o", out, "-k", 4, "--quiet")
    assert (answer.code, answer.out) == (0, f"160 recommendations: {out}\n")
    rows = pq.read_table(out).to_pylist()
    predictor = load("run-links")
    for node in ("user-000000", "user-000017"):
        mine = [row for row in rows if row["source"] == node]
        alone = predictor.recommend(node, 4)
        assert [row["rank"] for row in mine] == [1, 2, 3, 4]
        assert [row["target"] for row in mine] == [one.node for one in alone]
        assert [row["score"] for row in mine] == pytest.approx(
            [one.score for one in alone], abs=1e-3
        )


def test_blocks_of_any_size_give_the_same(home):
    predictor = load("run-links")
    whole = [row for part in recommend_all(predictor, 3, show=False) for row in part.to_pylist()]
    parts = list(recommend_all(predictor, 3, cells=130, show=False))
    assert len(parts) > 5
    rows = [row for part in parts for row in part.to_pylist()]
    assert [(row["source"], row["target"]) for row in rows] == [
        (row["source"], row["target"]) for row in whole
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run-links"], "--all"),
        (["run-links", "user-000001", "--likes", "item-000001"], "--likes"),
        (["run-links", "--likes", "item-00001=good"], "'item-0000"),
        (["run-links", "nobody"], "--likes"),
        (["run-links", "user-000001", "--all", "-o", "o.csv"], "--all"),
        (["run-links", "--all"], "-o FILE.parquet"),
        (["run-links", "user-000001", "-o", "o.csv"], "-o needs --all"),
        (["run-links", "user-000001", "--engine", "ray"], "--engine needs --all"),
        (["run-edges", "--all", "-o", "o.csv"], "run-edges classifies edges"),
        (["run-links", "--all", "-o", "o.csv", "--explain", 1], "--explain"),
        (["run-links", "user-00001"], "'user-00001'"),
        (["run-links", "user-000001", "-k", 0], "(got 0)"),
        (["run-edges", "user-000001"], "run-edges classifies edges"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, args, words):
    answer = call("recommend", *args, "--quiet")
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_the_examples_in_the_help_work(edgeformers):
    run_examples("recommend")


def test_candidates_are_chosen_by_id_file_and_label(home, tmp_path):
    def nodes(*more):
        args = ("user-000003", "-k", 1000, "--json", "--quiet", "--include-seen", *more)
        answer = call("recommend", "run-links", *args)
        return {one["node"] for one in json.loads(answer.out)["recommendations"]}

    (tmp_path / "ids.txt").write_text("item-000001\nitem-000002\n\n")
    listed = {"item-000001", "item-000002"}
    assert nodes("--allow", tmp_path / "ids.txt") == listed
    assert nodes("--allow", tmp_path / "ids.txt", "--deny", "item-000002") == {"item-000001"}
    graph = EdgeTextGraph.open("network")
    labeled = nodes("--label", graph.node_label_names[0])
    assert 0 < len(labeled) < len(nodes())
    answer = call("recommend", "run-links", "user-000003", "--deny", "nobody", "--quiet")
    assert answer.code == 2
    assert "nobody" in answer.err
