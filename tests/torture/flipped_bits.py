"""One flipped bit in any file of a network, then `train`: detected, or without any effect."""

import atexit
import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal, get_args

from edgeformers.config import RunConfig, Task, make_config
from edgeformers.data.card.describe import describe
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.prepare import prepare
from edgeformers.report.card_page import write_card
from edgeformers.runs import train_run
from tests.torture.outcome import Outcome, observe_forked

#: When the bit is flipped: before anything read the network, after its checksums were verified
#: (with the times of the file restored), or after the run was finished.
When = Literal["at first", "once verified", "once finished"]
HEADER = 128  # bytes at the start of an array
TASKS: tuple[Task, ...] = get_args(Task)
SETTINGS = {
    "model.backbone": "scratch:2x16",
    "model.node_width": 8,
    "data.max_tokens": 16,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "edges.ensemble": False,
    "links.ensemble": False,
    "train.epochs": 1,
}


@dataclass(frozen=True)
class Case:
    """One bit of one file; `place` is a share of the bits of the file, or of its header."""

    number: int
    file: float  # a share of the files
    place: float
    in_header: bool
    when: When
    task: Task


def cases(seed: int = 0) -> Iterator[Case]:
    """Endless flipped bits, spread evenly over files; the same for the same seed."""
    rng = random.Random(seed)
    for number in count():
        yield Case(
            number=number,
            file=rng.random(),
            place=rng.random(),
            in_header=rng.random() < 0.3,
            when=rng.choices(get_args(When), (6, 3, 1))[0],
            task=rng.choice(TASKS),
        )


def run(case: Case) -> Outcome:
    """Train on a copy of the network with the flipped bit; compare with the undamaged one."""
    network, expected = _undamaged()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = folder / "net"
        shutil.copytree(network, copy)
        if case.when == "once finished":
            shutil.copytree(network.parent / case.task, folder / "run")

        def train() -> str | None:
            if case.when == "once verified":
                EdgeTextGraph.open(copy).verify()
            file = _flip(copy, case)
            results = train_run(copy, folder / "run", _config(case.task), show=False)
            if results != expected[case.task]:
                return f"other results after a flipped bit in {file}"
            return None

        return observe_forked(train, max_seconds=60.0, max_bytes=4 << 30, timeout=90.0)


def _flip(network: Path, case: Case) -> str:
    """Flip the bit and restore the times of the file; returns its name."""
    files = sorted(path for path in network.rglob("*") if path.is_file())
    path = files[int(case.file * len(files))]
    content = bytearray(path.read_bytes())
    size = min(HEADER, len(content)) if case.in_header else len(content)
    bit = int(case.place * size * 8)
    content[bit // 8] ^= 1 << bit % 8
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return path.relative_to(network).as_posix()


def _config(task: Task) -> RunConfig:
    return make_config(task, "fast", settings=SETTINGS)


@cache
def _undamaged() -> tuple[Path, dict[str, Any]]:
    """A network with a card and the tokens of its texts, and the results on it.

    It is made in another process, so that this one has no threads when it forks.
    """
    folder = Path(tempfile.mkdtemp(prefix="edgeformers-torture-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    network = folder / "net"

    def make() -> None:
        graph = prepare("simulated", network, num_edges=300, tokenizer=None, progress=False)
        write_card(describe(graph), network)
        for task in TASKS:
            train_run(network, folder / task, _config(task), show=False)

    made = observe_forked(make, max_seconds=300.0, max_bytes=8 << 30, timeout=300.0)
    assert made.kind == "accepted", made.detail
    results = {task: json.loads((folder / task / "results.json").read_bytes()) for task in TASKS}
    return network, results
