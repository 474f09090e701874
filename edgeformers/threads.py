"""Threads: how many this process may use, and how they wait for work."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def set_thread_defaults() -> None:
    """Let idle threads sleep, and respect a container's limit; before torch is imported.

    By default a thread that waits for another keeps its core busy, and next to another process the
    other thread then waits for that core. Variables that the user has set stay as they are. torch
    and scikit-learn read them when they are imported (GNU, LLVM and Intel OpenMP, MKL, OpenBLAS).
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if cpu_limit() < _assigned_cores():
        os.environ.setdefault("OMP_NUM_THREADS", str(available_cores()))


def num_threads() -> int:
    """Threads for a task: OMP_NUM_THREADS if it is set, else one for each available core."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(wanted) if wanted.isdecimal() and int(wanted) else available_cores()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use a single thread: for operations so small that more would only wait."""
    import torch  # slow to import

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def available_cores() -> int:
    """CPU cores that this process may use: its affinity, within the limit of its container."""
    return math.ceil(min(_assigned_cores(), cpu_limit()))


def cpu_limit(root: Path = CGROUP) -> float:
    """The CPU cores' worth of time that the container may use; infinite without a limit."""
    files = [[root / "cpu.max"], [root / "cpu" / f"cpu.cfs_{n}_us" for n in ("quota", "period")]]
    for version in files:
        if all(file.is_file() for file in version):
            quota, period = " ".join(file.read_text() for file in version).split()
            return math.inf if quota in ("max", "-1") else int(quota) / int(period)
    return math.inf


def _assigned_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
