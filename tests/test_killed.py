"""Killed twenty times at random moments, each verb that works for long loses nothing.

The moments are spread over the time that the command takes when it is left alone; the same command
is started again after each, and in a new folder when it has come to its end.
"""

import csv
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgeformers.data.simulate import simulate
from edgeformers.training.checkpoint import latest_checkpoint, load_checkpoint
from edgeformers.training.runlog import read_log
from tests.data.folders import contents as all_contents

HOME = Path(__file__).parents[1]
KILLS = 20
TRAIN = ("--backbone", "scratch:2x64", "--recipe", "fast", "--quiet")
SETTINGS = (
    "train.epochs=2",
    "train.batch_size=24",
    "train.checkpoint_every=2",
    "train.keep_checkpoints=1",
    "data.source_neighbors=[2]",
    "data.target_neighbors=[2]",
)


@dataclass
class Ended:
    code: int | None  # None: it was killed
    seconds: float
    said: str


@pytest.fixture(scope="module")
def program():
    """Run a command in a folder, in a process of its own, killed after so many seconds."""
    command = [sys.executable, "-m", "tests.forked"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=HOME, env=environment, **pipes) as server:

        def call(folder, args, seconds=None):
            asked = {"args": list(args), "folder": str(folder), "seconds": seconds}
            print(json.dumps(asked), file=server.stdin, flush=True)
            answer = server.stdout.readline()
            assert answer, "the process that forks has ended"
            return Ended(**json.loads(answer))

        yield call
        server.stdin.close()


@dataclass
class Work:
    """A command, the folder it starts from, and how to tell that it has done its work there."""

    args: tuple[str, ...]
    start: Callable[[Path], object]  # fills a new folder
    is_done: Callable[[Path], bool]
    look: Callable[[Path], None]  # at what a killed process has left


def kill_often(program, work, tmp_path, seed):
    """The folder of a run left alone, and those of runs that were killed, all of them finished."""

    def fresh(name):
        folder = tmp_path / name
        folder.mkdir()
        work.start(folder)
        return folder

    for name in ("warm", "whole"):  # what is slow the first time does not count
        whole = fresh(name)
        alone = program(whole, work.args)
        assert alone.code == 0, alone.said
    draw = random.Random(seed)
    moments = [alone.seconds * (i + draw.random()) / KILLS for i in range(KILLS)]
    draw.shuffle(moments)
    folders, is_new = [fresh("killed-0")], True
    while moments:
        ended = program(folders[-1], work.args, moments[-1])
        if ended.code is None:
            moments.pop()
            work.look(folders[-1])
        else:
            assert ended.code == 0, ended.said
            if is_new:  # it was quicker than the one left alone
                moments[-1] = draw.uniform(0, ended.seconds)
        is_new = ended.code is not None or work.is_done(folders[-1])
        if is_new:
            folders.append(fresh(f"killed-{len(folders)}"))
    if not work.is_done(folders[-1]):
        ended = program(folders[-1], work.args)
        assert ended.code == 0, ended.said
    return whole, folders


