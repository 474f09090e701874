import contextlib
import io
import sys
from dataclasses import dataclass

import pytest

from edgeformers.cli.main import run

#: Settings that make a run in seconds, whatever it learns.
TINY = ("--backbone", "scratch:2x32", "--recipe", "fast", "--quiet", "--set", "train.epochs=1")


@dataclass
class Answer:
    code: int
    out: str
    err: str


def call(*args):
    """Run the program within this process, in the folder where it stands."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["edgeformers", *map(str, args)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                run()
            except SystemExit as stopped:
                code = stopped.code or 0
    return Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture
def edgeformers(monkeypatch, tmp_path):
    """Run the program within the test, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return call


@pytest.fixture
def edges(tmp_path):
    """A small table in the folder where the program runs."""
    rows = (f"u{i % 5},i{i % 3},text number {i},{i % 2}" for i in range(20))
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,text,label", *rows]) + "\n")
    return "edges.csv"


@pytest.fixture
def home(trained, monkeypatch):
    """The folder of trained runs, entered."""
    monkeypatch.chdir(trained)
    return trained
