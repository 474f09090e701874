"""Errors raised for users. A message names the problem, its place, the value and the remedy."""

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType


class EdgeformersError(Exception):
    """Base class of all errors of this library; the CLI prints them without a traceback."""


class InputError(EdgeformersError, ValueError):
    """The user's data or arguments cannot be used."""


class ConfigError(InputError):
    """A setting is unknown or has an invalid value."""


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
    return f"available: {', '.join(names)}" if names else "none are available"
