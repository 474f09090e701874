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
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

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


def start(args: list[str], folder: Path, output: IO[str], before: Callable[[], None]) -> int:
    """Fork a process that runs a command in a folder, after `before`; returns its id."""
    program = load_program()
    child = os.fork()
    if child:
        return child
    code: object = 1
    try:
        os.chdir(folder)
        sys.argv = ["edgeformers", *args]
        with redirect_stdout(output), redirect_stderr(output):
            before()
            program()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    except BaseException:
        traceback.print_exc(file=output)
    finally:
        output.flush()
        os._exit(code if isinstance(code, int) else 1)


def call(
    args: list[str],
    folder: Path,
    *,
    kill_after: float | None = None,
    before: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a command in a folder, killed after so many seconds."""
    with tempfile.TemporaryFile("w+") as output:
        began = time.monotonic()
        child = start(args, folder, output, before)
        if kill_after is not None:
            while time.monotonic() - began < kill_after and not has_ended(child):
                time.sleep(0.001)
            os.kill(child, signal.SIGKILL)  # one that has ended already keeps its code
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seconds = time.monotonic() - began
        output.seek(0)
        return Ended(None if code == -signal.SIGKILL else code, seconds, output.read())


def has_ended(child: int) -> bool:
    """Whether a process has ended; it must still be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
