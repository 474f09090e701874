import os
import subprocess
import sys

import pytest

from edgeformers.cli.main import COMMANDS
from tests.cli.conftest import call


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command):
    shown = call(command, "--help")
    assert shown.code == 0
    assert "Examples:\n    edgeformers " in shown.out
    assert "--json" in shown.out


@pytest.mark.parametrize("width", [80, 100])
def test_the_list_of_commands_is_complete_and_not_cut(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = call("--help").out
    assert max(map(len, shown.splitlines())) <= width
    assert all(f"\n  {command} " in shown for command in COMMANDS)
    assert "..." not in shown.partition("Commands:")[2]
    assert "…" not in shown


def test_options_of_a_table_have_a_section_of_their_own():
    shown = call("prepare", "--help").out
    titles = [line for line in shown.splitlines() if line[:1].isalpha() and line.endswith(":")]
    assert titles == ["Arguments:", "Edge table:", "Node table:", "Network:", "Options:"]


def test_no_command_has_a_negated_flag():
    assert not any("--no-quiet" in call(command, "--help").out for command in COMMANDS)


COMPLETE = """
eval "$(edgeformers --show-completion)"
for line in "edgeformers cl" "edgeformers re" "edgeformers embed --n"; do
  COMP_WORDS=($line) COMP_CWORD=$(($(wc -w <<< "$line") - 1)) COMPREPLY=()
  _edgeformers_completion edgeformers
  echo "${COMPREPLY[@]}"
done
"""


def test_bash_completes_commands_and_options(tmp_path):
    program = tmp_path / "edgeformers"  # as an installed one is
    program.write_text(f"#!{sys.executable}\nfrom edgeformers.cli.main import run\nrun()\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answer = subprocess.run(
        ["bash", "-c", COMPLETE], capture_output=True, text=True, env=environment, check=True
    )
    verbs, more, options = (line.split() for line in answer.stdout.splitlines())
    assert verbs == ["classify-nodes"]
    assert "recommend" in more
    assert sorted(options) == ["--network", "--nodes"]
    assert "--install-completion" in call("--help").out


def test_an_unknown_command_is_refused():
    answer = call("trian")
    assert answer.code == 2
    assert "'trian'" in answer.err


def test_the_help_does_not_import_large_packages():
    program = (
        "import sys, edgeformers.cli.main\n"
        "print([m for m in ('torch', 'numpy', 'numba', 'pyarrow', 'rich') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"
