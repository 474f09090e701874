"""The guide to data: its commands run, its options exist, its splits can be read."""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from edgeformers.cli.main import run
from edgeformers.data.edge_store import EdgeStore, StoredEdge
from edgeformers.data.splits import SplitConfig

GUIDE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(block.replace("\\\n", " "))
    for block in re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
]


def call(monkeypatch, *args):
    out = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["edgeformers", *args])
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            run()
        except SystemExit as stopped:
            return stopped.code or 0, out.getvalue()
    return 0, out.getvalue()


def test_the_commands_of_the_guide_run_in_order(tmp_path, monkeypatch):
    rows = (f"u{i % 7},p{i % 5},text {i},{1 + i % 5}" for i in range(30))
    (tmp_path / "reviews.csv").write_text("\n".join(["user,product,review,stars", *rows]) + "\n")
    (tmp_path / "products.csv").write_text("product,kinds,about\np0,a|b,a tent\np1,b,\n")
    with EdgeStore(tmp_path / "edges.sqlite") as store:
        store.append([StoredEdge(source="u1", target="p9", text="new")])
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) >= 4
    for program, *args in COMMANDS:
        assert program == "edgeformers"
        more = ["--tokenizer", "none"] if args[0] == "prepare" else []
        assert call(monkeypatch, *args, *more)[0] == 0


@pytest.mark.parametrize("option", sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", GUIDE))))
def test_every_option_of_the_guide_exists(option, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = [call(monkeypatch, verb, "--help")[1] for verb in ("prepare", "describe")]
    assert any(re.search(rf"{option}\b", text) for text in shown)


def test_every_split_of_the_guide_can_be_read():
    [table] = re.findall(r"\| `--split` \| meaning \|\n(.*?)\n\n", GUIDE, re.DOTALL)
    texts = [
        text for row in table.splitlines()[1:] for text in re.findall("`(.*?)`", row.split("|")[1])
    ]
    splits = [text for text in texts if not text.startswith(("+", "--"))]
    assert len([SplitConfig.parse(text) for text in splits]) >= 10
