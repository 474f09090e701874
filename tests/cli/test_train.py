import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgeformers.inference.model_card import VERDICT
from edgeformers.report.verdict import read_verdict
from tests.cli.commands import run_examples
from tests.cli.conftest import TINY, call

TRAIN = ("train", "edge-classification", "network")


def test_a_run_folder_has_config_log_model_and_results(home):
    for name in ("config.toml", "run.json", "metrics.jsonl", "results.json", "model/config.json"):
        assert (home / "run-edges" / name).is_file()
    results = json.loads((home / "run-edges" / "results.json").read_text())
    assert 0 <= results["test"]["macro_f1"] <= 1
    links = json.loads((home / "run-links" / "results.json").read_text())
    assert links["test"]["full/mrr"] > 0


def test_all_files_follow_the_umask(home):
    umask = os.umask(0o022)
    os.umask(umask)
    modes = {
        path.relative_to(home).as_posix(): path.stat().st_mode & 0o777
        for path in home.rglob("*")
        if path.is_file()
    }
    assert {name: mode for name, mode in modes.items() if mode != 0o666 & ~umask} == {}


def test_a_finished_run_is_not_trained_again(home):
    before = (home / "run-edges" / "results.json").stat().st_mtime_ns
    answer = call(*TRAIN, "-o", "run-edges", *TINY)
    assert answer.code == 0
    assert answer.out.startswith("run-edges was already finished\n")
    assert "test part of the split edge=random:\n  macro_f1" in answer.out
    assert "edgeformers predict run-edges EDGES.csv" in answer.out
    assert (home / "run-edges" / "results.json").stat().st_mtime_ns == before


def test_json_is_the_only_output(home):
    answer = call(*TRAIN, "-o", "run-edges", *TINY, "--json")
    told = json.loads(answer.out)
    assert (told["run"], told["task"]) == ("run-edges", "edge-classification")
    assert told["results"] == json.loads((home / "run-edges" / "results.json").read_text())


def test_an_input_ablation_tells_whether_graph_and_text_help(home):
    answer = call(*TRAIN, "-o", "run-edges", *TINY, "--judge")  # the old name
    assert answer.code == 0, answer.err
    stored = read_verdict(home / "run-edges")
    assert stored.sentence in answer.out
    assert {answer.question for answer in stored.answers} >= {"text", "graph"}
    told = json.loads(call(*TRAIN, "-o", "run-edges", *TINY, "--json").out)["verdict"]
    assert told == json.loads((home / "run-edges" / VERDICT).read_text())


def test_every_command_gives_the_stored_answer(home, tmp_path):
    """Not one of its own, whatever else it compares."""
    run = shutil.copytree(home / "run-links", tmp_path / "run")
    train = ("train", "link-prediction", "network", "-o", run, *TINY)
    for command in (train, ("evaluate", run), ("report", run, "-o", tmp_path / "page.html")):
        assert "helps:" not in call(*command).out
    assert f"evaluate {run} --ablate-inputs" in call("evaluate", run).out
    assert call("evaluate", run, "--ablate-inputs").code == 0
    sentence = read_verdict(run).sentence
    for command in (train, ("evaluate", run), ("report", run, "-o", tmp_path / "page.html")):
        printed = call(*command).out
        assert sentence in printed
        assert printed.count("The text ") == 1
    assert sentence in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_split_without_test_edges_is_reported(edgeformers):
    split = ("--edges", 300, "--split", "edge=random:0.8/0.2/0.0", "--quiet")
    assert edgeformers("prepare", "simulated", "-o", "network", *split).code == 0
    answer = edgeformers(*TRAIN, "-o", "run", *TINY)
    assert answer.code == 0, answer.err
    assert "no test edges" in answer.out


def test_a_run_that_was_trained_but_not_evaluated_is_evaluated(home, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", home / "run-edges", copy], check=True)
    (copy / "results.json").unlink()
    answer = call(*TRAIN, "-o", copy, *TINY)
    assert answer.code == 0, answer.err
    again = json.loads((copy / "results.json").read_text())
    assert again == json.loads((home / "run-edges" / "results.json").read_text())


def test_a_run_is_repeated_from_its_config(home, tmp_path):
    out = tmp_path / "again"
    answer = call(*TRAIN, "-o", out, "--config", "run-edges/config.toml", "--quiet")
    assert answer.code == 0, answer.err
    assert (out / "config.toml").read_text() == (home / "run-edges" / "config.toml").read_text()
    first, second = (
        json.loads((run / "results.json").read_text()) for run in (home / "run-edges", out)
    )
    assert first["test"]["macro_f1"] == pytest.approx(second["test"]["macro_f1"], abs=0.02)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "edge-clasification", "network"], "'edge-clasification'; did you mean"),
        (["train", "link-prediction", "nothing"], "nothing is not"),
        ([*TRAIN, "--recipe", "quick"], "'quick'"),
        ([*TRAIN, "--set", "train.lrr=1"], "'lrr'"),
        ([*TRAIN, "--set", "train.lr"], "(got 'train.lr')"),
        ([*TRAIN, "--set", "train.epochs=many"], "train.epochs"),
        ([*TRAIN, "--config", "nothing.toml"], "nothing.toml"),
        ([*TRAIN, "--config", "run-links/config.toml"], "link-prediction"),
        ([*TRAIN, "--device", "gpu"], "'gpu'"),
        ([*TRAIN, "--backbone", "scratch:1x1"], "scratch"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, tmp_path, args, words):
    answer = call(*args, "-o", tmp_path / "run", "--quiet")
    assert answer.code == 2
    assert answer.out == ""
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_a_folder_of_another_run_or_other_files_is_refused(home, tmp_path):
    other = call(*TRAIN, "-o", "run-edges", *TINY, "--seed", 5)
    assert other.code == 2
    assert "run-edges/config.toml" in other.err
    made = call("prepare", "simulated", "-o", tmp_path / "net", "--edges", 300, "--quiet")
    assert made.code == 0
    network = call("train", "edge-classification", tmp_path / "net", "-o", "run-edges", *TINY)
    assert network.code == 2
    assert "another network" in network.err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    mine = call(*TRAIN, "-o", tmp_path / "mine", *TINY)
    assert mine.code == 2
    assert str(tmp_path / "mine") in mine.err


