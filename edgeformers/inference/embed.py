"""Write the vectors of all nodes or edges of a network to Parquet, next to their ids."""

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from torch import nn

from edgeformers import __version__, distributed
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.table import read_parquet
from edgeformers.data.types import Ids
from edgeformers.errors import FormatError, InputError
from edgeformers.inference.chunks import (
    Engine,
    RemoteJob,
    is_ray,
    read_chunks,
    remove_chunks,
    remove_leftovers,
    shared_paths,
    write_chunks,
    write_parquet,
)
from edgeformers.inference.encode import encode_edges, encode_nodes
from edgeformers.inference.fitted import FittedModel, network_fingerprint
from edgeformers.inference.load import open_fitted
from edgeformers.inference.saved_model import model_fingerprint
from edgeformers.nn.fast.int8 import quantize_int8
from edgeformers.progress import print_message

What = Literal["nodes", "edges"]
Shard = tuple[int, int]  # number, from 1, and count

FORMAT = "edgeformers-embeddings"
SCHEMA_VERSION = 1
KEY = b"edgeformers"  # of the Parquet metadata
CHUNK = 16_384  # rows encoded and written together; a row group of the file

#: Metadata that must be equal for two files to have the same vectors; versions may differ.
_IDENTITY = ("what", "model", "network_fingerprint", "settings", "shard", "chunk", "batch", "int8")


@dataclass(frozen=True, kw_only=True)
class EmbeddingTable:
    """Vectors, the ids they belong to, and how they were computed.

    For nodes, `ids` has the columns id and side (null with one node type); for edges, edge (its
    number in the network), source and target.
    """

    ids: pa.Table
    vectors: NDArray[np.float32]  # [n, D]
    metadata: dict[str, Any]

    def __len__(self) -> int:
        return len(self.vectors)

    def to_arrow(self) -> pa.Table:
        """The ids with the vectors as the last column, `vector`."""
        flat = pa.array(np.ascontiguousarray(self.vectors).ravel(), pa.float32())
        vectors = pa.FixedSizeListArray.from_arrays(flat, self.vectors.shape[1])
        return self.ids.append_column("vector", vectors)


def embed(
    model: Any,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    *,
    what: What,
    out: str | PathLike[str],
    shard: Shard = (1, 1),
    batch: int | None = None,
    chunk: int = CHUNK,
    int8: bool = False,
    overwrite: bool = False,
    engine: Engine = "local",
    device: str | None = None,
    show: bool = True,
) -> Path:
    """Write the vectors of a network's nodes or edges, in its order; returns the path.

    `model` is an estimator or the folder of a run; `device` is for the latter. `network` defaults
    to the one it was trained on. With `shard=(2, 4)` the second quarter is written, to
    OUT.00002-of-00004.parquet. After an interruption, call it again: finished chunks are kept. A
    finished file of the same model and network is left as it is; another one is replaced only with
    `overwrite`. With `int8`, on a CPU, linear layers compute in 8-bit integers, and the resulting
    error is measured and printed. With `engine="ray"` a Ray cluster computes the chunks, and the
    file is the same; all its machines must be able to read the run and the network.
    """
    if what not in get_args(What):
        raise InputError(f"what must be 'nodes' or 'edges' (got '{what}')")
    path = shard_path(Path(out).expanduser(), shard)
    open_job = partial(_open_job, what=what, shard=shard, batch=batch, chunk=chunk, int8=int8)
    on_ray = None
    if is_ray(engine):
        model, network = shared_paths(model, network)
        used = "cpu" if int8 else device
        on_ray = RemoteJob(open=partial(open_job, model, network, used), device=used)
        device = "cpu"  # of this process, which only writes
    job = open_job(model, network, device, show=show)
    if distributed.broadcast(_is_finished(path, job.facts, overwrite)):
        distributed.run_on_main(lambda: remove_leftovers(path))
        return path  # also where nothing can be written
    with distributed.locked_output(path):
        if not distributed.broadcast(_is_finished(path, job.facts, overwrite)):
            if job.int8 and job.chunks:
                print_message(job.measure_int8(), show=show)
            files = write_chunks(job, path, on_ray=on_ray, show=show)
            if distributed.is_main():
                write_parquet(path, read_chunks(files, show=show), job.schema)
                remove_chunks(path)
        distributed.barrier()
    return path


