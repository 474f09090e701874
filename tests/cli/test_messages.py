import pytest

from edgeformers.cli.messages import name_options


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("set it with `edge_type=`", "set it with --edge-type"),
        ("set `split=` or pass `delimiter=';'`", "set --split-column or pass --delimiter ';'"),
        ("set it with `text=` of read_nodes", "set it with --node-text"),
        ("no column 'a=b' in `file`", "no column 'a=b' in `file`"),
    ],
)
def test_python_arguments_in_a_message_become_options(message, shown):
    assert name_options(message) == shown
