import json
import os
import shutil
from pathlib import Path

import pytest

from edgeformers.experiments.plan import Plan
from tests.cli.commands import run_examples
from tests.cli.conftest import TINY, call

TINY_RUNS = ("--data", "network", *TINY, "--no-estimate")
EDGES = ("reproduce", "edge-classification", *TINY_RUNS, "--models", "tfidf,edgeformer-e")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with `network` and the finished experiment `out` of two rows."""
    folder, before = tmp_path_factory.mktemp("reproduced"), Path.cwd()
    os.chdir(folder)
    try:
        made = call("prepare", "simulated", "-o", "network", "--edges", 400, "--quiet")
        assert made.code == 0, made.err
        made = call(*EDGES, "-o", "out", "--seeds", 2)
        assert made.code == 0, made.err
        (folder / "printed").write_text(made.out)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def home(done, monkeypatch):
    monkeypatch.chdir(done)
    return done


@pytest.fixture
def copied(home, tmp_path):
    """The finished experiment, to be changed."""
    shutil.copytree(home / "out", tmp_path / "out")
    return tmp_path / "out"


def test_a_table_is_printed_and_everything_is_written(home):
    printed = (home / "printed").read_text()
    assert printed.startswith("Edge classification, test part\n")
    assert "Edge classification, validation part" in printed
    assert "Macro-F1: " in printed
    assert " leads " in printed
    names = sorted(path.name for path in (home / "out" / "edge-classification").iterdir())
    assert names == [
        "plan.json",
        "record.json",
        "tables.csv",
        "tables.md",
        "tables.tex",
        "tables.txt",
    ]
    assert (home / "out" / "edge-classification" / "tables.txt").read_text() == printed
    assert (
        "### What the paper claims"
        in (home / "out" / "edge-classification" / "tables.md").read_text()
    )


def test_a_record_has_numbers_and_settings_but_no_data(home):
    text = (home / "out" / "edge-classification" / "record.json").read_text()
    record = json.loads(text)
    assert [(one["row"], one["seed"]) for one in record["entries"]] == [
        ("tfidf", 0),
        ("edgeformer-e", 0),
        ("edgeformer-e", 1),
    ]
    assert record["entries"][1]["settings"]["model.backbone"] == "scratch:2x32"
    assert str(home) not in text


def test_a_finished_experiment_is_printed_again_without_training(home):
    results = home / "out" / "runs" / "edgeformer-e" / "0" / "results.json"
    before = results.stat().st_mtime_ns
    answer = call(*EDGES, "-o", "out", "--seeds", 2)
    assert (answer.code, answer.out) == (0, (home / "printed").read_text())
    assert results.stat().st_mtime_ns == before


def test_tables_are_rebuilt_from_the_runs(home, copied):
    for path in (copied / "edge-classification").glob("tables.*"):
        path.unlink()
    answer = call("reproduce", "tables", copied)
    assert (answer.code, answer.out) == (0, (home / "printed").read_text())
    latex = call("reproduce", "tables", copied, "--format", "latex").out
    assert latex.startswith("\\begin{table}\n\\caption{Edge classification, test part}\n")
    assert latex == (copied / "edge-classification" / "tables.tex").read_text()


def test_a_dry_run_prints_the_plan(home, tmp_path):
    answer = call(*EDGES, "-o", tmp_path / "new", "--seeds", 3, "--dry-run")
    assert answer.code == 0
    assert not (tmp_path / "new").exists()
    loud = [word for word in EDGES if word not in ("--quiet", "--no-estimate")]
    answer = call(*loud, "-o", "out", "--seeds", 3, "--dry-run")
    lines = answer.out.splitlines()
    assert lines[0].startswith("edge-classification (Tables 1 and 7) on EdgeTextGraph(network: ")
    assert [line.split() for line in lines[2:4]] == [
        ["tfidf", "tfidf", "0", "1", "of", "1"],
        ["edgeformer-e", "edgeformer-e", "0,", "1,", "2", "2", "of", "3"],
    ]
    assert lines[4].startswith("Estimated time: ")


def test_a_failed_run_gives_exit_code_1_and_the_others_are_reported(home, tmp_path):
    rows = ("--models", "tfidf,bert", "--backbone", "scratch:2x33")
    args = [word for word in EDGES if word not in ("--models", "tfidf,edgeformer-e")]
    answer = call(*args, *rows, "-o", tmp_path / "out", "--seeds", 1)
    assert answer.code == 1
    assert "TF-IDF " in answer.out
    assert "failed: bert, seed 0" in answer.err


def test_an_interrupted_run_resumes_and_finished_runs_are_kept(home, copied, tmp_path):
    stopped = copied / "runs" / "edgeformer-e" / "1"
    (stopped / "results.json").unlink()
    kept = copied / "runs" / "edgeformer-e" / "0" / "results.json"
    before = kept.stat().st_mtime_ns
    answer = call(*EDGES, "-o", copied, "--seeds", 2)
    assert answer.code == 0, answer.err
    assert kept.stat().st_mtime_ns == before
    first, second = (
        (at / "runs" / "edgeformer-e" / "1" / "results.json").read_text()
        for at in (home / "out", copied)
    )
    assert json.loads(first)["test"]["macro_f1"] == json.loads(second)["test"]["macro_f1"]


def test_json_is_the_only_output(home):
    answer = call(*EDGES, "-o", "out", "--seeds", 2, "--json")
    (told,) = json.loads(answer.out)
    assert told["experiment"] == "edge-classification"
    assert told["runs"][2] == {"row": "edgeformer-e", "seed": 1, "finished": True}
    assert set(told["tables"]["edge-classification/test"]) == {"tfidf", "edgeformer-e"}
    assert told["claims"][0]["verdict"] != "cannot be tested"
    assert told["claims"][0]["seeds"] == 2
    claims = json.loads((home / "out" / "claims.json").read_text())
    assert claims[0]["verdict"] == told["claims"][0]["verdict"]


def test_settings_are_tuned_on_validation(home, tmp_path):
    grid = ("--tune", "--models", "edgeformer-e", "--seeds", 1)
    args = [word for word in EDGES if word not in ("--models", "tfidf,edgeformer-e")]
    answer = call(*args, *grid, "-o", tmp_path / "out")
    assert answer.code == 0, answer.err
    record = json.loads((tmp_path / "out" / "edge-classification" / "record.json").read_text())
    assert len(record["trials"]) >= 2
    scores = [trial["score"] for trial in record["trials"]]
    best = record["trials"][scores.index(max(scores))]["tried"]
    (entry,) = record["entries"]
    assert {name: entry["settings"][name] for name in best} == best
    printed = call("report", tmp_path / "out", "-o", tmp_path / "page.html").out
    assert "1 finished run of 1 model on network" in printed
    assert f"{len(scores)} tuning trials" in printed


@pytest.mark.slow
def test_an_ablation_and_its_figures_share_runs(home, tmp_path):
    out = tmp_path / "out"
    one = (*TINY_RUNS, "-o", out)
    assert call("reproduce", "attention-map", *one).code == 0
    assert (out / "attention-map" / "attention-map.svg").read_text().startswith("<svg ")
    assert call("reproduce", "embedding-plot", *one).code == 0
    assert (out / "embedding-plot" / "embedding-plot.svg").is_file()
    before = (out / "runs" / "edgeformer-e" / "0" / "results.json").stat().st_mtime_ns
    rows = "edgeformer-e,edgeformer-e-without-source,edgeformer-n,edgeformer-n-without-local"
    answer = call("reproduce", "ablation", *one, "--seeds", 1, "--models", rows)
    assert answer.code == 0, answer.err
    assert "- source node token" in answer.out
    assert "- neighbor text token" in answer.out
    assert "ablation/links/test/full: " in answer.err
    assert (out / "runs" / "edgeformer-e" / "0" / "results.json").stat().st_mtime_ns == before
    answer = call("reproduce", "neighbor-size", *one, "--seeds", 1, "--values", "2,4")
    assert answer.code == 0, answer.err
    assert (out / "neighbor-size" / "mrr-full.svg").is_file()
    plan = Plan.read(out / "neighbor-size" / "plan.json")
    assert plan.runs[1].path.parent.name == "edgeformer-n"  # 4 is what the recipe reads
    nodes = call(
        "reproduce", "node-classification", *one, "--seeds", 1, "--models", "edgeformer-n,netmf"
    )
    assert nodes.code == 0, nodes.err
    assert "Node classification by logistic regression" in nodes.out
    assert nodes.out.count(" ± ") >= 6


def test_nodes_are_classified_by_a_table_of_labels(home, tmp_path):
    rows = [f"item-{i:06d},{'even' if i % 2 == 0 else 'odd|small'}" for i in range(40)]
    (tmp_path / "labels.csv").write_text("\n".join(["node,label", *rows]) + "\n")
    args = ("--labels", tmp_path / "labels.csv", "--models", "netmf", "-o", tmp_path / "out")
    answer = call("reproduce", "node-classification", *TINY_RUNS, *args, "--seeds", 1)
    assert answer.code == 0, answer.err
    assert "MF" in answer.out


def test_the_time_of_models_is_measured(home, tmp_path):
    rows = ("--models", "bert-gin,edgeformer-n", "--rounds", 1)
    answer = call("reproduce", "efficiency", *TINY_RUNS, *rows, "-o", tmp_path / "out")
    assert answer.code == 0, answer.err
    assert "Milliseconds per mini-batch of 25 nodes" in answer.out
    record = json.loads((tmp_path / "out" / "efficiency" / "record.json").read_text())
    times = record["entries"][0]["metrics"]
    assert set(times) == {"train", "inference"}
    assert all(value > 0 for part in times.values() for value in part.values())
    assert times["train"]["2/low"] <= times["train"]["2"] <= times["train"]["2/high"]
    assert {test["best"] for test in record["claim_tests"]} == {"edgeformer-n"}
    again = call("reproduce", "tables", tmp_path / "out")
    assert again.out == answer.out


def test_the_tables_of_a_document_are_updated(home, tmp_path, monkeypatch):
    shutil.copy(home / "out" / "edge-classification" / "record.json", tmp_path / "net.json")
    (tmp_path / "page.md").write_text("<!-- table: net from net.json -->\n<!-- end -->\n")
    monkeypatch.chdir(tmp_path)
    answer = call("reproduce", "tables", "--document", "page.md")
    assert (answer.code, answer.out) == (0, "page.md has new tables\n")
    assert "| TF-IDF |" in (tmp_path / "page.md").read_text()
    assert "up to date" in call("reproduce", "tables", "--document", "page.md").out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["edge-clasification", "--data", "network"], "'edge-clasification'"),
        (["ablation"], "--data NETWORK"),
        (["ablation", "--data", "nothing"], "nothing"),
        (["ablation", "out", "--data", "network"], "'tables'"),
        (["tables"], "FOLDER"),
        (["tables", "network"], "network"),
        (["tables", "out", "--format", "latx"], "'latx'; did you mean 'latex'?"),
        (["ablation", "--data", "network", "--values", "2,x"], "--values"),
        (["ablation", "--data", "network", "--values", "2"], "--values"),
        (["node-dimension", "--data", "network", "--values", "4,0"], "--values"),
        (["ablation", "--data", "network", "--models", "brt"], "'brt'"),
        (["ablation", "--data", "network", "--seeds", "0"], "seeds"),
        (["ablation", "--data", "network", "--published", "amazon"], "'amazon'"),
        (["ablation", "--data", "network", "--recipe", "papr"], "'papr'"),
        (["efficiency", "--data", "network", "--rounds", "0"], "rounds"),
        (["efficiency", "--data", "network", "--tune"], "tune"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, tmp_path, args, words):
    answer = call("reproduce", *args, "-o", tmp_path / "new", "--quiet", "--no-estimate")
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_runs_with_other_settings_are_refused_before_training(home):
    answer = call(*EDGES, "-o", "out", "--set", "train.lr=1e-3")
    assert answer.code == 2
    assert "out/runs/edgeformer-e/0" in answer.err


def test_the_examples_in_the_help_work(edgeformers):
    run_examples("reproduce", until="On a dataset")
