"""SIGKILL at random moments: nothing is lost, and the same command then gives the same results."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from tests.torture.commands import (
    COMMANDS,
    VARIANTS,
    Command,
    count_writes,
    differences,
    enter,
    undisturbed,
)
from tests.torture.faults import failing_writes
from tests.torture.outcome import Outcome
from tests.torture.program import Ended, call

KILLS = 20  # of each command, spread over its duration
ATTEMPTS = 30  # to kill a process before it ends


@dataclass(frozen=True)
class Case:
    """A command and when it is killed, as shares of its duration: once, or again after that.

    With `at_write`, the first kill is just before a write, at a share of all its writes.
    """

    command: str
    moments: tuple[float, ...]
    at_write: bool


def cases(seed: int) -> Iterator[Case]:
    """In each round of 100, twenty kills of each command; rounds at times and at writes in turn."""
    draw = random.Random(seed)
    for at_write in cycle((False, True)):
        shares = {variants: draw.sample(range(KILLS), KILLS) for variants in VARIANTS}
        for i in range(KILLS):
            for variants in VARIANTS:
                first = (shares[variants][i] + draw.random()) / KILLS
                second = [draw.random()] if draw.random() < 0.5 else []
                yield Case(variants[i % len(variants)], (first, *second), at_write)


def run(case: Case) -> Outcome:
    """Kill a command, run it again until it finishes, and compare with an undisturbed run."""
    command = COMMANDS[case.command]
    seconds, expected = undisturbed(case.command)
    folder, problem = _kill_first(case)
    if folder is None:
        return Outcome(kind="crash", detail=problem)
    progress = command.progress(folder)
    for moment in case.moments[1:]:
        if not command.is_finished(folder):
            ended = call(command.args, folder, kill_after=seconds * moment)
            if ended.code not in (0, None):
                return Outcome(kind="crash", detail=f"when resumed: {ended.output}")
            if not command.is_finished(folder) and command.progress(folder) < progress:
                return Outcome(kind="silent", detail=f"lost steps: {progress} before")
    ended = call(command.args, folder)
    if ended.code != 0 and not _is_refusal(command, ended):
        return Outcome(kind="crash", detail=f"in the end: {ended.output}")
    wrong = differences(folder, expected)
    return Outcome(kind="silent" if wrong else "accepted", detail=wrong, seconds=ended.seconds)


def _kill_first(case: Case) -> tuple[Path | None, str]:
    """The folder of a command killed at its moment, or earlier where it has ended by then."""
    command, seconds = COMMANDS[case.command], undisturbed(case.command)[0]
    writes = count_writes(case.command) if case.at_write else 0
    for attempt in range(ATTEMPTS):
        folder, share = enter(command), case.moments[0] * 0.9**attempt
        if case.at_write:
            killer = failing_writes(folder, 1 + int(share * writes), kills=True)
            ended = call(command.args, folder, within=killer)
        else:
            ended = call(command.args, folder, kill_after=seconds * share)
        if ended.code is None:
            return folder, ""
        if ended.code != 0:
            return None, f"in the beginning: {ended.output}"
    return None, "it always ends before it is killed"


def _is_refusal(command: Command, ended: Ended) -> bool:
    """Whether `prepare` found its network complete."""
    return command is COMMANDS["prepare"] and ended.is_refusal and "already exists" in ended.output