def write_table(path, seed, num_edges=500):
    rows = simulate(num_edges=num_edges, seed=seed).table.to_arrow().to_pylist()
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["source", "target", "text", "label"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def contents(folder):
    """The files of a folder except the data card, which is written after the network."""
    files = all_contents(folder)
    cards = ("card.html", "card.json")
    return {name: file for name, file in files.items() if not name.endswith(cards)}


PREPARE = ("prepare", "edges.csv", "--label", "label", "--tokenizer", "train:300", "--quiet")


def network_files(folder):
    """The contents of a folder without the data card, which is derived and written afterwards."""
    return {
        name: content
        for name, content in contents(folder).items()
        if not Path(name).name.startswith("card.")
    }


def test_preparing(program, tmp_path):
    table = tmp_path / "edges.csv"
    write_table(table, seed=0)
    left = []

    def look(folder):  # the network is there whole, or not at all
        left.extend(folder.glob(".net.partial-*"))
        if (folder / "net").exists():
            assert network_files(folder / "net") == network_files(tmp_path / "whole" / "net")

    work = Work(
        args=(*PREPARE, "-o", "net"),
        start=lambda folder: shutil.copy(table, folder),
        is_done=lambda folder: (folder / "net").exists(),
        look=look,
    )
    whole, folders = kill_often(program, work, tmp_path, seed=1)
    assert left  # some were killed half way
    for folder in folders:  # one killed at its very end has left something for the next to remove
        again = program(folder, work.args)
        assert (again.code, again.said.split("; ")[0]) == (2, "error: net already exists")
        assert network_files(folder) == network_files(whole)


def test_preparing_over_an_older_network(program, tmp_path):
    table, older = tmp_path / "edges.csv", tmp_path / "older"
    older.mkdir()
    write_table(older / "edges.csv", seed=1, num_edges=200)
    assert program(older, (*PREPARE, "-o", "net")).code == 0
    write_table(table, seed=0)
    left = []

    def start(folder):
        shutil.copytree(older / "net", folder / "net")
        shutil.copy(table, folder)

    def look(folder):  # the old network or the new one; between the two, the next run has the old
        left.extend(folder.glob(".net.partial-*"))
        moved = [*folder.glob(".net.partial-*/net.replaced-*")]
        found = network_files(folder / "net" if (folder / "net").exists() else moved[0])
        assert found in (network_files(older / "net"), network_files(tmp_path / "whole" / "net"))

    work = Work(
        args=(*PREPARE, "-o", "net", "--overwrite"),
        start=start,
        is_done=lambda folder: False,
        look=look,
    )
    whole, folders = kill_often(program, work, tmp_path, seed=2)
    assert left
    for folder in folders:
        assert network_files(folder) == network_files(whole)


@pytest.fixture(scope="module")
def network(program, tmp_path_factory):
    """A folder with a network whose texts are not tokenised yet."""
    folder = tmp_path_factory.mktemp("network")
    args = ("prepare", "simulated", "--edges", "150", "--tokenizer", "none", "-o", "net", "--quiet")
    assert program(folder, args).code == 0
    return folder / "net"


def train_args(task, out):
    settings = (word for one in SETTINGS for word in ("--set", one))
    return ("train", task, "net", "-o", out, *TRAIN, *settings)


@pytest.mark.parametrize("task", ["edge-classification", "link-prediction"])
def test_training(program, network, tmp_path, task):
    steps: dict[Path, list[int]] = {}

    def look(folder):  # the last checkpoint is whole, and no step that was saved is lost
        newest = latest_checkpoint(folder / "run" / "checkpoints")
        noted = steps.setdefault(folder, [])
        noted.append(load_checkpoint(newest)["progress"]["step"] if newest else 0)
        assert noted == sorted(noted)

    work = Work(
        args=train_args(task, "run"),
        start=lambda folder: shutil.copytree(network, folder / "net"),
        is_done=lambda folder: (folder / "run" / "results.json").exists(),
        look=look,
    )
    whole, folders = kill_often(program, work, tmp_path, seed=3)
    assert any(map(any, steps.values()))  # some had something to go on from
    for folder in folders:
        assert outcome(folder) == outcome(whole)


def outcome(folder):
    """What a run has learned and said, the speed aside; and the network with its tokens."""
    run = folder / "run"
    names = ("config.toml", "results.json", "model/model.safetensors", "model/head.safetensors")
    learned = {name: (run / name).read_bytes() for name in names}
    log = [entry for entry in read_log(run / "metrics.jsonl") if entry["kind"] != "speed"]
    state = contents(latest_checkpoint(run / "checkpoints"))
    network = {name: file for name, file in contents(folder / "net").items() if "/." not in name}
    return learned, log, state, network


@pytest.mark.parametrize(
    ("task", "what"), [("edge-classification", "--edges"), ("link-prediction", "--nodes")]
)
def test_embedding(program, network, tmp_path, task, what):
    home = tmp_path / "trained"
    home.mkdir()
    shutil.copytree(network, home / "net")
    made = program(home, train_args(task, "run"))
    assert made.code == 0, made.said
    chunks: dict[Path, list[int]] = {}

    def look(folder):  # no chunk that was finished is lost
        if not (folder / "v.parquet").exists():
            noted = chunks.setdefault(folder, [])
            noted.append(len([*folder.glob(".v.parquet.parts/0*.parquet")]))
            assert noted == sorted(noted)

    work = Work(
        args=("embed", str(home / "run"), what, "-o", "v.parquet", "--quiet"),
        start=lambda folder: None,
        is_done=lambda folder: (folder / "v.parquet").exists(),
        look=look,
    )
    whole, folders = kill_often(program, work, tmp_path, seed=4)
    assert any(map(any, chunks.values()))
    for folder in folders:
        assert (folder / "v.parquet").read_bytes() == (whole / "v.parquet").read_bytes()
