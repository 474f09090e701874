"""Commands that use a trained run import little more than torch."""

import subprocess
import sys

import pytest

#: What takes long to import. `predict` reads its table with DuckDB.
HEAVY = "numba pandas scipy sklearn transformers jinja2 matplotlib edgeformers.training"
COMMANDS = {
    "recommend": ("recommend", "run-links", "user-000003", "-k", "3"),
    "predict": ("predict", "run-edges", "new.csv", "-o", "predictions.csv"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(name, home, tmp_path):
    (tmp_path / "new.csv").write_text("source,target,text\nada,tent,Too small for two.\n")
    command = [str(home / word) if word.startswith("run-") else word for word in COMMANDS[name]]
    program = (
        f"import atexit, sys; sys.argv[1:] = {command}; heavy = {HEAVY.split()}\n"
        "atexit.register(lambda: print(*(m for m in heavy if m in sys.modules), file=sys.stderr))\n"
        "from edgeformers.cli import run; run()"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answer.stderr.strip() == ""
