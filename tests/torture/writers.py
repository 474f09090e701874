"""Two writers of one output at once: one is rejected, and the other is not disturbed."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.torture.commands import COMMANDS, VARIANTS, differences, enter, undisturbed
from tests.torture.outcome import Outcome
from tests.torture.program import Ended, Running

ATTEMPTS = 10  # to start the second while the first is writing


@dataclass(frozen=True)
class Case:
    """A command that is started again after a share of its duration."""

    command: str
    moment: float


def cases(seed: int) -> Iterator[Case]:
    """All commands in turn, at random moments."""
    draw = random.Random(seed)
    turn = 0
    while True:
        for variants in VARIANTS:
            yield Case(variants[turn % len(variants)], draw.random())
        turn += 1


def run(case: Case) -> Outcome:
    """Start the command twice; earlier again if the first had finished before the second wrote."""
    seconds, expected = undisturbed(case.command)
    for attempt in range(ATTEMPTS):
        folder = enter(COMMANDS[case.command])
        first, second = _start_twice(case, folder, seconds * case.moment * 0.7**attempt)
        refused = [each for each in (first, second) if each.code != 0]
        if len(refused) > 1 or not all(each.is_refusal for each in refused):
            return Outcome(kind="crash", detail=f"{first.output}\n{second.output}")
        if wrong := differences(folder, expected):
            return Outcome(kind="silent", detail=wrong)
        if any("another process" in each.output for each in refused):
            return Outcome(kind="rejected")
    return Outcome(kind="crash", detail="the first always ends before the second starts")


def _start_twice(case: Case, folder: Path, delay: float) -> tuple[Ended, Ended]:
    args = COMMANDS[case.command].args
    first = Running(args, folder)
    time.sleep(delay)
    second = Running(args, folder)
    return first.wait(), second.wait()
