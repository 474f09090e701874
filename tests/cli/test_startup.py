"""Commands that use a trained run import little more than torch."""

import shutil
import subprocess
import sys

import pytest

#: What takes long to import. `predict` reads its table with DuckDB.
HEAVY = (
    "numba pandas scipy sklearn transformers jinja2 matplotlib torch._dynamo edgeformers.training"
)
COMMANDS = [
    "recommend run-links user-000003 -k 3",
    "recommend run-links user-000003 --explain 2",
    "recommend no-index user-000003 --explain 2",
    "recommend run-links --likes item-000001=Sturdy. --explain 2",
    "recommend run-links --all -o all.parquet",
    "predict run-edges new.csv -o predictions.csv",
    "evaluate run-edges",
    "evaluate run-links",
    "embed run-edges --edges -o edges.parquet",
    "embed no-index --nodes -o nodes.parquet",
]


@pytest.fixture(scope="module")
def runs(trained, tmp_path_factory):
    """A folder with the trained runs, and one whose index was removed."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("run-edges", "run-links"):
        shutil.copytree(trained / name, folder / name)
    shutil.copytree(trained / "run-links", folder / "no-index")
    shutil.rmtree(folder / "no-index" / "index")
    (folder / "new.csv").write_text("source,target,text\nada,tent,Too small for two.\n")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(command, runs):
    program = (
        f"import atexit, sys; sys.argv[1:] = {command.split()}; heavy = {HEAVY.split()}\n"
        "atexit.register(lambda: print(*(m for m in heavy if m in sys.modules), file=sys.stderr))\n"
        "from edgeformers.cli import run; run()"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=runs, capture_output=True, text=True, check=True
    )
    assert answer.stderr.splitlines()[-1:] in ([], [""])
