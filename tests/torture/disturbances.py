"""The first kills, full disks and second writers in one process, which share their inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice

from tests.torture.outcome import Outcome
from tests.torture.suites import SUITES

NAMES = ("kills", "disk", "writers")


@dataclass(frozen=True)
class Case:
    """A case of another suite."""

    suite: str
    case: object


def cases(seed: int) -> Iterator[Case]:
    """As many of each suite as `make test` runs."""
    for name in NAMES:
        for case in islice(import_module(SUITES[name].module).cases(seed), SUITES[name].short):
            yield Case(name, case)


def run(case: Case) -> Outcome:
    """Run the case as its suite does."""
    outcome: Outcome = import_module(SUITES[case.suite].module).run(case.case)
    return outcome
