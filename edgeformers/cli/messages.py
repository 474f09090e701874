"""Library error messages in the words of the command line."""

import re

#: `text='review'` or `text=` in a message names a Python argument; read_nodes has its own.
ARGUMENT = re.compile(r"`(\w+)=([^`]*)`( of read_nodes)?")
OPTIONS = {"split": "split-column"}


def name_options(message: str) -> str:
    """Replace the Python arguments that a message names by options: `text=` becomes --text."""
    return ARGUMENT.sub(_option, message)


def _option(match: re.Match[str]) -> str:
    argument, value, is_node_column = match.groups()
    name = f"node-{argument}" if is_node_column else OPTIONS.get(argument, argument)
    return f"--{name.replace('_', '-')} {value}".rstrip()
