"""Computes the chunks of a job on a Ray cluster, with Ray Data.

An actor opens the run on its machine and computes one chunk at a time. If it dies, Ray starts
another one and repeats the chunk. Only the calling process writes files.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa

from edgeformers.errors import EdgeformersError, InputError, require
from edgeformers.inference.chunks import ChunkedJob, Computed, RemoteJob
from edgeformers.threads import num_threads

#: Environment of a cluster that is started here: no usage reports, no messages of the C++ core.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}


def compute_on_ray(remote: RemoteJob, identity: str, numbers: Sequence[int]) -> Computed:
    """Compute chunks, and yield each when it is finished.

    It connects to the cluster that runs on this machine or that RAY_ADDRESS names; without one,
    it starts one for itself.
    """
    if not numbers:
        return
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray: Any = require("ray", "ray")
    data: Any = require("ray.data", "ray")
    with _connection(ray), _without_messages(data):
        items = [{"chunk": number} for number in numbers]
        chunks = data.from_items(items, override_num_blocks=len(items))
        computed = chunks.map_batches(
            _Actor,
            fn_constructor_args=(remote.open, identity),
            batch_size=1,
            **_resources(ray, data, len(items), use_gpus=remote.device != "cpu"),
        )
        for row in computed.iter_rows():
            if row["error"]:
                raise EdgeformersError(row["error"])
            yield row["chunk"], pa.ipc.open_stream(row["table"]).read_all()


class _Actor:
    """Computes chunks in a process of its own, with its own copy of the model.

    Errors that a user can correct are returned as text: Ray would wrap them in its own.
    """

    def __init__(self, open_job: Callable[[], ChunkedJob], identity: str) -> None:
        self.open_job, self.identity = open_job, identity

    @cached_property
    def job(self) -> ChunkedJob:
        job = self.open_job()
        if job.identity != self.identity:
            raise InputError(
                f"the run or its network on {os.uname().nodename} differs from that of the caller; "
                "put both on storage that all machines share"
            )
        return job

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        (number,) = batch["chunk"].tolist()
        sink, error = pa.BufferOutputStream(), ""
        try:
            table = self.job.compute(number)
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
        except EdgeformersError as problem:
            error = str(problem)
        return {"chunk": [number], "table": [sink.getvalue().to_pybytes()], "error": [error]}


@contextmanager
def _connection(ray: Any) -> Iterator[None]:
    """Connect to a cluster, unless the caller has; Ray's own errors become sentences."""
    is_connected = ray.is_initialized()
    try:
        if not is_connected:
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        yield
    except (ConnectionError, ray.exceptions.RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise EdgeformersError(
            f"Ray failed ({reason}); run the same command again to continue with the chunks that "
            "are missing"
        ) from error
    finally:
        if not is_connected:
            ray.shutdown()


@contextmanager
def _without_messages(data: Any) -> Iterator[None]:
    """Silence the progress bars and the log of Ray Data; it changes settings of the process."""
    settings, log = data.DataContext.get_current(), logging.getLogger("ray.data")
    before = settings.enable_progress_bars, log.level
    settings.enable_progress_bars = False
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        settings.enable_progress_bars = before[0]
        log.setLevel(before[1])


def _resources(ray: Any, data: Any, chunks: int, *, use_gpus: bool) -> dict[str, Any]:
    """A GPU for each actor if the cluster has any, otherwise as many CPUs as the caller uses."""
    actors = int(ray.cluster_resources().get("GPU", 0)) if use_gpus else 0
    resources = {"num_gpus": 1}
    if not actors:
        machines = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        cpus = max(1, min(num_threads(), max(machines, default=1)))
        actors = max(1, sum(count // cpus for count in machines))
        resources = {"num_cpus": cpus}
    pool = data.ActorPoolStrategy(min_size=1, max_size=min(actors, chunks))
    return {"compute": pool, **resources}
