"""Runs the commands that a verb's help ends with, in order, with settings that take seconds."""

import re
import shlex
import subprocess

from tests.cli.conftest import TINY, call

#: What is added to a command of a verb so that it is quick.
QUICK = {
    "prepare": ("--edges", "300", "--quiet"),
    "train": TINY,
    "reproduce": (*TINY, "--no-estimate"),
    "quickstart": ("--edges", "300", "--backbone", "scratch:2x32", "--quiet"),
}


def pasted(verb, examples, skip=()):
    """Each line of `examples` in the folder where the test stands; gives the answers."""
    shown = call(verb, "--help").out
    lines = re.findall(r"^  (\S.*)$", examples, re.MULTILINE)
    answers = []
    for line in lines:
        assert f"  {line}\n" in shown
        words = shlex.split(line)
        if words[0] in skip:
            continue
        if words[0] != "edgeformers":
            subprocess.run(line, shell=True, check=True)
            continue
        answer = call(*words[1:], *QUICK.get(words[1], ()))
        assert answer.code == 0, (line, answer.err)
        answers.append(answer)
    return answers
