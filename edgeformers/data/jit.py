"""Loops over arrays that run as Python until there is enough to do for numba.

Importing numba and loading loops that it compiled earlier takes about a second. A command that
reads the texts of one node, or of a small network, finishes sooner without it.
"""

import sys
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any

import numpy as np

Loop = Callable[..., Any]

ENOUGH = 200_000  # steps; one takes Python about 3 µs, so all of them less than loading numba


def njit(**options: Any) -> Callable[[Loop], Loop]:
    """Mark a function to be compiled with these options of `numba.njit`."""

    def mark(function: Loop) -> Loop:
        function.options = options  # type: ignore[attr-defined]
        return function

    return mark


class Jit:
    """Decides whether a loop is compiled: once the steps of all loops so far exceed a budget."""

    def __init__(self, budget: int = ENOUGH) -> None:
        self.budget = budget

    def __call__(self, loop: Loop, steps: int) -> Loop:
        """A marked function as Python or compiled, for a call of so many steps, roughly."""
        self.budget -= steps
        if self.budget < 0:
            compiled: Loop = _compile_module(loop.__module__)[loop.__name__]
            return compiled
        return partial(_interpret, loop)


jit = Jit()


def _interpret(loop: Loop, *args: Any) -> Any:
    with np.errstate(over="ignore"):  # hashes overflow, without a warning when compiled
        return loop(*args)


@cache
def _compile_module(name: str) -> dict[str, Any]:
    """The namespace of a module in which marked functions are compiled, also for each other."""
    import numba

    namespace = dict(vars(sys.modules[name]))
    for key, value in list(namespace.items()):
        if isinstance(value, FunctionType) and hasattr(value, "options"):
            function = FunctionType(value.__code__, namespace, key)
            namespace[key] = numba.njit(**value.options)(function)
    return namespace
