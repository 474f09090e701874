"""Writing a network: a table of edges becomes a folder, in one pass, in bounded memory."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tqdm.auto import tqdm

from edgeformers import __version__
from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.arrays import open_array, save_array
from edgeformers.data.checksums import fingerprint_folder
from edgeformers.data.columns import ColumnArrays, NodeLabels, write_classes, write_label_sets
from edgeformers.data.filtering import thin
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.metadata import NetworkMeta, check_replaceable
from edgeformers.data.numbering import NodeNumbering
from edgeformers.data.splits import (
    DEFAULT_SPLITS,
    NONE,
    PART_ALIASES,
    EdgeList,
    SplitConfig,
    cold_edges,
    count_parts,
    make_split,
)
from edgeformers.data.storage import TEXT_ROWS
from edgeformers.data.table import BATCH_ROWS, EdgeTable, NodeTable, check_ends, rebatch
from edgeformers.data.tokenize import add_tokens, checked_tokenizer
from edgeformers.data.types import IntArray, Side
from edgeformers.errors import InputError, require, suggest
from edgeformers.files import atomic_folder

EDGE_KEYS = ("source", "target", "text")  # columns of a table that have files of their own


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """What to make of a table beside copying it."""

    splits: Sequence[SplitConfig] | None = None  # None: by the split column, or DEFAULT_SPLITS
    tokenizer: str | None = "auto"  # minilm where installed; None: tokenise later
    positive_labels: Sequence[str] = ()  # labels of edges that count as links; none: all edges
    neighbors: Mapping[str, list[int]] = field(default_factory=dict)
    keep_isolated: bool = False  # keep nodes of the node tables that have no edge
    min_degree: int = 1  # the edges every node has at least: what is written is the k-core
    drop_repeats: bool = False  # of edges with one source, target and text, keep the first
    notes: Sequence[str] = ()
    check: Callable[[EdgeTextGraph], list[str]] | None = None  # may refuse; gives more notes
    progress: bool = True


def write_network(
    table: EdgeTable,
    out: str | PathLike[str],
    *,
    nodes: Sequence[NodeTable] = (),
    config: PrepareConfig | None = None,
    overwrite: bool = False,
) -> EdgeTextGraph:
    """Prepare a network from a table of edges; the folder appears only when it is complete."""
    config = config or PrepareConfig()
    out = Path(out).expanduser()
    require("duckdb", "data")
    _check_columns(table, config)
    splits = _checked_splits(table, config)
    tokenizer = checked_tokenizer(config.tokenizer)
    with atomic_folder(out, overwrite=overwrite, check=check_replaceable) as folder:
        thinned, notes = thin(
            table,
            drop_repeats=config.drop_repeats,
            min_degree=config.min_degree,
            progress=config.progress,
        )
        writer = _Writer(folder, thinned, replace(config, notes=[*config.notes, *notes]))
        writer.write_texts_and_columns()
        writer.write_labels()
        writer.write_nodes(nodes)
        writer.write_edges()
        writer.write_adjacency()
        writer.write_splits(splits)
        writer.write_metadata()
        writer.check()
        if tokenizer is not None:
            add_tokens(EdgeTextGraph.open(folder), tokenizer, progress=config.progress)
    return EdgeTextGraph.open(out)


def _check_columns(table: EdgeTable, config: PrepareConfig) -> None:
    """Names that clash, labels that are not there and wishes that clash: refused before reading."""
    columns = table.schema.names
    for name in columns:
        if name in ("src", "dst") or columns.count(name) > 1:
            raise InputError(
                f"{table.origin}: a kept column may not be called '{name}', which another one is "
                "called already"
            )
    if config.positive_labels and "label" not in columns:
        raise InputError("positive labels need a label column; name it with --label")
    if config.min_degree < 1:
        raise InputError(f"--min-degree must be at least 1 (got {config.min_degree})")
    if config.keep_isolated and config.min_degree > 1:
        raise InputError(
            "--keep-isolated keeps nodes without edges and --min-degree drops them; leave one out"
        )


def _checked_splits(table: EdgeTable, config: PrepareConfig) -> Sequence[SplitConfig]:
    """The splits to make; what a table cannot give is refused before anything is read."""
    columns = table.schema.names
    if config.splits is None:
        by_column = (SplitConfig(name="column", how="column"),)
        return by_column if "split" in columns else DEFAULT_SPLITS
    names = [split.name for split in config.splits]
    for split in config.splits:
        if names.count(split.name) > 1:
            raise InputError(f"two splits are called '{split.name}'; give each its own name")
        if split.how == "column" and split.column not in columns:
            raise InputError(
                f"the split '{split.name}' needs the column '{split.column}', which is not there; "
                f"name the split column with --split-column, or keep it with --keep {split.column}"
            )
        if split.how.startswith("chronological") and "time" not in columns:
            raise InputError(
                f"the split '{split.name}' needs times; name the time column with --time"
            )
    return config.splits


class _Writer:
    """The steps of writing, each leaving its files in the folder and its edges in `meta`."""

    src: IntArray
    dst: IntArray

    def __init__(self, folder: Path, table: EdgeTable, config: PrepareConfig) -> None:
        self.folder = folder
        self.table = table
        self.config = config
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.staged = self.scratch / "staged.parquet"
        self.arrays = ColumnArrays(folder, table.schema, table.label_kind)
        self.meta = NetworkMeta(
            library_version=__version__,
            num_nodes=0,
            num_sources=0,
            num_edges=0,
            is_bipartite=table.bipartite,
            is_directed=table.directed,
            origin=table.origin,
            neighbors=dict(config.neighbors),
            positive_labels=[str(label) for label in config.positive_labels],
            notes=list(config.notes),
        )

    def write_texts_and_columns(self) -> None:
        """One pass over the table: texts to their file, columns to arrays, the rest staged."""
        text = pa.schema([("text", pa.string())])
        bar = tqdm(desc="reading edges", unit=" edges", disable=not self.config.progress)
        with (
            bar,
            pq.ParquetWriter(self.folder / "texts.parquet", text, compression="zstd") as texts,
            pq.ParquetWriter(self.staged, self._staged_schema(), compression="lz4") as staged,
            self.arrays,
        ):
            for batch in rebatch(self.table.batches()):
                batch = self._complete(batch)
                texts.write_table(pa.table([batch.column("text")], schema=text), TEXT_ROWS)
                columns = batch.drop_columns(["text"]).columns
                staged.write_batch(pa.RecordBatch.from_arrays(columns, schema=staged.schema))
                self.arrays.append(batch)
                bar.update(batch.num_rows)
        if not self.arrays.rows:
            raise InputError(f"{self.table.origin} has no edges; a network needs one at least")
        errors = self.table.errors
        skipped = {"count": errors.count, "examples": list(errors.examples)}
        self.meta = replace(self.meta, num_edges=self.arrays.rows, skipped=skipped)

    def write_labels(self) -> None:
        """Labels and edge types as codes, with their names; times and weights as they are."""
        for written, final in (("time", "times"), ("weight", "weights")):
            if written in self.arrays.writers:
                self.arrays.path(written).rename(self.folder / f"{final}.npy")
        codes = self.arrays.codes
        if "edge_type" in codes:
            path = self.folder / "edge_types.npy"
            names = write_classes(path, self.arrays.path("edge_type"), codes["edge_type"].words)
            self.meta = replace(self.meta, edge_type_names=names)
        if "label" in self.arrays.writers:
            names = self._write_label_codes(self.folder / "labels.npy")
            for label in self.meta.positive_labels:
                if label not in names:
                    raise InputError(
                        f"the positive label '{label}' is not met; {suggest(label, names)}"
                    )
            self.meta = replace(self.meta, label_kind=self.table.label_kind, label_names=names)

    def write_nodes(self, tables: Sequence[NodeTable]) -> None:
        """Number the nodes, join what is known of them, and write the table of nodes."""
        has_texts = False
        labels = NodeLabels(self.folder)
        bipartite = self.table.bipartite
        with NodeNumbering(self.staged, bipartite=bipartite, scratch=self.scratch) as numbering:
            notes = numbering.add_tables(tables, isolated=self.config.keep_isolated)
            self.src, self.dst = numbering.ends(self.meta.num_edges)
            schema, batches = numbering.node_batches(tables)
            path = self.folder / "nodes.parquet"
            with pq.ParquetWriter(path, schema, compression="zstd") as writer, labels:
                for batch in rebatch(batches):
                    writer.write_batch(batch)
                    labels.append(batch.column("labels"))
                    has_texts |= batch.column("text").null_count < batch.num_rows
            numbering.write_hashes(self.folder / "texts.parquet", self.folder / "text_hashes.npy")
        self.meta = replace(
            self.meta,
            num_nodes=numbering.num_nodes,
            num_sources=numbering.num_sources,
            node_label_names=labels.finish(),
            has_node_texts=has_texts,
            notes=[*self.meta.notes, *notes],
        )

    def write_edges(self) -> None:
        """The table of edges: the staged columns with node numbers in place of ids."""
        number = pa.from_numpy_dtype(self.src.dtype)
        kept = [field for field in self.table.schema if field.name not in EDGE_KEYS]
        schema = pa.schema([("src", number), ("dst", number), *kept])
        start = 0
        with (
            pq.ParquetFile(self.staged) as staged,
            pq.ParquetWriter(self.folder / "edges.parquet", schema, compression="zstd") as writer,
        ):
            columns = staged.schema_arrow.names[2:]
            for batch in staged.iter_batches(BATCH_ROWS, columns=columns or ["source"]):
                stop = start + batch.num_rows
                ends = [pa.array(self.src[start:stop]), pa.array(self.dst[start:stop])]
                rest = batch.columns if columns else []
                writer.write_batch(pa.RecordBatch.from_arrays([*ends, *rest], schema=schema))
                start = stop
        self.staged.unlink()
        save_array(self.folder / "src.npy", self.src)
        save_array(self.folder / "dst.npy", self.dst)
        self.meta = replace(self.meta, columns=schema.names)

    def write_adjacency(self) -> None:
        adjacency = build_adjacency(self.src, self.dst, self.meta.num_nodes)
        for name in ("indptr", "links"):
            save_array(self.folder / f"adjacency.{name}.npy", getattr(adjacency, name))

    def write_splits(self, configs: Sequence[SplitConfig]) -> None:
        """Every split asked for, with its counts and how many of its edges touch a cold node."""
        times = self.folder / "times.npy"
        wanted = {config.column for config in configs if config.how == "column"}
        edges = EdgeList(
            src=self.src,
            dst=self.dst,
            num_nodes=self.meta.num_nodes,
            directed=self.meta.is_directed,
            times=open_array(times) if times.exists() else None,
            columns={name: self._split_column(name) for name in sorted(wanted)},
        )
        (self.folder / "splits").mkdir()
        described: dict[str, dict[str, Any]] = {}
        for config in configs:
            parts = make_split(config, edges)
            save_array(self.folder / f"splits/{config.name}.npy", parts)
            described[config.name] = _describe_split(config, parts, edges)
        self.meta = replace(self.meta, splits=described)

    def write_metadata(self) -> None:
        """Remove what was staged, take the checksums, and write what everything is."""
        shutil.rmtree(self.scratch)
        self.meta = replace(self.meta, files=fingerprint_folder(self.folder))
        self.meta.write(self.folder)

    def check(self) -> None:
        """Let the caller look at the whole before it takes its name."""
        if self.config.check is not None:
            notes = self.config.check(EdgeTextGraph.open(self.folder))
            self.meta = replace(self.meta, notes=[*self.meta.notes, *notes])
            self.meta.write(self.folder)

    def _staged_schema(self) -> pa.Schema:
        """Source, target and the rest, the rest under names that no database confuses."""
        types = [field.type for field in self.table.schema if field.name not in EDGE_KEYS]
        ends = [("source", pa.string()), ("target", pa.string())]
        return pa.schema([*ends, *((f"c{i}", type_) for i, type_ in enumerate(types))])

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with "" for a missing text; an edge without an end is named."""
        check_ends(batch, self.table.origin, self.arrays.rows)
        place = batch.schema.get_field_index("text")
        text = pc.fill_null(batch.column("text"), "")
        return batch.set_column(place, batch.schema.field("text"), text)

    def _write_label_codes(self, path: Path) -> list[str]:
        codes = self.arrays.path("label")
        if self.table.label_kind == "number":
            codes.rename(path)
            return []
        words = self.arrays.codes["label"].words
        if self.table.label_kind == "multi":
            return write_label_sets(path, codes, words, self.table.label_separator or "|")
        return write_classes(path, codes, words)

    def _split_column(self, name: str) -> NDArray[np.uint8]:
        """A column of edges.parquet that names the parts, as codes of its words."""
        codes = np.empty(self.meta.num_edges, np.uint8)
        start = 0
        with pq.ParquetFile(self.folder / "edges.parquet") as edges:
            for batch in edges.iter_batches(BATCH_ROWS, columns=[name]):
                words = pc.utf8_trim_whitespace(batch.column(0).cast(pa.string()))
                encoded = pc.utf8_lower(words).dictionary_encode()
                codes[start : start + len(batch)] = self._part_codes(name, encoded, start)
                start += len(batch)
        return codes

    def _part_codes(self, name: str, words: pa.DictionaryArray, start: int) -> NDArray[np.uint8]:
        parts = {**PART_ALIASES, "": NONE, "none": NONE}
        known = words.dictionary.to_pylist()
        if unknown := [word for word in known if word not in parts]:
            row = start + pc.index(words.cast(pa.string()), unknown[0]).as_py() + 1
            raise InputError(
                f"{self.table.origin}, edge {row:,}: column '{name}': '{unknown[0]}' is not a "
                "split; write train, val or test (or profile, around a node held out)"
            )
        codes = np.array([parts[word] for word in known] + [NONE], np.uint8)
        places = pc.fill_null(words.indices, len(known)).to_numpy(zero_copy_only=False)
        return np.asarray(codes[places])


def _describe_split(
    config: SplitConfig, parts: NDArray[np.uint8], edges: EdgeList
) -> dict[str, Any]:
    """A split for the metadata: how it was made, its sizes, and how much of it is cold."""
    undropped = parts
    if config.unseen != "keep" or config.new_pairs:
        undropped = make_split(replace(config, unseen="keep", new_pairs=False), edges)
    return {
        "config": config.to_dict(),
        "counts": count_parts(parts),
        "counts_before_drop": count_parts(undropped),
        "cold": {side: int(cold_edges(parts, edges, side).sum()) for side in get_args(Side)},
    }
