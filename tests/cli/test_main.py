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


def test_shells_can_complete_it():
    shown = call("--help").out
    assert "--install-completion" in shown
    environment = {"_EDGEFORMERS_COMPLETE": "complete_bash", "COMP_WORDS": "edgeformers re"}
    program = [
        sys.executable,
        "-c",
        "from edgeformers.cli.main import app; app(prog_name='edgeformers')",
    ]
    answer = subprocess.run(
        program, capture_output=True, text=True, env={**environment, "COMP_CWORD": "1", "PATH": ""}
    )
    assert answer.stdout.split() == ["recommend"]


def test_a_verb_that_is_not_there_is_answered():
    answer = call("trian")
    assert answer.code == 2
    assert "No such command 'trian'" in answer.err


def test_what_is_shown_at_once_does_not_wait_for_torch():
    program = "import sys, edgeformers.cli.main; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout.strip() == "False"
