"""Vectors of all nodes or all edges of a network, as Parquet files of any size that know whose."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from torch import nn
from tqdm.auto import tqdm

from edgeformers import __version__, distributed
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.errors import FormatError, InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.files import atomic_file, write_atomic
from edgeformers.inference.encode import encode_edges, encode_nodes
from edgeformers.inference.saved_model import model_fingerprint
from edgeformers.nn.fast.int8 import quantize_int8
from edgeformers.progress import print_message
from edgeformers.runs import network_fingerprint, open_run

What = Literal["nodes", "edges"]
Model = EdgeClassifier | LinkPredictor | str | PathLike[str]

FORMAT = "edgeformers-embeddings"
SCHEMA_VERSION = 1
KEY = b"edgeformers"  # of the Parquet metadata
CHUNK = 16_384  # rows encoded, written and forgotten together; a row group of the file
FACTS = "facts.json"
_SHARD = re.compile(r"\.(\d{5})-of-(\d{5})$")

#: Facts that must agree for two outputs to be the same work; versions may differ.
_SAME = ("what", "model", "network_fingerprint", "settings", "shard", "chunk", "batch", "int8")


@dataclass(frozen=True, kw_only=True)
class EmbeddingTable:
    """Vectors beside the ids they belong to, and what made them.

    Of nodes, `ids` has the columns id and side (null where there is one kind of node); of edges,
    edge (its number in the network), source and target.
    """

    ids: pa.Table
    vectors: NDArray[np.float32]  # [n, D]
    metadata: dict[str, Any]

    def __len__(self) -> int:
        return len(self.vectors)


def embed(
    model: Model,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    *,
    what: What,
    out: str | PathLike[str],
    shard: tuple[int, int] = (1, 1),
    batch: int | None = None,
    chunk: int = CHUNK,
    int8: bool = False,
    overwrite: bool = False,
    show: bool = True,
) -> Path:
    """Write the vectors of a network's nodes or edges, in its order, and give the file.

    `model` is an estimator or the folder of a run. `network` is by default the one it was
    trained on. With `shard=(2, 4)` the second quarter is written, to OUT.00002-of-00004.parquet.
    Finished chunks are kept aside: a run that was killed goes on behind the last of them and
    gives the same file. A finished file of the same model and network is left as it is; another
    one is replaced only with `overwrite`. With `int8`, on a CPU, linear maps multiply 8-bit
    integers; how close the vectors come is measured on a few hundred rows, and told.
    """
    if what not in get_args(What):
        raise InputError(f"what to embed must be nodes or edges (got '{what}')")
    estimator = _open(model, network, what, show)
    job = _Job(estimator, what, shard, batch or estimator.config.train.eval_batch_size, chunk, int8)
    path = shard_path(Path(out).expanduser(), shard)
    if distributed.broadcast(_is_finished(path, job.facts, overwrite)):
        return path
    parts = path.with_name(f".{path.name}.parts")
    if int8 and job.num_chunks:
        print_message(job.measure_int8(), show=show)
    for number in distributed.broadcast(_missing(parts, job)):
        table = job.rows(number, show=show and distributed.is_main())
        if distributed.is_main():
            _write_whole(parts / f"{number:08d}.parquet", iter([table]), job.schema)
    if distributed.is_main():
        files = (parts / f"{number:08d}.parquet" for number in range(job.num_chunks))
        bar = tqdm(files, total=job.num_chunks, desc="joining", disable=not show)
        _write_whole(path, map(pq.read_table, bar), job.schema)
        shutil.rmtree(parts, ignore_errors=True)
    distributed.barrier()
    return path


def read_embeddings(path: str | PathLike[str]) -> EmbeddingTable:
    """One file that `embed` wrote, or all shards of OUT.parquet in their order."""
    first = Path(path).expanduser()
    files = [first] if first.is_file() else _shards(first)
    facts = [read_facts(file) for file in files]
    for file, other in zip(files, facts, strict=True):
        if any(other[name] != facts[0][name] for name in _SAME if name != "shard"):
            raise FormatError(
                f"{file} was made by another model or from another network than {files[0]}; "
                "embed again with --overwrite"
            )
    table = pa.concat_tables([pq.read_table(file) for file in files])
    vectors = table.column("vector").combine_chunks()
    flat = vectors.values.to_numpy() if len(vectors) else np.empty(0, np.float32)
    return EmbeddingTable(
        ids=table.drop_columns("vector").replace_schema_metadata(None),
        vectors=flat.reshape(len(table), facts[0]["width"]),
        metadata=facts[0],
    )


def read_facts(path: Path) -> dict[str, Any]:
    """What is known of a file of vectors: its model, its network, its settings."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        facts: dict[str, Any] = json.loads(metadata.get(KEY, b"null"))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise FormatError(f"{path} cannot be read as Parquet ({error}); embed again") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise FormatError(f"{path} holds no vectors written by this library")
    facts.setdefault("int8", False)  # files of before there was a choice
    if facts["schema_version"] != SCHEMA_VERSION:
        raise FormatError(
            f"{path} has schema version {facts['schema_version']}, this library reads "
            f"{SCHEMA_VERSION}; embed again"
        )
    return facts


