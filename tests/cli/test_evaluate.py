import json
import re
from pathlib import Path

import pytest

from edgeformers.cli.train import Evaluate, metric_lines, small_batch_lines
from edgeformers.inference.load import load_fitted
from tests.cli.commands import run_examples
from tests.cli.conftest import TINY, call


def test_scores_are_those_of_training(home):
    answer = call("evaluate", "run-edges", "--quiet")
    assert answer.code == 0, answer.err
    noted = json.loads((home / "run-edges" / "results.json").read_text())["test"]
    assert answer.out.startswith(
        "run-edges on 200 edges of the test part of the split edge=random:"
    )
    assert f"{noted['macro_f1']:.4f}" in answer.out


def test_links_are_shown_by_protocol(home):
    answer = call("evaluate", "run-links", "--quiet")
    noted = json.loads((home / "run-links" / "results.json").read_text())["test"]
    lines = answer.out.splitlines()
    assert [line.split()[0] for line in lines[1:7]] == [
        "protocol",
        "full",
        "sampled",
        "paper",
        "paper-shifted",
        "paper-unseen",
    ]
    assert lines[2].split()[1] == f"{noted['full/mrr']:.4f}"


def test_json_is_the_only_output(home):
    told = json.loads(call("evaluate", "run-edges", "--part", "val", "--json", "--quiet").out)
    assert told["part"] == "val"
    assert 0 <= told["results"]["accuracy"] <= 1


def test_links_are_ranked_over_time(edgeformers, monkeypatch):
    split = "link=chronological"
    edgeformers("prepare", "simulated", "-o", "network", "--edges", 300, "--split", split)
    edgeformers("train", "link-prediction", "network", "-o", "run", *TINY)
    answer = edgeformers("evaluate", "run", "--rolling", "--json", "--quiet")
    assert answer.code == 0, answer.err
    results = json.loads(answer.out)["results"]
    low, high = results["rolling/mrr_interval"]
    assert 0 < low <= results["rolling/mrr"] <= high <= 1
    assert set(results["groups"]["rolling"]) == {"new source", "new target", "both known"}
    fitted = load_fitted(Path("run"), show=False)
    monkeypatch.setattr(Evaluate, "open", lambda command: fitted)
    shown = edgeformers("evaluate", "run", "--rolling", "--quiet").out
    assert f"{results['rolling/mrr']:.4f}" in shown
    assert results.keys() > fitted.results["test"].keys()  # those of the model stay as they are
    assert "rolling" not in fitted.results["test"]["groups"]


def test_two_nights_are_compared_on_the_same_links(edgeformers):
    split = "link=chronological"
    for night, edges in enumerate((300, 400)):
        edgeformers("prepare", "simulated", "-o", f"net{night}", "--edges", edges, "--split", split)
        more = ["--from", "run0"] if night else TINY
        done = edgeformers("train", "link-prediction", f"net{night}", "-o", f"run{night}", *more)
        assert done.code == 0, done.err
    answer = edgeformers("evaluate", "run1", "--compare", "run0", "--json", "--quiet")
    assert answer.code == 0, answer.err
    results = json.loads(answer.out)["results"]
    compared = results["compared"]
    low, high = compared["interval"]
    assert low <= compared["difference"] <= high
    assert compared["difference"] == pytest.approx(compared["own_mrr"] - compared["mrr"])
    assert compared["links"] > 0
    assert 0 < compared["mrr"] < 1
    shown = edgeformers("evaluate", "run1", "--compare", "run0", "--quiet").out
    assert f"{compared['mrr']:.4f}" in shown
    same = edgeformers("evaluate", "run1", "--compare", "run1", "--json", "--quiet")
    assert json.loads(same.out)["results"]["compared"]["difference"] == 0
    refused = edgeformers("evaluate", "run1", "--part", "val", "--compare", "run1", "--quiet")
    assert refused.code == 2
    assert "--compare" in refused.err


