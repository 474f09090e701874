"""The program `edgeformers` without its start-up: forks a process per command, and kills it.

Reads a JSON object per line, {"args", "folder", "seconds"}: the command to run in a folder, and
when to end it by SIGKILL (null: never). Answers with {"code", "seconds", "said"}; of a process
that was killed the code is null. What every command loads is loaded here, once, and no thread is
started, so that a child begins its work in milliseconds.
"""

import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import IO

import duckdb  # noqa: F401
import numpy as np
import pandas as pd  # noqa: F401

from edgeformers.cli.main import run
from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.sampler import EgoSampler
from edgeformers.inference import embed

CHUNK = 2  # rows embedded and written together; the networks of tests have few


def act(args: list[str], folder: str, said: IO[str]) -> None:
    """The command in this process, which ends with it."""
    code: object = 1
    try:
        os.chdir(folder)
        sys.argv = ["edgeformers", *args]
        with redirect_stdout(said), redirect_stderr(said):
            run()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    except BaseException:
        traceback.print_exc(file=said)
    finally:
        said.flush()
        os._exit(code if isinstance(code, int) else 1)


def has_ended(child: int) -> bool:
    """Whether a process has come to its end; it is still to be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def attempt(args: list[str], folder: str, seconds: float | None) -> dict[str, object]:
    """Start a command, kill it after so many seconds, and tell how it ended."""
    with tempfile.TemporaryFile("w+") as said:
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            act(args, folder, said)
        if seconds is not None:
            while time.monotonic() - began < seconds and not has_ended(child):
                time.sleep(0.001)
            os.kill(child, signal.SIGKILL)  # one that has ended already keeps its code
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        took = time.monotonic() - began
        said.seek(0)
        killed = code == -signal.SIGKILL
        return {"code": None if killed else code, "seconds": took, "said": said.read()}


if __name__ == "__main__":
    embed.embed.__kwdefaults__["chunk"] = CHUNK
    ends = np.arange(2)
    EgoSampler(build_adjacency(ends, ends[::-1], 2), [1]).sample(ends, epoch=0)  # loads kernels
    gc.freeze()  # what is here already stays shared with the children
    for line in sys.stdin:
        sys.stdout.write(json.dumps(attempt(**json.loads(line))) + "\n")
        sys.stdout.flush()
    os._exit(0)
