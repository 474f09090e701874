"""Output computed chunk by chunk: an interrupted job continues with the chunks that are missing."""

import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers import distributed
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.table import read_parquet
from edgeformers.errors import InputError, suggest
from edgeformers.files import atomic_file, write_atomic
from edgeformers.locks import BusyError, remove_stale_lock, single_writer
from edgeformers.progress import progress_bar

Engine = Literal["local", "ray"]  # this process, or a Ray cluster

FACTS = "facts.json"

Computed = Generator[tuple[int, pa.Table], None, None]  # numbers of chunks, and their rows


class ChunkedJob(Protocol):
    """Rows to compute chunk by chunk.

    A chunk depends only on the run, the network and its range. Any process on any machine may
    compute it, several times if need be.
    """

    @property
    def chunks(self) -> Sequence[range]: ...

    @property
    def identity(self) -> str:
        """Equal for two jobs if their chunks are equal."""

    @property
    def unit(self) -> str:
        """What is numbered: "nodes"."""

    def compute(self, number: int, *, show: bool = False) -> pa.Table:
        """The rows of one chunk."""


@dataclass(frozen=True, kw_only=True)
class RemoteJob:
    """How other processes open a job; it is sent to them."""

    open: Callable[[], ChunkedJob]
    device: str | None  # None: a GPU if there is one


def is_ray(engine: str) -> bool:
    """Whether a Ray cluster is to compute; an unknown engine is an InputError."""
    if engine not in get_args(Engine):
        raise InputError(f"unknown `engine={engine!r}`; {suggest(engine, get_args(Engine))}")
    if engine == "ray" and distributed.world_size() > 1:
        raise InputError("`engine='ray'` starts its own processes; leave out torchrun")
    return engine == "ray"


def shared_paths(
    run: Any, network: EdgeTextGraph | str | PathLike[str] | None
) -> tuple[Path, Path | None]:
    """Absolute paths of a run and its network, for processes that open them themselves."""
    if not isinstance(run, str | PathLike):
        raise InputError(
            f"`engine='ray'` needs the folder of a run (got {type(run).__name__}); save the model "
            "and pass its folder"
        )
    path = network.path if isinstance(network, EdgeTextGraph) else network
    shared = None if path is None else Path(path).expanduser().absolute()
    return Path(run).expanduser().absolute(), shared


def write_chunks(
    job: ChunkedJob, out: Path, *, on_ray: RemoteJob | None = None, show: bool
) -> list[Path]:
    """Write the chunks of an output that are missing; returns the files of all chunks in order.

    With `on_ray` they are computed on a Ray cluster.
    """
    folder = _chunk_folder(out)
    files = [folder / f"{number:08d}.parquet" for number in range(len(job.chunks))]
    missing: list[int] = distributed.broadcast(_missing_chunks(folder, job.identity, files))
    try:
        if on_ray is None:
            tables = _compute_here(job, missing, show=show)
        else:
            tables = _compute_on_ray(job, missing, on_ray, show=show)
        with closing(tables):
            for number, table in tables:
                if distributed.is_main():
                    write_parquet(files[number], [table], table.schema)
    finally:
        has_chunk = any(file.is_file() for file in files)
        if distributed.is_main() and not has_chunk:  # there is nothing to continue with
            remove_chunks(out)
    return files


def read_chunks(files: Sequence[Path], *, show: bool) -> Iterator[pa.Table]:
    """The tables of chunks, to be joined."""
    with progress_bar(len(files), desc="joining", unit="files", show=show) as bar:
        for file in files:
            yield read_parquet(file)
            bar.update()


def remove_chunks(out: Path) -> None:
    """Remove the chunks of an output."""
    shutil.rmtree(_chunk_folder(out), ignore_errors=True)


def remove_leftovers(out: Path) -> None:
    """Remove what a process left that was killed after it had written the output."""
    if _chunk_folder(out).exists():
        with suppress(BusyError, OSError), single_writer(out):
            shutil.rmtree(_chunk_folder(out))
    remove_stale_lock(out)


def write_parquet(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Write a Parquet file with one row group per table."""
    with (
        atomic_file(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=False) as writer,
    ):
        for table in tables:
            writer.write_table(table.replace_schema_metadata(schema.metadata), len(table))


def _compute_here(job: ChunkedJob, numbers: Sequence[int], *, show: bool) -> Computed:
    for number in numbers:
        yield number, job.compute(number, show=show and distributed.is_main())


def _compute_on_ray(
    job: ChunkedJob, numbers: Sequence[int], remote: RemoteJob, *, show: bool
) -> Computed:
    from edgeformers.inference.ray_engine import compute_on_ray

    total = sum(map(len, job.chunks))
    done = total - sum(len(job.chunks[number]) for number in numbers)
    tables = compute_on_ray(remote, job.identity, numbers)
    bar = progress_bar(total, done=done, desc="computing on Ray", unit=job.unit, show=show)
    with bar, closing(tables):
        for number, table in tables:
            yield number, table
            bar.update(len(job.chunks[number]))


def _chunk_folder(out: Path) -> Path:
    return out.with_name(f".{out.name}.parts")


def _missing_chunks(folder: Path, identity: str, files: Sequence[Path]) -> list[int]:
    """The chunks that are not written yet; chunks of another job are removed."""
    if not distributed.is_main():
        return []
    recorded = folder / FACTS
    if not recorded.is_file() or recorded.read_text(encoding="utf-8") != identity:
        shutil.rmtree(folder, ignore_errors=True)
        write_atomic(recorded, identity)
    return [number for number, file in enumerate(files) if not file.is_file()]
