import json
import re

import pytest

from tests.cli.commands import run_examples
from tests.cli.conftest import TINY, call
from tests.report.films import outline


def test_the_examples_in_the_help_work(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    answer = run_examples("report")[-1]
    assert "2 finished runs of 2 models on network" in answer.out
    outline((tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.fixture
def written(home, tmp_path):
    """The page over two trained runs, and what was printed."""
    answer = call("report", "run-edges", "run-links", "-o", tmp_path / "new/page.html")
    assert answer.code == 0, answer.err
    return (tmp_path / "new/page.html").read_text(encoding="utf-8"), answer.out


def test_runs_of_the_real_program_have_scores_curves_times_degrees_data_and_settings(written):
    page, printed = written
    seen = outline(page)
    expected = ["graph", "models", "curves", "degree", "data", "settings"]
    assert seen.links == [f"#{name}" for name in expected]
    assert "--ablate-inputs" in printed
    curves = page.partition('<section id="curves">')[2].partition("<section id=")[0]
    assert re.search(r"Edgeformer-E, epoch 1: [\d.]+<", curves)
    assert re.search(r"Edgeformer-N, second [\d.]+: [\d.]+<", curves)
    assert "1,000 edges with text" in page
    assert "train.<wbr>lr" in page


def test_json_tells_what_was_found_and_the_page_is_written_too(home, tmp_path):
    runs = ("run-edges", "run-links")
    answer = call("report", *runs, "-o", tmp_path / "page.html", "--json")
    found = json.loads(answer.out)
    assert (found["page"], found["runs"]) == (str(tmp_path / "page.html"), 2)
    edges, links = found["groups"]
    results = json.loads((home / "run-edges/results.json").read_text())["test"]
    score = edges["models"][0]["metrics"]["macro_f1"]
    assert [score["value"], score["low"], score["high"]] == [
        results["macro_f1"],
        *results["macro_f1_interval"],
    ]
    assert links["models"][0]["runs"] == ["run-links"]
    assert (tmp_path / "page.html").is_file()


def test_a_run_that_was_interrupted_is_listed_and_the_others_are_shown(home, tmp_path):
    half = tmp_path / "half"
    half.mkdir()
    for name in ("config.toml", "run.json"):
        (half / name).write_text((home / "run-edges" / name).read_text())
    answer = call("report", "run-edges", half, "-o", tmp_path / "page.html")
    assert f"{half}: it is not finished: 0 of 1" in answer.out
    assert f"{half}: it is not finished" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_folders_without_a_finished_run_are_answered_with_a_sentence(home, tmp_path):
    answer = call("report", "network", "-o", tmp_path / "page.html")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: no finished run in network")
    assert not (tmp_path / "page.html").exists()


def test_rows_of_an_experiment_are_compared_on_the_same_examples(home, tmp_path):
    made = call(
        *("reproduce", "as-shipped", "--data", "network", "-o", tmp_path / "paper"),
        *(*TINY, "--no-estimate", "--seeds", 1, "--models", "tfidf,node-ids,tfidf-nodes"),
    )
    assert made.code == 0, made.err
    answer = call("report", tmp_path / "paper", "-o", tmp_path / "page.html", "--json")
    (group,) = json.loads(answer.out)["groups"]
    scores = {one["model"]: one["metrics"]["macro_f1"]["value"] for one in group["models"]}
    for sees, other in (("text", "TF-IDF"), ("nodes", "node ids")):
        gain = group["gains"]["macro_f1"][sees]
        assert gain["value"] == pytest.approx(scores["TF-IDF+nodes"] - scores[other])
        assert gain["low"] <= gain["value"] <= gain["high"]