def parse_shard(text: str) -> tuple[int, int]:
    """`2/4` as (2, 4)."""
    number, slash, count = text.partition("/")
    if not slash or not number.isdigit() or not count.isdigit():
        raise InputError(f"write a shard as 1/4 (got '{text}')")
    return _checked_shard((int(number), int(count)))


def shard_path(out: Path, shard: tuple[int, int]) -> Path:
    """Where a shard is written: vectors.parquet -> vectors.00002-of-00004.parquet."""
    number, count = _checked_shard(shard)
    if out.suffix != ".parquet":
        raise InputError(f"vectors are written as Parquet; name the file {out}.parquet")
    return out if count == 1 else out.with_name(f"{out.stem}.{number:05d}-of-{count:05d}.parquet")


class _Job:
    """The rows of one output: which they are, how they are encoded, what the file says of them."""

    def __init__(
        self,
        estimator: EdgeClassifier | LinkPredictor,
        what: What,
        shard: tuple[int, int],
        batch: int,
        chunk: int,
        int8: bool,
    ) -> None:
        self.estimator, self.what, self.batch, self.chunk = estimator, what, batch, chunk
        self.graph: EdgeTextGraph = estimator.objective.loader.graph
        total = self.graph.num_nodes if what == "nodes" else self.graph.num_edges
        number, count = _checked_shard(shard)
        self.start, self.stop = (number - 1) * total // count, number * total // count
        self.num_chunks = -(-(self.stop - self.start) // chunk)
        self._nodes: pa.Table | None = None
        self.model = quantize_int8(estimator.model) if int8 else estimator.model
        width = int(estimator.model.width)  # type: ignore[arg-type]
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "library_version": __version__,
            "what": what,
            "model": model_fingerprint(estimator.model),
            "network": self.graph.name,
            "network_fingerprint": network_fingerprint(self.graph),
            "settings": estimator.config.to_dict(),
            "shard": [number, count],
            "rows": [self.start, self.stop],
            "width": width,
            "batch": batch,
            "chunk": chunk,
            "int8": int8,
        }
        vector = pa.field("vector", pa.list_(pa.float32(), width), nullable=False)
        columns = [("id", pa.string()), ("side", pa.string())]
        if what == "edges":
            columns = [("edge", pa.int64()), ("source", pa.string()), ("target", pa.string())]
        self.schema = pa.schema(
            [*columns, vector], metadata={KEY: json.dumps(self.facts, sort_keys=True).encode()}
        )

    def rows(self, number: int, *, show: bool) -> pa.Table:
        """Ids and vectors of one chunk."""
        first = self.start + number * self.chunk
        ids = np.arange(first, min(first + self.chunk, self.stop), dtype=np.int64)
        vectors = pa.array(self._encode(ids, show, self.model).ravel(), pa.float32())
        column = pa.FixedSizeListArray.from_arrays(vectors, self.facts["width"])
        return pa.table([*self._id_columns(ids), column], schema=self.schema)

    def measure_int8(self) -> str:
        """How close the vectors of a few hundred rows come to those of the model as it is."""
        count = min(256, self.stop - self.start)
        ids = np.unique(np.linspace(self.start, self.stop - 1, count).astype(np.int64))
        exact = self._encode(ids, False, self.estimator.model)
        found = self._encode(ids, False, self.model)
        lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(found, axis=1)
        cosines = (exact * found).sum(1) / np.maximum(lengths, 1e-12)
        return (
            f"in 8-bit integers, vectors of {len(ids)} {self.what} have a cosine of "
            f"{cosines.mean():.5f} to those in float32, {cosines.min():.5f} at the lowest"
        )

    def _encode(self, ids: Ids, show: bool, model: nn.Module) -> NDArray[np.float32]:
        estimator = self.estimator
        encode: Any = encode_nodes if self.what == "nodes" else encode_edges
        vectors: NDArray[np.float32] = encode(
            model,
            estimator.objective.loader,
            ids,
            device=estimator.device,
            autocast=estimator.autocast,
            batch=self.batch,
            show=show,
        )
        return vectors

    def _id_columns(self, ids: Ids) -> list[Any]:
        if self._nodes is None:
            self._nodes = self.graph.nodes(["id", "side"])
        if self.what == "nodes":
            part = self._nodes.slice(int(ids[0]), len(ids))
            return [part.column("id"), part.column("side").cast(pa.string())]
        names = self._nodes.column("id")
        ends = (self.graph.src[ids], self.graph.dst[ids])
        return [pa.array(ids), *(names.take(pa.array(np.asarray(end))) for end in ends)]


