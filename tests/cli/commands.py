"""Runs the examples in a command's help, in order, with settings that take seconds."""

import re
import shlex
import subprocess

import typer

from edgeformers.cli.main import COMMANDS, app
from tests.cli.conftest import TINY, call

#: Options that make a command quick.
QUICK = {
    "prepare": ("--edges", "300", "--quiet"),
    "train": TINY,
    "reproduce": (*TINY, "--no-estimate"),
    "quickstart": ("--edges", "300", "--backbone", "scratch:2x32", "--quiet"),
}


def run_examples(command, until=None, skip=()):
    """Run each example up to the heading `until` in the working folder; returns the answers."""
    shown = call(command, "--help").out
    examples = COMMANDS[command].EXAMPLES
    examples = examples if until is None else examples[: examples.index(until)]
    answers = []
    for line in re.findall(r"^  (\S.*)$", examples, re.MULTILINE):
        assert f"  {line}\n" in shown
        words = shlex.split(line, comments=True)
        if words[0] in skip:
            continue
        if words[0] != "edgeformers":
            subprocess.run(line, shell=True, check=True)
            continue
        answer = call(*words[1:], *QUICK.get(words[1], ()))
        assert answer.code == 0, (line, answer.err)
        answers.append(answer)
    return answers


def options():
    """All options of the program."""
    commands = typer.main.get_command(app).commands.values()
    return {name for command in commands for each in command.params for name in each.opts}


def named_options(text):
    """The options that a text names."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))
