"""The transcripts of the first ten minutes come from commands that work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def commands(text):
    return re.findall(r"^\$ (.*(?:\\\n.*)*)$", text, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("section", [1, 2, 3, 4])
def test_the_commands_of_the_page_run_on_new_data(section, tmp_path):
    page = tmp_path / "page.md"
    program = [sys.executable, DOCS / "make_transcripts.py", "-o", page, "--only", str(section)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = page.read_text(encoding="utf-8")
    stored = (DOCS / "first_ten_minutes.md").read_text(encoding="utf-8")
    assert commands(text)
    assert set(commands(text)) <= set(commands(stored))  # the page is up to date
    assert not re.search(r"warning|Traceback|\r", text, flags=re.IGNORECASE)
