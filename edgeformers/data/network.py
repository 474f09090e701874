"""write_network: a table of edges becomes a folder, in one pass and in bounded memory."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import DTypeLike, NDArray

from edgeformers import __version__
from edgeformers.data.adjacency import build_adjacency, small_int
from edgeformers.data.columns import (
    MAX_CLASSES,
    CategoryEncoder,
    natural_order,
    write_label_sets,
)
from edgeformers.data.edge_store import EdgeStore
from edgeformers.data.filtering import filter_edges
from edgeformers.data.graph import TEXT_ROWS, EdgeTextGraph
from edgeformers.data.id_table import string_buffers
from edgeformers.data.jit import jit
from edgeformers.data.numba_kernels import hash_strings
from edgeformers.data.numbering import NodeNumbering
from edgeformers.data.readers.values import parse_numbers
from edgeformers.data.splits import (
    DEFAULT_SPLITS,
    FUTURE_SPLIT,
    NO_TIME,
    NONE,
    PART_ALIASES,
    EdgeList,
    SplitConfig,
    count_cold_edges,
    count_parts,
    make_split,
    missing_column,
    split_future,
)
from edgeformers.data.storage import (
    ArrayWriter,
    NetworkMeta,
    blocks,
    check_replaceable,
    fingerprint_folder,
    open_array,
    write_array,
)
from edgeformers.data.store_merge import StoreMerge
from edgeformers.data.table import (
    BATCH_ROWS,
    EDGE_FIELDS,
    EdgeTable,
    NodeTable,
    check_ends,
    rebatch,
)
from edgeformers.data.tokenize import add_tokens, checked_tokenizer
from edgeformers.data.types import Ids, IntArray, Side, SplitCodes
from edgeformers.errors import InputError, suggest
from edgeformers.files import atomic_folder
from edgeformers.locks import single_writer
from edgeformers.progress import print_message, progress_bar

Convert = Callable[[pa.Array], Any]  # a column as an array

KEY_COLUMNS = ("source", "target", "text")  # stored apart from edges.parquet
MAX_NODE_LABELS = 10_000  # their names are read whenever the network is opened


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Settings for turning a table of edges into a network."""

    # None: the split column, or DEFAULT_SPLITS and, if all edges have times, FUTURE_SPLIT
    splits: Sequence[SplitConfig] | None = None
    tokenizer: str | None = "auto"  # minilm if installed; None: tokenize later
    positive_labels: Sequence[str] = ()  # labels of edges that count as links; empty: all edges
    neighbors: Mapping[str, list[int]] = field(default_factory=dict)  # sampled per side
    keep_isolated: bool = False  # keep nodes of the node tables that have no edge
    min_degree: int = 1  # keep the k-core, in which every node has this many edges
    drop_repeats: bool = False  # of edges with equal source, target and text, keep the first
    add: Sequence[str | PathLike[str]] = ()  # stores of new edges, which a server writes
    notes: Sequence[str] = ()
    check: Callable[[EdgeTextGraph], list[str]] | None = None  # may raise; returns more notes
    complete: Callable[[EdgeTextGraph], object] | None = None  # called before the folder appears
    progress: bool = True


def write_network(
    table: EdgeTable,
    out: str | PathLike[str],
    *,
    nodes: Sequence[NodeTable] = (),
    config: PrepareConfig | None = None,
    overwrite: bool = False,
) -> EdgeTextGraph:
    """Write a network from a table of edges; the folder appears only when it is complete."""
    config = config or PrepareConfig()
    out = Path(out).expanduser()
    _check_settings(table, config)
    splits = _checked_splits(table, config)
    tokenizer = checked_tokenizer(config.tokenizer)
    written = atomic_folder(out, overwrite=overwrite, check=check_replaceable)
    with ExitStack() as stack:
        stores = [stack.enter_context(EdgeStore.snapshot(path)) for path in config.add]
        parts = [split.column for split in splits if split.how == "column"]
        merge = StoreMerge(table, stores, parts)
        stack.enter_context(single_writer(out))
        folder = stack.enter_context(written)
        filtered, notes = filter_edges(
            merge.table,
            drop_repeats=config.drop_repeats,
            min_degree=config.min_degree,
            progress=config.progress,
        )
        writer = _NetworkWriter(folder, filtered, replace(config, notes=[*config.notes, *notes]))
        writer.read_table()
        writer.meta = replace(
            writer.meta, stores=merge.records(), notes=[*writer.meta.notes, *merge.notes()]
        )
        writer.write_columns()
        writer.write_nodes(nodes)
        writer.write_edges()
        writer.write_splits(splits)
        writer.write_metadata()
        if tokenizer is not None:
            add_tokens(EdgeTextGraph.open(folder), tokenizer, progress=config.progress)
        if config.complete is not None:
            config.complete(EdgeTextGraph.open(folder))
    return EdgeTextGraph.open(out)


