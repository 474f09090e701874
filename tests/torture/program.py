"""The program `edgeformers` in forked processes, which need no start-up and can be killed.

What commands load is loaded here once, and no thread is started, so that a forked process begins
its work in milliseconds.
"""

import gc
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

ANYWHERE: AbstractContextManager[object] = nullcontext()
CHUNK = 2  # rows embedded and written together; the networks here have few
IMPORTED_LATE = (
    "duckdb",
    "pandas",
    "pyarrow.dataset",
    "pydantic",
    "rich.cells",
    "jinja2",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
    "sklearn.linear_model",
    "sklearn.feature_extraction.text",
    "edgeformers.experiments.reproduce",
    "edgeformers.experiments.run_report",
    "edgeformers.report.card_page",
    "edgeformers.report.comparison",
)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (None: killed), its time and what it printed."""

    code: int | None
    seconds: float
    output: str

    @property
    def is_refusal(self) -> bool:
        """Whether it ended with one sentence about an error that the user can correct."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return self.code == 2 and len(lines) == 1 and lines[0].startswith("error: ")


@cache
def load_program() -> Callable[[], None]:
    """Import everything that commands use; returns the program."""
    import numpy as np
    import torch

    for module in IMPORTED_LATE:
        import_module(module)
    from edgeformers.cli.main import run
    from edgeformers.data.adjacency import build_adjacency
    from edgeformers.data.sampler import EgoSampler
    from edgeformers.inference import embed

    torch.set_num_threads(1)
    embed.embed.__kwdefaults__["chunk"] = CHUNK
    ends = np.arange(2)
    EgoSampler(build_adjacency(ends, ends[::-1], 2), [1]).sample(ends, epoch=0)  # loads kernels
    gc.freeze()  # what is here already stays shared with the forked processes
    return run


class Running:
    """A command that runs in a folder, in a forked process, within a context."""

    def __init__(
        self, args: list[str], folder: Path, within: AbstractContextManager[object] = ANYWHERE
    ) -> None:
        program = load_program()
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `wait`)
        self.began = time.monotonic()
        self.child = os.fork()
        if not self.child:
            _run(args, folder, within, program, self.output)

    def wait(self, kill_after: float | None = None) -> Ended:
        """Wait until it ends, or kill it after so many seconds."""
        if kill_after is not None:
            while time.monotonic() - self.began < kill_after and not self.has_ended():
                time.sleep(0.001)
            os.kill(self.child, signal.SIGKILL)  # one that has ended already keeps its code
        code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        seconds = time.monotonic() - self.began
        with self.output:
            self.output.seek(0)
            return Ended(None if code == -signal.SIGKILL else code, seconds, self.output.read())

    def has_ended(self) -> bool:
        """Whether the process has ended; it must still be waited for."""
        return os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def call(
    args: list[str],
    folder: Path,
    *,
    kill_after: float | None = None,
    within: AbstractContextManager[object] = ANYWHERE,
) -> Ended:
    """Run a command in a folder, killed after so many seconds."""
    return Running(args, folder, within).wait(kill_after)


def _run(
    args: list[str],
    folder: Path,
    within: AbstractContextManager[object],
    program: Callable[[], None],
    output: IO[str],
) -> NoReturn:
    """Run a command in this process, and end it."""
    code: object = 1
    try:
        os.chdir(folder)
        sys.argv = ["edgeformers", *args]
        with redirect_stdout(output), redirect_stderr(output), within:
            program()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    except BaseException:
        traceback.print_exc(file=output)
    finally:
        output.flush()
        os._exit(code if isinstance(code, int) else 1)