def read_embeddings(path: str | PathLike[str]) -> EmbeddingTable:
    """Read a file that `embed` wrote, or all shards of OUT.parquet in order."""
    first = Path(path).expanduser()
    files = [first] if first.is_file() else _find_shards(first)
    facts = [read_facts(file) for file in files]
    for file, other in zip(files, facts, strict=True):
        if any(other[name] != facts[0][name] for name in _IDENTITY if name != "shard"):
            raise FormatError(
                f"{file} comes from another model or network than {files[0]}; embed again with "
                "`overwrite=True`"
            )
    table = pa.concat_tables([read_parquet(file) for file in files])
    vectors = table.column("vector").combine_chunks()
    flat = vectors.values.to_numpy() if len(vectors) else np.empty(0, np.float32)
    return EmbeddingTable(
        ids=table.drop_columns("vector").replace_schema_metadata(None),
        vectors=flat.reshape(len(table), facts[0]["width"]),
        metadata=facts[0],
    )


def read_facts(path: Path) -> dict[str, Any]:
    """The metadata of a file of vectors: its model, network and settings."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        facts: dict[str, Any] = json.loads(metadata.get(KEY, b"null"))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise FormatError(f"{path} cannot be read as Parquet ({error}); embed again") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise FormatError(f"{path} does not contain vectors written by edgeformers")
    facts.setdefault("int8", False)  # missing in old files
    if facts["schema_version"] != SCHEMA_VERSION:
        raise FormatError(
            f"{path} has schema version {facts['schema_version']}, but this version reads "
            f"{SCHEMA_VERSION}; embed again"
        )
    return facts


def parse_shard(text: str) -> Shard:
    """`2/4` as (2, 4)."""
    number, slash, count = text.partition("/")
    if not slash or not number.isdigit() or not count.isdigit():
        raise InputError(f"a shard must be written as 1/4 (got '{text}')")
    return _checked_shard((int(number), int(count)))


def shard_path(out: Path, shard: Shard) -> Path:
    """The file of a shard: vectors.parquet -> vectors.00002-of-00004.parquet."""
    number, count = _checked_shard(shard)
    if out.suffix != ".parquet":
        raise InputError(f"vectors are written as Parquet; use {out}.parquet")
    return out if count == 1 else out.with_name(f"{out.stem}.{number:05d}-of-{count:05d}.parquet")


class _Job:
    """The rows of one output file and how they are encoded; a `ChunkedJob`."""

    def __init__(
        self, fitted: FittedModel[Any], what: What, shard: Shard, batch: int, chunk: int, int8: bool
    ) -> None:
        self.fitted, self.what, self.int8, self.unit = fitted, what, int8, what
        self.options = replace(fitted.options, batch=batch)
        self.graph: EdgeTextGraph = fitted.network.graph
        total = self.graph.num_nodes if what == "nodes" else self.graph.num_edges
        number, count = shard
        start, stop = (number - 1) * total // count, number * total // count
        self.chunks = [range(at, min(at + chunk, stop)) for at in range(start, stop, chunk)]
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "library_version": __version__,
            "what": what,
            "model": model_fingerprint(fitted.model),
            "network": self.graph.name,
            "network_fingerprint": network_fingerprint(self.graph),
            "settings": fitted.config.to_dict(),
            "shard": list(shard),
            "rows": [start, stop],
            "width": fitted.width,
            "batch": batch,
            "chunk": chunk,
            "int8": int8,
        }
        identity = {name: self.facts[name] for name in _IDENTITY}
        self.identity = json.dumps(identity, sort_keys=True)
        columns = [("id", pa.string()), ("side", pa.string())]
        if what == "edges":
            columns = [("edge", pa.int64()), ("source", pa.string()), ("target", pa.string())]
        vector = pa.field("vector", pa.list_(pa.float32(), fitted.width), nullable=False)
        metadata = {KEY: json.dumps(self.facts, sort_keys=True).encode()}
        self.schema = pa.schema([*columns, vector], metadata=metadata)

    @cached_property
    def model(self) -> nn.Module:
        return quantize_int8(self.fitted.model) if self.int8 else self.fitted.model

    @cached_property
    def _nodes(self) -> pa.Table:
        return self.graph.nodes(["id", "side"])

    def compute(self, number: int, *, show: bool = False) -> pa.Table:
        """Ids and vectors of one chunk."""
        ids = np.array(self.chunks[number])
        vectors = pa.array(self._encode(ids, self.model, show=show).ravel(), pa.float32())
        column = pa.FixedSizeListArray.from_arrays(vectors, self.fitted.width)
        return pa.table([*self._id_columns(ids), column], schema=self.schema)

    def measure_int8(self) -> str:
        """How close vectors in 8-bit integers are to the exact ones, on a few hundred rows."""
        start, stop = self.facts["rows"]
        ids = np.unique(np.linspace(start, stop - 1, min(256, stop - start)).astype(np.int64))
        exact, rounded = (self._encode(ids, m) for m in (self.fitted.model, self.model))
        lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(rounded, axis=1)
        cosines = (exact * rounded).sum(1) / np.maximum(lengths, 1e-12)
        return (
            f"int8: cosine similarity to float32 over {len(ids)} {self.what}: mean "
            f"{cosines.mean():.5f}, minimum {cosines.min():.5f}"
        )

    def _encode(self, ids: Ids, model: nn.Module, *, show: bool = False) -> NDArray[np.float32]:
        encode: Any = encode_nodes if self.what == "nodes" else encode_edges
        options = replace(self.options, show=show)
        vectors: NDArray[np.float32] = encode(model, self.fitted.network.loader, ids, options)
        return vectors

    def _id_columns(self, ids: Ids) -> list[Any]:
        if self.what == "nodes":
            nodes = self._nodes.slice(int(ids[0]), len(ids))
            return [nodes.column("id"), nodes.column("side").cast(pa.string())]
        names = self._nodes.column("id")
        ends = (self.graph.src[ids], self.graph.dst[ids])
        return [pa.array(ids), *(names.take(pa.array(np.asarray(end))) for end in ends)]


def _open_job(
    model: Any,
    network: Any,
    device: str | None,
    *,
    what: What,
    shard: Shard,
    batch: int | None,
    chunk: int,
    int8: bool,
    show: bool = False,
) -> _Job:
    """Open the model with the network to embed; it must encode `what`."""
    fitted = open_fitted(model, network, device=device, show=show)
    task, own = fitted.config.task, fitted.entry.encodes
    if what != own:
        other = "an edge-classification" if what == "edges" else "a link-prediction"
        raise InputError(f"a {task} model has vectors of {own}; use {other} run for {what}")
    size = batch or fitted.config.train.eval_batch_size
    return _Job(fitted, what, shard, size, chunk, int8)


def _is_finished(path: Path, facts: dict[str, Any], overwrite: bool) -> bool:
    """Whether the file exists already; another file must not be overwritten by accident."""
    if not path.exists():
        return False
    try:
        existing = read_facts(path)
    except FormatError as error:
        raise InputError(f"{path} exists and is not a file of vectors") from error
    different = [name for name in _IDENTITY if existing[name] != facts[name]]
    if different and not overwrite:
        raise InputError(
            f"{path} exists with another {different[0].replace('_fingerprint', '')} (model "
            f"{existing['model'][:12]}, network {existing['network']}); choose another file, or "
            "pass `overwrite=True`"
        )
    return not different


def _find_shards(out: Path) -> list[Path]:
    pattern = re.compile(re.escape(out.stem) + r"\.\d{5}-of-(\d{5})\.parquet")
    matches = [pattern.fullmatch(path.name) for path in out.parent.glob("*.parquet")]
    counts = {int(match[1]) for match in matches if match}
    if len(counts) != 1:
        problem = "shards of several jobs" if counts else "no such file, and no shards of it"
        raise InputError(f"{out}: {problem}; write it with: edgeformers embed RUN -o {out}")
    (count,) = counts
    shards = [shard_path(out, (number, count)) for number in range(1, count + 1)]
    for number, path in enumerate(shards, 1):
        if not path.is_file():
            raise InputError(f"{path} is missing; embed shard {number}/{count} first")
    return shards


def _checked_shard(shard: Shard) -> Shard:
    number, count = shard
    if not 1 <= number <= count:
        raise InputError(f"shards are numbered from 1 to their count (got {number}/{count})")
    return number, count
