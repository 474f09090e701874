"""The errors a user can meet; each message says what was wrong, where, and what would do."""

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType


class EdgeformersError(Exception):
    """Anything this library raises on purpose; the command line prints it without a traceback."""


class InputError(EdgeformersError, ValueError):
    """The user's data or arguments cannot be used as they are."""


class ConfigError(InputError):
    """A setting the user wrote cannot be used; the message says which and what would do."""


class FormatError(EdgeformersError, ValueError):
    """A file is damaged, foreign, or of a version this library does not read."""


class MissingExtraError(EdgeformersError, ImportError):
    """An optional package is needed for what was asked; the message gives its install line."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"this needs the package '{package}', which is not installed; "
            f"run: pip install 'edgeformers[{extra}]'"
        ) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """The tail of a 'no such name' message: the nearest known name, or all of them."""
    names = [str(k) for k in known]
    guess = get_close_matches(name, names, n=1) or [
        k for k in names if k.lower() == name.lower() or name.lower() in k.lower()
    ]
    if guess:
        return f"did you mean '{guess[0]}'?"
    return f"there is: {', '.join(names)}" if names else "there is none"
