"""Every Python snippet of the README and the guides runs, and prints what it says it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def snippets(page):
    return [(code, expected) for code, expected in BLOCK.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if snippets(page)], ids=lambda page: page.name
)
def test_the_snippets_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, (code, expected) in enumerate(snippets(page), start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name}, snippet {number}", "exec"), names)
        if expected:
            assert printed.getvalue().strip() == expected.strip()


def test_the_guides_have_snippets_to_run():
    assert sum(len(snippets(page)) for page in PAGES) >= 3
