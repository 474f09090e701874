"""Messages name Python arguments, which the command line shows as its own options."""

import ast
from pathlib import Path

import pytest

import edgeformers
from edgeformers.errors import InputError, suggest, with_options
from tests.cli.commands import named_options, options

PACKAGE = Path(edgeformers.__file__).parent
MODULES = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "cli"]
COMMANDS = ("edgeformers ", "git ", "pip ")  # a message that contains a command names its options


def messages(path):
    """The texts of the errors that a module raises."""
    for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Raise):
            for node in ast.walk(statement):
                if isinstance(node, ast.JoinedStr):
                    yield ast.unparse(node)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("set it with `edge_type=`", "set it with --edge-type"),
        ("set `split=` or pass `delimiter=';'`", "set --split-column or pass --delimiter ';'"),
        ("set it with `text=` of read_nodes", "set it with --node-text"),
        ("use `label_kind='number'`", "use --label-kind number"),
        ("use `quote=''`", "use --quote none"),
        ("pass `overwrite=True`", "pass --overwrite"),
        ("pass `bipartite=False`", "pass --one-node-type"),
        ("use `data.split='cold-source'`", "use --set data.split=cold-source"),
        ("no column 'a=b' in `file`", "no column 'a=b' in `file`"),
    ],
)
def test_python_arguments_in_a_message_become_options(message, shown):
    assert with_options(message) == shown


def test_errors_of_the_library_name_arguments_and_not_options():
    found = {
        message
        for path in MODULES
        for message in messages(path)
        if named_options(message) and not any(word in message for word in COMMANDS)
    }
    assert not found


def test_every_argument_that_an_error_names_is_an_option_of_the_program():
    known = options()
    for path in MODULES:
        for message in messages(path):
            named = named_options(with_options(message)) - named_options(message)
            assert named <= known, message


def test_a_message_is_one_printable_line_of_bounded_length():
    message = str(InputError("a\nb\x1b[31m\0\ud800 é 日本" + "x" * 10_000 + "; the remedy"))
    assert message.isprintable()
    assert message.startswith(r"a\nb\x1b[31m\x00\ud800 é 日本")
    assert message.endswith("; the remedy")
    assert len(message) < 2000


def test_a_long_list_of_names_is_cut():
    assert len(suggest("zzz", [f"column {i}" for i in range(3000)])) < 500