def _check_settings(table: EdgeTable, config: PrepareConfig) -> None:
    """Reject conflicting names and settings before anything is read."""
    columns = table.schema.names
    for name, kind in EDGE_FIELDS.items():
        if name in columns and columns.count(name) == 1 and table.schema.field(name).type != kind:
            raise InputError(
                f"{table.origin}: the column '{name}' must be of type {kind} "
                f"(got {table.schema.field(name).type})"
            )
        if name in KEY_COLUMNS and name not in columns:
            raise InputError(f"{table.origin} has no column '{name}'; every edge table needs one")
    for name in columns:
        if name in ("src", "dst") or columns.count(name) > 1:
            raise InputError(
                f"{table.origin}: a kept column cannot have the name '{name}', which is in use"
            )
    if config.positive_labels and "label" not in columns:
        raise InputError("positive labels need a label column; name it with `label=`")
    if config.min_degree < 1:
        raise InputError(f"`min_degree=` must be at least 1 (got {config.min_degree})")
    if config.keep_isolated and config.min_degree > 1:
        raise InputError(
            "`keep_isolated=True` keeps nodes without edges, but `min_degree=` drops them; use "
            "only one of the two"
        )


def _checked_splits(table: EdgeTable, config: PrepareConfig) -> Sequence[SplitConfig]:
    """The splits to make; those that the table does not allow are rejected before reading."""
    columns = table.schema.names
    if config.splits is None:
        by_column = (SplitConfig(name="column", how="column"),)
        return by_column if "split" in columns else DEFAULT_SPLITS
    names = [split.name for split in config.splits]
    for split in config.splits:
        if names.count(split.name) > 1:
            raise InputError(f"two splits have the name '{split.name}'; names must be unique")
        if split.how == "column" and split.column not in columns:
            raise InputError(missing_column(split))
        if split.needs_times and "time" not in columns:
            raise InputError(
                f"the split '{split.name}' needs times; name the time column with `time=`"
            )
    return config.splits


