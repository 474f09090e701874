"""Measure start-up: importing the package, the help, and commands on a small trained run.

    python -m benchmarks.startup
    python -m benchmarks.startup --python before=OLD/bin/python --python after=NEW/bin/python

Every program runs once to warm the caches of the disk, of Python and of numba, then `--rounds`
times, all of them in turn. Printed are medians of seconds and of CPU seconds, which depend less on
what else runs on the machine. `python -c "import torch"` is measured in the same rounds: nothing
that uses a model can start faster. Commands run with one thread.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import machine, print_table

CLI = ("-m", "edgeformers.cli")
EMBEDDED = "nodes.parquet"  # removed before each run
TORCH = "import torch"
#: A program by name: arguments of Python.
PROGRAMS = {
    TORCH: ("-c", "import torch"),
    "import edgeformers": ("-c", "import edgeformers"),
    "edgeformers --help": (*CLI, "--help"),
    "recommend": (*CLI, "recommend", "links", "user-000003", "-k", "3"),
    "recommend --explain 2": (*CLI, "recommend", "links", "user-000003", "--explain", "2"),
    "predict": (*CLI, "predict", "stars", "new.csv", "-o", "predictions.csv"),
    "evaluate": (*CLI, "evaluate", "stars"),
    "embed": (*CLI, "embed", "links", "--nodes", "-o", EMBEDDED),
    "report": (*CLI, "report", "stars", "links", "-o", "report.html"),
}
COLUMNS = ("wall", "wall - torch", "CPU", "CPU - torch")
#: Text counts in the link score, so that recommending has to encode texts.
TRAINING = (
    *("--backbone", "scratch:2x64", "--recipe", "fast", "--quiet"),
    *("--set", "train.lr=1e-3", "--set", "train.epochs=1"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--edges", type=int, default=2_000)
    parser.add_argument(
        "--python", action="append", metavar="NAME=PATH", help="an interpreter; repeatable"
    )
    options = parser.parse_args()
    given = options.python or [f"seconds={sys.executable}"]
    pythons = dict(each.split("=", 1) for each in given)
    print(machine())
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: Path(temporary) / name for name in pythons}
        for name, python in pythons.items():
            train(python, folders[name], options.edges)
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for number in range(options.rounds + 1):
            for program, arguments in PROGRAMS.items():
                for name, python in pythons.items():
                    measured = run([python, *arguments], folders[name])
                    if number:  # the first one warms up
                        taken.setdefault((program, name), []).append(measured)
    print_table("Start-up", *table(taken, list(pythons)))


def table(
    taken: dict[tuple[str, str], list[tuple[float, float]]], names: list[str]
) -> tuple[list[str], list[list[str]]]:
    head = ["", *(f"{name}, {kind}" for name in names for kind in COLUMNS)]
    rows = []
    for program in PROGRAMS:
        row = [program]
        for name in names:
            wall, cpu = map(statistics.median, zip(*taken[program, name], strict=True))
            wall_torch, cpu_torch = map(statistics.median, zip(*taken[TORCH, name], strict=True))
            row += [f"{wall:.2f}", f"{wall - wall_torch:+.2f}"]
            row += [f"{cpu:.2f}", f"{cpu - cpu_torch:+.2f}"]
        rows.append(row)
    return head, rows


def train(python: str, folder: Path, edges: int) -> None:
    """A network and a run of each task in a folder."""
    folder.mkdir(parents=True)
    new = "source,target,text\nada,tent,Too small for two.\n"
    (folder / "new.csv").write_text(new, encoding="utf-8")
    prepare = ("prepare", "simulated", "-o", "network", "--edges", str(edges), "--quiet")
    run([python, *CLI, *prepare, "--tokenizer", "train:8000"], folder)
    for task, out in (("edge-classification", "stars"), ("link-prediction", "links")):
        ensemble = ("--set", "links.ensemble=false") if out == "links" else ()
        run([python, *CLI, "train", task, "network", "-o", out, *TRAINING, *ensemble], folder)


def run(command: list[str], folder: Path) -> tuple[float, float]:
    """Run a program; its seconds and CPU seconds."""
    (folder / EMBEDDED).unlink(missing_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode
    started = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}: {errors.read().decode()}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
