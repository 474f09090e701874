"""Full disks: one sentence, nothing left behind, and the same command works once there is space."""

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.torture.commands import (
    COMMANDS,
    VARIANTS,
    count_writes,
    differences,
    empty,
    enter,
    place_inputs,
    undisturbed,
)
from tests.torture.faults import can_mount, failing_writes, leftovers, tiny_disk
from tests.torture.outcome import Outcome
from tests.torture.program import Ended, call

WRITES = 50  # of each command, at which the disk is full
DISKS = 5  # small file systems for each command
ATTEMPTS = 30  # to find a moment before the command ends
PAGE = 4096  # a tmpfs stores files in pages


@dataclass(frozen=True)
class Case:
    """A command and when the disk is full: a share of its writes, or of the space it needs."""

    command: str
    share: float
    is_mounted: bool  # a small file system rather than an injected error


def cases(seed: int) -> Iterator[Case]:
    """In each round of 275, 50 failing writes and 5 small file systems for each command."""
    draw = random.Random(seed)
    mounts = can_mount()
    while True:
        for i in range(WRITES + DISKS):
            is_mounted = mounts and i % (WRITES // DISKS + 1) == WRITES // DISKS
            for variants in VARIANTS:
                yield Case(variants[i % len(variants)], draw.random(), is_mounted)


def run(case: Case) -> Outcome:
    """Run the command until the disk is full, then again with space."""
    undisturbed(case.command)
    return _run_on_small_disk(case) if case.is_mounted else _run_with_failing_writes(case)


def _run_with_failing_writes(case: Case) -> Outcome:
    command, writes = COMMANDS[case.command], count_writes(case.command)
    for attempt in range(ATTEMPTS):  # some writes depend on the time
        folder, nth = enter(command), 1 + int(case.share * 0.9**attempt * writes)
        ended = call(command.args, folder, within=failing_writes(folder, nth))
        if ended.code != 0:
            return _wrong_failure(ended, folder) or _outcome_with_space(case, folder)
    return Outcome(kind="crash", detail=f"a full disk does not matter (of {writes} writes)")


def _run_on_small_disk(case: Case) -> Outcome:
    command, (used, needed) = COMMANDS[case.command], _space(case.command)
    for attempt in range(ATTEMPTS):
        size = used + int(case.share * 0.9**attempt * needed)
        with tiny_disk(empty(), size // 1024 + 1) as folder:
            place_inputs(command)
            ended = call(command.args, folder)
            if ended.code != 0:
                grow = ["mount", "-o", "remount,size=1g", str(folder)]
                wrong = _wrong_failure(ended, folder)
                subprocess.run(grow, check=True)
                return wrong or _outcome_with_space(case, folder)
    return Outcome(kind="crash", detail=f"a full disk does not matter (of {needed} bytes)")


def _wrong_failure(ended: Ended, folder: Path) -> Outcome | None:
    """What is wrong with a failure, or None."""
    if not ended.is_refusal or "disk is full" not in ended.output:
        return Outcome(kind="crash", detail=f"exit code {ended.code}: {ended.output}")
    left = leftovers(folder)
    return Outcome(kind="silent", detail=f"left behind: {', '.join(left)}") if left else None


def _outcome_with_space(case: Case, folder: Path) -> Outcome:
    """The outcome of the same command once there is space."""
    ended = call(COMMANDS[case.command].args, folder)
    if ended.code != 0:
        return Outcome(kind="crash", detail=f"with space again: {ended.output}")
    wrong = differences(folder, undisturbed(case.command)[1])
    return Outcome(kind="silent" if wrong else "rejected", detail=wrong, seconds=ended.seconds)


@cache
def _space(name: str) -> tuple[int, int]:
    """Bytes on a tmpfs of the inputs of a command, and of what it adds."""
    command = COMMANDS[name]
    folder = enter(command)
    used = _pages(folder)
    if "older" not in command.inputs:
        call(command.args, folder)
        return used, _pages(folder) - used
    return used, _pages(folder / command.out)  # the old and the new exist for a moment


def _pages(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in files)
