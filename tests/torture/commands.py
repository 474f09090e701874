"""The commands that write for long, on tiny networks, and what must not change between runs."""

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shlex import split

from edgeformers.data.simulate import simulate
from edgeformers.training.checkpoint import latest_checkpoint, load_checkpoint
from edgeformers.training.runlog import read_log
from tests.data.folders import contents
from tests.torture.faults import failing_writes
from tests.torture.program import call

SETTINGS = {
    "train.epochs": "2",
    "train.batch_size": "24",
    "train.checkpoint_every": "2",
    "train.keep_checkpoints": "1",
    "data.source_neighbors": "[2]",
    "data.target_neighbors": "[2]",
}
TRAIN = ["--backbone", "scratch:2x64", "--recipe", "fast", "--quiet"]
TRAIN += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
PREPARE = split("prepare edges.csv --label label --tokenizer train:300 --quiet -o out")
REPRODUCE = split("reproduce edge-classification --data net -o out --seeds 1 --no-estimate")


def training_steps(folder: Path) -> int:
    """Steps that a resumed training does not repeat."""
    if (folder / "out" / "model").is_dir():  # there are no more checkpoints
        return sys.maxsize
    newest = latest_checkpoint(folder / "out" / "checkpoints")
    return load_checkpoint(newest)["progress"]["step"] if newest else 0


def embedded_chunks(folder: Path) -> int:
    return len([*folder.glob(".out.parquet.parts/0*.parquet")])


def finished_runs(folder: Path) -> int:
    return len([*folder.glob("out/runs/*/*/results.json")])


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that writes `out` from inputs of the laboratory."""

    args: list[str]
    inputs: tuple[str, ...]
    out: str = "out"
    finished: str = ""  # a file below the output that is written last
    progress: Callable[[Path], int] = lambda folder: 0  # never falls, until it is finished

    def is_finished(self, folder: Path) -> bool:
        return (folder / self.out / self.finished).exists()


EDGES, LINKS = "edge-classification", "link-prediction"
_TRAIN = {"inputs": ("net",), "finished": "results.json", "progress": training_steps}
_EMBED = {"out": "out.parquet", "progress": embedded_chunks}
COMMANDS: Mapping[str, Command] = {
    "prepare": Command(args=PREPARE, inputs=("edges.csv",)),
    "prepare --overwrite": Command(
        args=[*PREPARE, "--overwrite"], inputs=("edges.csv", "older"), finished="never"
    ),
    "train edges": Command(args=["train", EDGES, "net", "-o", "out", *TRAIN], **_TRAIN),
    "train links": Command(args=["train", LINKS, "net", "-o", "out", *TRAIN], **_TRAIN),
    "embed edges": Command(
        args=split("embed runs/edges --edges -o out.parquet --quiet"),
        inputs=("tokenized", "runs"),
        **_EMBED,
    ),
    "embed nodes": Command(
        args=split("embed runs/links --nodes -o out.parquet --quiet"),
        inputs=("tokenized", "runs"),
        **_EMBED,
    ),
    "report": Command(
        args=split("report runs -o out.html"), inputs=("tokenized", "runs"), out="out.html"
    ),
    "reproduce": Command(
        args=[*REPRODUCE, "--models", "tfidf,edgeformer-e", *TRAIN],
        inputs=("net",),
        finished="claims.json",
        progress=finished_runs,
    ),
}
VARIANTS: list[tuple[str, ...]] = [  # of the same command
    ("prepare", "prepare --overwrite"),
    ("train edges", "train links"),
    ("embed edges", "embed nodes"),
    ("report",),
    ("reproduce",),
]
NAMES = {"older": "out", "tokenized": "net"}  # of inputs, where the command expects them


@cache
def laboratory() -> Path:
    """A folder with every input, and `here`, in which commands run: paths never differ."""
    root = Path(tempfile.mkdtemp(prefix="torture-"))
    here = root / "here"
    here.mkdir()
    _write_table(here / "edges.csv", seed=1, num_edges=100)
    _must(PREPARE, here)
    shutil.copytree(here / "out", root / "older")
    _write_table(root / "edges.csv", seed=0, num_edges=300)
    _must(split("prepare simulated --edges 150 --tokenizer none --quiet -o net"), here)
    shutil.copytree(here / "net", root / "net")
    for task, name in ((EDGES, "edges"), (LINKS, "links")):
        _must(["train", task, "net", "-o", f"runs/{name}", *TRAIN], here)
    shutil.copytree(here / "net", root / "tokenized")
    shutil.copytree(here / "runs", root / "runs")
    return root


def enter(command: Command) -> Path:
    """The folder in which commands run, with nothing but the inputs of this one."""
    here = empty()
    here.mkdir()
    place_inputs(command)
    return here


def empty() -> Path:
    """The folder in which commands run, which does not exist now."""
    here = laboratory() / "here"
    shutil.rmtree(here)
    return here


def place_inputs(command: Command) -> None:
    """Copy the inputs of a command to the folder in which it runs."""
    for name in command.inputs:
        source = laboratory() / name
        target = laboratory() / "here" / NAMES.get(name, name)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)


@cache
def undisturbed(name: str) -> tuple[float, dict[str, object]]:
    """Seconds and results of a command that nothing disturbs."""
    command = COMMANDS[name]
    folder = enter(command)
    ended = call(command.args, folder)
    if ended.code != 0:
        raise RuntimeError(f"{name}: {ended.output}")
    return ended.seconds, results(folder)


@cache
def count_writes(name: str) -> int:
    """How often a command writes."""
    folder = enter(COMMANDS[name])
    count = folder.with_name("writes.txt")
    call(COMMANDS[name].args, folder, within=_counted_writes(folder, count))
    return int(count.read_text())


@contextmanager
def _counted_writes(folder: Path, count: Path) -> Iterator[None]:
    with failing_writes(folder) as disk:
        try:
            yield
        finally:  # the program ends with SystemExit
            count.write_text(str(disk.writes))


def results(folder: Path) -> dict[str, object]:
    """All files below a folder by path, without the times that differ between equal runs."""
    files = contents(folder)
    return {name: _without_times(folder / name, content) for name, content in files.items()}


def differences(folder: Path, expected: Mapping[str, object]) -> str:
    """Which files are missing, left behind or different; empty if there are none."""
    found = results(folder)
    kinds = {
        "missing": expected.keys() - found.keys(),
        "left behind": found.keys() - expected.keys(),
        "different": {name for name in expected.keys() & found if expected[name] != found[name]},
    }
    return "; ".join(
        f"{kind}: {', '.join(sorted(names))}" for kind, names in kinds.items() if names
    )


def _without_times(path: Path, content: bytes) -> object:
    if path.name == "metrics.jsonl":
        return [event for event in read_log(path) if event["kind"] != "speed"]
    if path.suffix == ".json":
        return _drop_seconds(json.loads(content))
    if path.name in ("tables.md", "tables.txt"):
        return [line for line in content.decode().splitlines() if "s in total" not in line]
    return content


def _drop_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {name: _drop_seconds(v) for name, v in value.items() if "seconds" not in name}
    return [_drop_seconds(v) for v in value] if isinstance(value, list) else value


def _write_table(path: Path, *, seed: int, num_edges: int) -> None:
    rows = simulate(num_edges=num_edges, seed=seed).table.to_arrow().to_pylist()
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["source", "target", "text", "label"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def _must(args: list[str], folder: Path) -> None:
    ended = call(args, folder)
    if ended.code != 0:
        raise RuntimeError(f"{' '.join(args)}: {ended.output}")
