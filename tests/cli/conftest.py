import contextlib
import io
import sys
from dataclasses import dataclass

import pytest

from edgeformers.cli.main import run


@dataclass
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def edgeformers(monkeypatch, tmp_path):
    """Run the program within the test, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*args):
        out, err, code = io.StringIO(), io.StringIO(), 0
        monkeypatch.setattr(sys, "argv", ["edgeformers", *map(str, args)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                run()
            except SystemExit as stopped:
                code = stopped.code or 0
        return Answer(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def edges(tmp_path):
    """A small table in the folder where the program runs."""
    rows = (f"u{i % 5},i{i % 3},text number {i},{i % 2}" for i in range(20))
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,text,label", *rows]) + "\n")
    return "edges.csv"
