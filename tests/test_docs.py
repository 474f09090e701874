"""Every Python snippet of the README and the guides runs, and prints what it says it prints."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import call

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n^```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
IN_SHELL_TOO = {"tutorial.md", "reproduce.md"}  # and docs/howto; data.md: tests/data/test_guide.py
SLOW = {"gpus.md", "tutorial.md", "export.md"}  # start processes or train for long


def snippets(page):
    """(language, code, what it prints) of every block to run."""
    is_shell_run = page.name in IN_SHELL_TOO or page.parent.name == "howto"
    languages = {"python", "sh"} if is_shell_run else {"python"}
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [block for block in blocks if block[0] in languages]


def headings(page):
    """The headings of a page as links name them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in found}


def name_of(page):
    """A page by its path, as pytest shows it."""
    return page.relative_to(ROOT).as_posix()


def run_shell(code):
    """Each command of a block; those of the program within this process."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs}
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("edgeformers "):
            answer = call(*shlex.split(line)[1:])
            assert answer.code == 0, (line, answer.err)
        else:
            subprocess.run(line, shell=True, check=True, stdout=subprocess.DEVNULL, env=environment)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.name in SLOW else [], id=name_of(page))
        for page in PAGES
        if snippets(page)
    ],
)
def test_the_snippets_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, (language, code, expected) in enumerate(snippets(page), start=1):
        printed = io.StringIO()
        if language == "sh":
            run_shell(code)
            continue
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name}, snippet {number}", "exec"), names)
        if expected:
            assert printed.getvalue().strip() == expected.strip()


def test_the_guides_have_snippets_to_run():
    assert sum(len(snippets(page)) for page in PAGES) >= 3


def test_every_how_to_is_run():
    guides = [page for page in PAGES if page.parent.name == "howto"]
    assert len(guides) >= 6
    assert [name_of(page) for page in guides if not snippets(page)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page):
    for target, heading in LINK.findall(page.read_text(encoding="utf-8")):
        file = (page.parent / target) if target else page
        assert file.exists(), target
        assert not heading or heading in headings(file), f"{target}#{heading}"
