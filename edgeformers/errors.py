"""Errors raised for users. A message names the problem, its place, the value and the remedy.

Messages name arguments and settings as in Python, in backticks: `text=`, `label_kind='number'` or
`data.split=`. The command line shows them as options (`with_options`).
"""

import importlib
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType

#: An argument or setting in a message; `text=` of read_nodes is the option --node-text.
ARGUMENT = re.compile(r"`([\w.]+)=([^`]*)`( of read_nodes)?")
#: Arguments whose options have other names.
OPTIONS = {
    "bipartite=False": "--one-node-type",
    "directed=False": "--undirected",
    "edges": "--likes",
    "num_edges": "--edges",
    "positive_labels": "--positive",
    "quote=''": "--quote none",
    "side": "--node-side",
    "split": "--split-column",
    "splits": "--split",
}


LONGEST = 1500  # characters of a message
LISTED = 20  # names in the list of available ones


class EdgeformersError(Exception):
    """Base class of all errors of this library; the CLI prints them without a traceback.

    A message may quote hostile files. It is printed on one line, with control characters escaped
    and the middle of an overlong one left out.
    """

    def __str__(self) -> str:
        text = super().__str__()
        if not text.isprintable():
            text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 300]} ... {text[-290:]}"


class InputError(EdgeformersError, ValueError):
    """The user's data or arguments cannot be used."""


class UnknownNodeError(InputError):
    """The network has no node of an id."""


class ConfigError(InputError):
    """A setting is unknown or has an invalid value."""


class FileError(InputError, OSError):
    """A file cannot be read or written: the disk is full, access is denied, and so on."""


class FormatError(EdgeformersError, ValueError):
    """A file is damaged, of another kind, or of an unsupported version."""


class MissingExtraError(EdgeformersError, ImportError):
    """An optional dependency is not installed; the message contains the install command."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or raise an error that names the extra providing it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"this needs the package '{package}', which is not installed; "
            f"run: pip install 'edgeformers[{extra}]'"
        ) from error


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an 'unknown name' message: the closest known name, or all of them."""
    names = [str(k) for k in known]
    matches = get_close_matches(name, names, n=1) or [
        k for k in names if k.lower() == name.lower() or name.lower() in k.lower()
    ]
    if matches:
        return f"did you mean '{matches[0]}'?"
    more = f", ... ({len(names):,} in all)" if len(names) > LISTED else ""
    return f"available: {', '.join(names[:LISTED])}{more}" if names else "none are available"


def with_options(message: str) -> str:
    """A message with the Python arguments in it replaced by options: `text=` becomes --text."""
    return ARGUMENT.sub(_option, message)


def _option(match: re.Match[str]) -> str:
    name, value, of_nodes = match.groups()
    if option := OPTIONS.get(f"{name}={value}"):
        return option
    value = value.strip("'")
    if "." in name:  # a setting
        return f"--set {name}={value}"
    name = f"node_{name}" if of_nodes else name
    option = OPTIONS.get(name, "--" + name.replace("_", "-"))
    return option if value in ("", "True") else f"{option} {shlex.quote(value)}"
