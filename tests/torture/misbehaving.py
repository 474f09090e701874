"""A suite whose cases do what cases should not, to test the driver."""

import os
import time
from pathlib import Path

from tests.torture.outcome import Outcome


def cases(seed):
    yield from ("fine", "refused", "raise", "exit", "sleep", f"seed {seed}")


def run(case):
    with Path(os.environ["TORTURE_TEST_LOG"]).open("a") as file:
        file.write(f"{case}\n")
    if case == "raise":
        raise ValueError(case)
    if case == "exit":
        os._exit(9)
    if case == "sleep":
        time.sleep(60)
    return Outcome(kind="rejected" if case == "refused" else "accepted", seconds=0.5)