def test_runs_with_links_of_one_source_are_compared_without_an_interval(edgeformers):
    days = [f"2024-01-{day:02}" for day in range(1, 31)]
    rows = [f"u{at % 5 if at < 24 else 0},i{at % 9},fine,{day}" for at, day in enumerate(days)]
    Path("edges.csv").write_text("\n".join(["source,target,text,time", *rows]))
    split = "link=chronological:0.6/0.2/0.2"
    edgeformers("prepare", "edges.csv", "-o", "net", "--time", "time", "--split", split)
    assert edgeformers("train", "link-prediction", "net", "-o", "run", *TINY).code == 0
    shown = edgeformers("evaluate", "run", "--compare", "run", "--quiet")
    assert shown.code == 0, shown.err
    assert "nan" not in shown.out


def test_a_run_without_its_network_is_not_compared(edgeformers):
    split = "link=chronological"
    for name in ("one", "two"):
        edgeformers("prepare", "simulated", "-o", name, "--edges", 300, "--split", split)
        edgeformers("train", "link-prediction", name, "-o", f"run-{name}", *TINY)
    Path("one").rename("moved")
    refused = edgeformers("evaluate", "run-two", "--compare", "run-one", "--quiet")
    assert refused.code == 2
    assert "run-one" in refused.err


@pytest.mark.parametrize(
    ("protocol", "pairs", "shown"),
    [
        ("full", {"warm": 1, "cold": 2_000}, ["1 link ", "2,000 links "]),
        ("full", {"warm": 0, "cold": 3}, ["3 links "]),
        ("full", {"warm": 3, "cold": 0}, []),  # as in the table
        ("rolling", {"both known": 0, "new source": 1, "new target": 1}, ["1 link ", "1 link "]),
    ],
)
def test_links_with_a_new_node_are_shown_separately(protocol, pairs, shown):
    groups = {name: {"pairs": n, "metrics": {"mrr": 0.5}} for name, n in pairs.items()}
    values = {f"{protocol}/mrr": 0.5, f"{protocol}/mrr_interval": [0.4, 0.6]}
    lines = metric_lines({**values, "groups": {protocol: groups}})
    found = [line for line in lines if line.startswith(f"{protocol}/mrr: ")]
    assert len(found) == bool(shown)
    assert re.findall(r"[\d,]+ links? ", "".join(found)) == shown


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [(201, ["3", "1 pair "]), (109, ["2", "9 pairs "]), (110, []), (200, []), (5, []), (5_001, [])],
)
def test_a_small_last_batch_is_mentioned_if_there_are_few(pairs, shown):
    lines = small_batch_lines(pairs)
    assert len(lines) == bool(shown)
    assert all(word in lines[0] for word in shown)


def test_metrics_that_are_not_defined_are_left_out(edgeformers, tmp_path):
    """Nobody whose links are tested had one in training."""
    rows = [f"u{i},p{i % 7},fine {i},2020-01-{1 + i % 28:02}" for i in range(60)]
    (tmp_path / "once.csv").write_text("\n".join(["user,item,text,day", *rows]) + "\n")
    columns = ("--source", "user", "--target", "item", "--text", "text", "--time", "day")
    edgeformers("prepare", "once.csv", "-o", "network", *columns)
    assert edgeformers("train", "link-prediction", "network", "-o", "run", *TINY).code == 0
    answer = edgeformers("evaluate", "run", "--quiet")
    assert "coverage" in answer.out
    assert "nan" not in answer.out
    json.loads(edgeformers("evaluate", "run", "--json", "--quiet").out, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run-edges", "--rolling"], "--rolling"),
        (["run-links", "--rolling"], "chronological"),
        (["run-links", "--compare", "run-edges"], "run-edges classifies"),
        (["run-links", "--compare", "run-links"], "chronological"),
        (["run-links", "--compare", "nothing"], "nothing: no such folder"),
        (["run-edges", "--compare", "run-links"], "--compare"),
        (["nothing"], "nothing: no such folder"),
        (["run-edges", "--part", "tset"], "'tset'; did you mean 'test'"),
        (["run-edges", "--network", "nothing"], "nothing is not a prepared network"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, args, words):
    answer = call("evaluate", *args, "--quiet")
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_the_examples_in_the_help_work(edgeformers):
    run_examples("evaluate")