def _open(model: Model, network: Any, what: What, show: bool) -> EdgeClassifier | LinkPredictor:
    """The estimator with the network to be embedded; what its model does not encode is refused."""
    if isinstance(model, EdgeClassifier | LinkPredictor):
        made = model if network is None else model.attach(network)
    else:
        made = open_run(model, network, show=show)
    has = "nodes" if isinstance(made, LinkPredictor) else "edges"
    if what != has:
        kind = type(made).__name__
        other = "an edge-classification" if what == "edges" else "a link-prediction"
        raise InputError(f"a {kind} has vectors of {has}; take {other} run for {what}")
    return made if hasattr(made, "objective") else made.attach()


def _is_finished(path: Path, facts: dict[str, Any], overwrite: bool) -> bool:
    """Whether the file is there already; one of other work is refused, or to be replaced."""
    if not path.exists():
        return False
    try:
        found = read_facts(path)
    except FormatError as error:
        raise InputError(f"{path} exists and holds no vectors; choose another file") from error
    differing = [name for name in _SAME if found[name] != facts[name]]
    if differing and not overwrite:
        raise InputError(
            f"{path} was made with another {differing[0].replace('_fingerprint', '')} "
            f"({found['model'][:12]} from {found['network']}); choose another file, or pass "
            "--overwrite"
        )
    return not differing


def _missing(parts: Path, job: _Job) -> list[int]:
    """The chunks still to be made; parts that other work left behind are removed."""
    if not distributed.is_main():
        return []
    facts = json.dumps({name: job.facts[name] for name in _SAME}, sort_keys=True)
    noted = parts / FACTS
    if not noted.is_file() or noted.read_text(encoding="utf-8") != facts:
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        write_atomic(noted, facts)
    return [n for n in range(job.num_chunks) if not (parts / f"{n:08d}.parquet").is_file()]


def _write_whole(path: Path, tables: Iterator[pa.Table], schema: pa.Schema) -> None:
    """A Parquet file with a row group per table, which takes its name when it is complete."""
    with (
        atomic_file(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=False) as writer,
    ):
        for table in tables:
            writer.write_table(table.replace_schema_metadata(schema.metadata), len(table))


def _shards(out: Path) -> list[Path]:
    """All shards of a name, in order; one that is missing is named."""
    found = {}
    for path in out.parent.glob(f"{out.stem}.*-of-*.parquet"):
        match = _SHARD.search(path.stem)
        if match and path.stem[: match.start()] == out.stem:
            found[int(match[1]), int(match[2])] = path
    counts = {count for _, count in found}
    if len(counts) != 1:
        several = "shards of several runs" if counts else "no such file, and no shards of it"
        raise InputError(f"{out}: {several}; write them with: edgeformers embed RUN -o {out}")
    count = counts.pop()
    for number in range(1, count + 1):
        if (number, count) not in found:
            raise InputError(
                f"{shard_path(out, (number, count))} is missing; write it with --shard "
                f"{number}/{count}"
            )
    return [found[key] for key in sorted(found)]


def _checked_shard(shard: tuple[int, int]) -> tuple[int, int]:
    number, count = shard
    if not 1 <= number <= count:
        raise InputError(f"shards are numbered from 1 to their count (got {number}/{count})")
    return number, count
