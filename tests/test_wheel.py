"""The wheel: complete, and enough to start with in an environment without extras."""

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.wheel_environment import ROOT, build_wheel, make_environment

pytestmark = pytest.mark.slow

REVIEWS = """
import pyarrow.csv, edgeformers
names = {"source": "user", "target": "product", "text": "review", "label": "stars"}
table = edgeformers.simulate(num_edges=600, seed=0).table.to_arrow().select(list(names))
pyarrow.csv.write_csv(table.rename_columns(list(names.values())), "reviews.csv")
"""
NEW = "user,product,review\nuser-000003,item-000001,My tent is fine.\n"
#: What needs an extra: the extra, and arguments of the program.
NEEDS = {
    "a backbone": ("minilm", "train edge-classification network -o new --backbone minilm"),
    "the default backbone": ("minilm", "train link-prediction network -o new"),
    "a tokenizer": ("minilm", "prepare reviews.csv -o new --tokenizer minilm"),
    "LoRA": (
        "lora",
        "train edge-classification network -o new --backbone scratch:2x32 --set train.lora_rank=4",
    ),
    "Ray": ("ray", "embed stars --edges -o new.parquet --engine ray"),
    "a server": ("serve", "serve stars"),
    "TensorBoard": (
        "tensorboard",
        "train edge-classification network -o new --backbone scratch:2x32 --log-to tensorboard",
    ),
}
CALLS = {
    "pandas": "edgeformers.read_edges('simple.csv').to_pandas()",
    "pyg": "from edgeformers.data.interop import table_to_pyg; table_to_pyg(None)",
}


def tutorial_commands(until):
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8").partition(until)[0]
    return re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)


def shell(folder, commands):
    path = f"{folder / 'env/bin'}:{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PATH": path}
    return subprocess.run(
        ["bash", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_wheel_contains_every_file_of_the_package(tmp_path):
    names = zipfile.ZipFile(build_wheel(tmp_path)).namelist()
    files = {path for path in (ROOT / "edgeformers").rglob("*") if path.is_file()}
    assert {name for name in names if ".dist-info/" not in name} == {
        path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts
    }


def test_a_plain_install_is_enough_to_start(tmp_path):
    """One test, because its environment and its runs take long to make."""
    home = tmp_path / "home"
    python = make_environment(home / "env", build_wheel(tmp_path))
    subprocess.run([python, "-c", REVIEWS], cwd=home, check=True)
    (home / "new.csv").write_text(NEW, encoding="utf-8")
    (home / "simple.csv").write_text("source,target,text\na,b,c\n", encoding="utf-8")
    for commands in tutorial_commands(until="## 5."):
        answer = shell(home, commands)
        assert answer.returncode == 0, answer.stderr
    assert len((home / "predictions.csv").read_text(encoding="utf-8").splitlines()) == 2
    where = shell(home, "python -c 'import edgeformers; print(edgeformers.__file__)'").stdout
    assert Path(where.strip()).is_relative_to(home)
    for extra, command in NEEDS.values():
        check_that_it_names_the_extra(home, extra, command)
    for extra, call in CALLS.items():
        answer = shell(home, f'python -c "import edgeformers; {call}"')
        assert f"edgeformers[{extra}]" in answer.stderr.splitlines()[-1]
    answer = shell(home, "edgeformers report stars -o report.html")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "edgeformers[plots]" in (home / "report.html").read_text(encoding="utf-8")


def check_that_it_names_the_extra(home, extra, command):
    before = sorted(home.iterdir())
    answer = shell(home, f"edgeformers {command}")
    assert answer.returncode == 2
    assert f"edgeformers[{extra}]" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert sorted(home.iterdir()) == before  # nothing was written
