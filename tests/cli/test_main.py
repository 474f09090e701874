import os
import subprocess
import sys

import pytest

from edgeformers.cli.main import app
from tests.cli.conftest import call

VERBS = [command.name for command in app.registered_commands]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_commands_that_work(verb):
    shown = call(verb, "--help")
    assert shown.code == 0
    assert "Commands that work as pasted:\n    edgeformers " in shown.out
    assert "--json" in shown.out


def test_all_verbs_are_there():
    assert {"prepare", "describe", "train", "evaluate", "predict", "embed", "recommend"} < set(
        VERBS
    )


COMPLETE = """
eval "$(edgeformers --show-completion)"
for line in "edgeformers cl" "edgeformers re" "edgeformers embed --n"; do
  COMP_WORDS=($line) COMP_CWORD=$(($(wc -w <<< "$line") - 1)) COMPREPLY=()
  _edgeformers_completion edgeformers
  echo "${COMPREPLY[@]}"
done
"""


def test_bash_completes_verbs_and_options(tmp_path):
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


def test_a_verb_that_is_not_there_is_answered():
    answer = call("trian")
    assert answer.code == 2
    assert "No such command 'trian'" in answer.err


def test_what_is_shown_at_once_does_not_wait_for_torch():
    program = "import sys, edgeformers.cli.main; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout.strip() == "False"