def test_a_folder_killed_while_its_first_file_was_written_is_reused(home, tmp_path):
    left = tmp_path / "cut" / ".run.json.4711"  # run.json, before it took its name
    left.parent.mkdir()
    left.write_text('{"task": "edge-cl')
    answer = call(*TRAIN, "-o", left.parent, *TINY)
    assert answer.code == 0, answer.err
    assert not left.exists()


@pytest.mark.slow
def test_a_run_continues_from_an_earlier_one(home, tmp_path):
    made = call(
        *("train", "link-prediction", "network", "-o", tmp_path / "next"),
        *("--from", "run-links", "--quiet", "--json"),
    )
    assert made.code == 0, made.err
    assert json.loads(made.out)["results"]["test"]["full/mrr"] > 0
    config = (tmp_path / "next" / "config.toml").read_text()
    assert f'start_from = "{home / "run-links"}"' in config
    again = call(
        *("train", "link-prediction", "network", "-o", tmp_path / "next", "--quiet"),
        *("--config", tmp_path / "next" / "config.toml"),
    )
    assert again.code == 0, again.err
    for task in ("edge-classification", "link-prediction"):  # another task, another recipe
        options = ("-o", tmp_path / "no", "--from", "run-links", "--recipe", "paper")
        failed = call("train", task, "network", *options)
        assert failed.code == 2
        assert "run-links" in failed.err
        assert not (tmp_path / "no").exists()


def test_several_processes_print_once(home, tmp_path):
    options = ["--nproc-per-node", "2", "--master-port", "0", "--standalone"]
    command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "edgeformers.cli"]
    args = [*TRAIN, "-o", tmp_path / "run", *TINY, "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    answer = subprocess.run(
        [*command, *map(str, args)], capture_output=True, text=True, env=environment
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["run"] == str(tmp_path / "run")


def test_the_examples_in_the_help_work(edgeformers):
    run_examples("train", skip=("torchrun",))


@pytest.mark.slow
def test_a_killed_run_resumes_and_gives_the_same_results(home, tmp_path):
    slow = [*TINY[:-1], "train.epochs=4", "--set", "train.checkpoint_every=3", "--seed", "3"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert call(*TRAIN, "-o", whole, *slow).code == 0
    program = [sys.executable, "-m", "edgeformers.cli", *TRAIN, "-o", str(cut), *slow]
    process = subprocess.Popen(program)
    deadline = time.monotonic() + 120
    while len(list(cut.glob("checkpoints/step-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (cut / "results.json").exists()
    answer = call(*TRAIN, "-o", cut, *slow)
    assert answer.code == 0, answer.err
    found = [json.loads((run / "results.json").read_text())["test"] for run in (whole, cut)]
    assert found[0]["macro_f1"] == pytest.approx(found[1]["macro_f1"], abs=1e-6)


@pytest.fixture
def net(home, tmp_path):
    """The network, to be damaged."""
    return shutil.copytree(home / "network", tmp_path / "net")


def flip(path):
    """One bit, somewhere in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name",
    [
        "src.npy",
        "labels.npy",
        "adjacency.links.npy",
        "splits/edge.npy",
        "texts.parquet",
        "nodes.parquet",
        "edges.parquet",
    ],
)
def test_a_network_with_a_flipped_bit_is_refused(home, net, tmp_path, name):
    flip(net / name)
    for command in (
        ("train", "edge-classification", net, "-o", tmp_path / "run", *TINY),
        ("evaluate", "run-edges", "--network", net),
        ("recommend", "run-links", "user-000001", "--network", net),
        ("embed", "run-links", "--nodes", "-o", tmp_path / "nodes.parquet", "--network", net),
    ):
        answer = call(*command, "--quiet")
        assert answer.code == 2, command
        assert f"{net / name} is damaged" in answer.err
        assert answer.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["edges.ids.npy", "edges.offsets.npy", "tokenizer.json"])
def test_tokens_with_a_flipped_bit_are_refused(net, tmp_path, name):
    for path in net.glob(f"tokens/*/{name}"):  # whichever the backbone takes
        flip(path)
    answer = call("train", "edge-classification", net, "-o", tmp_path / "run", *TINY)
    assert answer.code == 2
    assert f"{name} is damaged" in answer.err


@pytest.mark.parametrize("task", ["link-prediction", "edge-classification"])
def test_a_test_part_with_a_single_source_has_no_interval(tmp_path, monkeypatch, task):
    monkeypatch.chdir(tmp_path)
    rows = ["source,target,text,time,label"]
    for at in range(60):
        source = f"u{at % 5}" if at < 40 else "last"
        rows.append(f"{source},t{at % 7},fine {at % 3},2020-01-{1 + at // 2:02},{at % 2}")
    Path("edges.csv").write_text("\n".join(rows))
    columns = [word for name in ("label", "time") for word in (f"--{name}", name)]
    assert call("prepare", "edges.csv", "-o", "network", *columns, "--quiet").code == 0
    answer = call("train", task, "network", "-o", "run", *TINY, "--set", "data.split=chronological")
    assert answer.code == 0, answer.err
    assert "nan" not in answer.out + call("evaluate", "run").out
    assert call("report", "run", "-o", "report.html").code == 0