class _NetworkWriter:
    """The steps of writing; each one writes files to the folder and completes `meta`."""

    src: IntArray
    dst: IntArray
    times: Ids | None = None

    def __init__(self, folder: Path, table: EdgeTable, config: PrepareConfig) -> None:
        self.folder = folder
        self.table = table
        self.config = config
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.staged = self.scratch / "staged.parquet"
        self.numbering = NodeNumbering(bipartite=table.bipartite, scratch=self.scratch)
        self.kept = [field for field in table.schema if field.name not in KEY_COLUMNS]
        self.meta = NetworkMeta(
            library_version=__version__,
            num_nodes=0,
            num_sources=0,
            num_edges=0,
            is_bipartite=table.bipartite,
            is_directed=table.directed,
            has_published_order=table.has_published_order,
            origin=table.origin,
            neighbors=dict(config.neighbors),
            positive_labels=[str(label) for label in config.positive_labels],
            notes=list(config.notes),
        )

    def read_table(self) -> None:
        """One pass over the table: write the texts, number the nodes, stage the other columns."""
        text = pa.schema([("text", pa.string())])
        # numbered, because "a" would also select a column "a.b"
        schema = pa.schema([(f"c{i}", field.type) for i, field in enumerate(self.kept)])
        arrays: dict[str, DTypeLike] = {"scratch/src": np.int32, "scratch/dst": np.int32}
        arrays |= {"text_hashes": np.uint64, "text_lengths": np.int32}
        with ExitStack() as stack:
            bar = stack.enter_context(
                progress_bar(desc="reading edges", unit="edges", show=self.config.progress)
            )
            path = self.folder / "texts.parquet"
            texts = stack.enter_context(pq.ParquetWriter(path, text, compression="zstd"))
            staged = stack.enter_context(pq.ParquetWriter(self.staged, schema, compression="lz4"))
            src, dst, hashes, lengths = (
                stack.enter_context(ArrayWriter(self._path(name), dtype))
                for name, dtype in arrays.items()
            )
            for batch in rebatch(self.table.batches()):
                check_ends(batch, self.table.origin, src.length)
                numbers = self.numbering.add_edges(batch.column("source"), batch.column("target"))
                src.append(numbers[0])
                dst.append(numbers[1])
                filled = pc.fill_null(batch.column("text"), "")
                data, offsets = string_buffers(filled)
                hashes.append(jit(hash_strings, len(data))(data, offsets))
                lengths.append(pc.utf8_length(filled).to_numpy())
                texts.write_table(pa.table([filled], schema=text), TEXT_ROWS)
                others = [batch.column(field.name) for field in self.kept]
                if others:
                    staged.write_batch(pa.RecordBatch.from_arrays(others, schema=schema))
                bar.update(batch.num_rows)
        if not src.length:
            raise InputError(f"{self.table.origin} has no edges; a network needs at least one")
        errors = self.table.errors
        skipped = {"count": errors.count, "examples": list(errors.examples)}
        self.meta = replace(self.meta, num_edges=src.length, skipped=skipped)

    def write_columns(self) -> None:
        """Write the arrays of times, weights, edge types and labels."""
        columns = self.table.schema.names
        if "time" in columns:
            self.times = self._write_column(
                "times", "time", np.int64, lambda c: pc.fill_null(c.cast(pa.int64()), NO_TIME)
            )
        if "weight" in columns:
            self._write_column("weights", "weight", np.float32, _parse_numbers("weight"))
        if "edge_type" in columns:
            names = self._write_codes("edge_types", "edge_type", "edge type")
            self.meta = replace(self.meta, edge_type_names=names)
        if "label" in columns:
            names = self._write_labels()
            for label in self.meta.positive_labels:
                if label not in names:
                    raise InputError(
                        f"no edge has the positive label '{label}'; {suggest(label, names)}"
                    )
            self.meta = replace(self.meta, label_kind=self.table.label_kind, label_names=names)

    def _write_labels(self) -> list[str]:
        kind = self.table.label_kind
        if kind == "number":
            self._write_column("labels", "label", np.float32, _parse_numbers("label"))
            return []
        if kind == "class":
            return self._write_codes("labels", "label", "label")
        encoder = CategoryEncoder("label")
        codes = self._write_column("scratch/labels", "label", np.int32, encoder.encode)
        separator = self.table.label_separator or "|"
        return write_label_sets(self._path("labels"), codes, list(encoder.codes), separator)

    def _write_codes(self, file: str, column: str, what: str) -> list[str]:
        """Write a column of categories as codes in their natural order; returns their names."""
        encoder = CategoryEncoder(what, MAX_CLASSES)
        codes = self._write_column(f"scratch/{file}", column, np.int32, encoder.encode)
        names = natural_order(list(encoder.codes))
        pieces = (encoder.sort(block, np.int16)[1] for _, block in blocks(codes))
        write_array(self._path(file), np.int16, pieces)
        return names

    def _write_column(
        self, file: str, column: str, dtype: DTypeLike, convert: Convert
    ) -> NDArray[Any]:
        """Write a staged column as an array [E], converted batch by batch."""
        place = [field.name for field in self.kept].index(column)
        with self._staged_columns() as staged, ArrayWriter(self._path(file), dtype) as array:
            for batch in staged.iter_batches(BATCH_ROWS, columns=[f"c{place}"]):
                array.append(np.asarray(convert(batch.column(0))))
        return open_array(self._path(file))

    def write_nodes(self, tables: Sequence[NodeTable]) -> None:
        """Number the nodes, join the node tables, and write the table of nodes and its labels."""
        has_texts = False
        encoder = CategoryEncoder("node label", MAX_NODE_LABELS)
        counts, codes = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        numbering = self.numbering
        notes = numbering.add_tables(tables, keep_isolated=self.config.keep_isolated)
        schema, batches = numbering.node_batches(tables)
        path = self.folder / "nodes.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in rebatch(batches):
                writer.write_batch(batch)
                has_texts |= batch.column("text").null_count < batch.num_rows
                labels = pc.list_flatten(batch.column("labels"))
                nodes = pc.list_parent_indices(batch.column("labels"))
                is_label = pc.is_valid(labels)
                counts.append(np.bincount(nodes.filter(is_label), minlength=len(batch)))
                codes.append(encoder.encode(labels.filter(is_label)))
        names, sorted_codes = encoder.sort(np.concatenate(codes), np.int32)
        if names:
            np.save(self.folder / "node_labels.offsets.npy", np.cumsum(np.concatenate(counts)))
            np.save(self.folder / "node_labels.codes.npy", sorted_codes)
        self.meta = replace(
            self.meta,
            num_nodes=numbering.num_nodes,
            num_sources=numbering.num_sources,
            node_label_names=names,
            has_node_texts=has_texts,
            notes=[*self.meta.notes, *notes],
        )

    def write_edges(self) -> None:
        """Write the table of edges, node numbers and the staged columns, and the adjacency."""
        self.src = self._write_ends("src", 0)
        self.dst = self._write_ends("dst", self.numbering.first_target)
        number = pa.from_numpy_dtype(self.src.dtype)
        schema = pa.schema([("src", number), ("dst", number), *self.kept])
        with (
            self._staged_columns() as staged,
            pq.ParquetWriter(self.folder / "edges.parquet", schema, compression="zstd") as writer,
        ):
            batches = staged.iter_batches(BATCH_ROWS)
            for start, src in blocks(self.src, BATCH_ROWS):
                ends = [pa.array(src), pa.array(self.dst[start : start + len(src)])]
                others = next(batches).columns if self.kept else []
                writer.write_batch(pa.RecordBatch.from_arrays([*ends, *others], schema=schema))
        adjacency = build_adjacency(
            self.src,
            self.dst,
            self.meta.num_nodes,
            links_file=self._path("adjacency.links"),
        )
        np.save(self._path("adjacency.indptr"), adjacency.indptr)
        self.meta = replace(self.meta, columns=schema.names)

    def _write_ends(self, name: str, first: int) -> IntArray:
        """Write the node numbers of one end of every edge, which are staged from 0 on."""
        staged = open_array(self._path(f"scratch/{name}"))
        dtype = small_int(self.meta.num_nodes)
        numbers = (block.astype(dtype) + dtype(first) for _, block in blocks(staged))
        write_array(self._path(name), dtype, numbers)
        return open_array(self._path(name))

    def _staged_columns(self) -> pq.ParquetFile:
        # without a memory map, a reader keeps every row group that it has read
        return pq.ParquetFile(self.staged, memory_map=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def write_splits(self, configs: Sequence[SplitConfig]) -> None:
        """Write the codes of every split; its counts go to the metadata."""
        columns = {config.column for config in configs if config.how == "column"}
        edges = EdgeList(
            src=self.src,
            dst=self.dst,
            num_nodes=self.meta.num_nodes,
            directed=self.meta.is_directed,
            times=self.times,
            columns={name: self._split_column(name) for name in sorted(columns)},
            place=self.table.place,
        )
        (self.folder / "splits").mkdir()
        for config in configs:
            self._write_split(config, make_split(config, edges), edges)
        if self.config.splits is not None or configs is not DEFAULT_SPLITS:
            return
        codes, problem = split_future(edges)
        if codes is not None:
            self._write_split(FUTURE_SPLIT, codes, edges)
        elif problem:
            print_message(
                f"links will be trained on a random split instead of 'future', because {problem}",
                show=self.config.progress,
            )

    def _write_split(self, config: SplitConfig, codes: SplitCodes, edges: EdgeList) -> None:
        np.save(self.folder / f"splits/{config.name}.npy", codes)
        described = _describe_split(config, codes, edges)
        self.meta = replace(self.meta, splits={**self.meta.splits, config.name: described})

    def _split_column(self, name: str) -> SplitCodes:
        """The codes of the parts that a column names."""
        encoder = CategoryEncoder("split", MAX_CLASSES)
        codes = self._write_column(
            "scratch/split", name, np.int32, lambda c: encoder.encode(c.cast(pa.string()))
        )
        parts = {**PART_ALIASES, "": NONE, "none": NONE}
        words = [word.strip().lower() for word in encoder.codes]
        for code, word in enumerate(words):
            if word not in parts:
                raise InputError(
                    f"{self.table.origin}, edge {np.argmax(codes == code) + 1:,}: column '{name}': "
                    f"'{word}' is not a split; use train, val or test (or profile, for the context "
                    "of a held-out node)"
                )
        part_codes = np.array([*(parts[word] for word in words), NONE], np.uint8)
        return np.asarray(part_codes[codes])

    def write_metadata(self) -> None:
        """Remove temporary files, write checksums and metadata; run the caller's check."""
        shutil.rmtree(self.scratch)
        self.meta = replace(self.meta, files=fingerprint_folder(self.folder))
        self.meta.write(self.folder)
        if self.config.check is not None:
            notes = self.config.check(EdgeTextGraph.open(self.folder))
            replace(self.meta, notes=[*self.meta.notes, *notes]).write(self.folder)


def _parse_numbers(name: str) -> Convert:
    """A function that parses numbers for the column `name`; missing ones are NaN."""
    rows = 0

    def parse(column: pa.Array) -> NDArray[np.float64]:
        nonlocal rows
        numbers = parse_numbers(column) if pa.types.is_string(column.type) else column
        values = np.asarray(pc.fill_null(numbers, math.nan), np.float64)
        large = np.flatnonzero(np.abs(values) > np.finfo(np.float32).max)
        if len(large):
            raise InputError(
                f"edge {rows + large[0] + 1:,}: the {name} {values[large[0]]} is too large; the "
                "maximum is 3e38"
            )
        rows += len(values)
        return values

    return parse


def _describe_split(config: SplitConfig, codes: SplitCodes, edges: EdgeList) -> dict[str, Any]:
    """A split for the metadata: its settings, the sizes of its parts, and its cold edges."""
    before_drop = codes
    if config.unseen != "keep" or config.new_pairs:
        before_drop = make_split(replace(config, unseen="keep", new_pairs=False), edges)
    return {
        "config": config.to_dict(),
        "counts": count_parts(codes),
        "counts_before_drop": count_parts(before_drop),
        "cold": {side: count_cold_edges(codes, edges, side) for side in get_args(Side)},
    }
