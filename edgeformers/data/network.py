"""write_network: a table of edges becomes a folder, in one pass and in bounded memory."""

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
from tqdm.auto import tqdm

from edgeformers import __version__
from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.arrays import open_array, save_array
from edgeformers.data.checksums import fingerprint_folder
from edgeformers.data.columns import (
    EdgeColumnWriter,
    NodeLabelWriter,
    write_classes,
    write_label_sets,
)
from edgeformers.data.filtering import filter_edges
from edgeformers.data.graph import TEXT_ROWS, EdgeTextGraph
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
    missing_column,
)
from edgeformers.data.table import BATCH_ROWS, EdgeTable, NodeTable, check_ends, rebatch
from edgeformers.data.tokenize import add_tokens, checked_tokenizer
from edgeformers.data.types import IntArray, Side, SplitCodes
from edgeformers.errors import InputError, require, suggest
from edgeformers.files import atomic_folder

KEY_COLUMNS = ("source", "target", "text")  # stored apart from edges.parquet


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Settings for turning a table of edges into a network."""

    splits: Sequence[SplitConfig] | None = None  # None: the split column, or DEFAULT_SPLITS
    tokenizer: str | None = "auto"  # minilm if installed; None: tokenize later
    positive_labels: Sequence[str] = ()  # labels of edges that count as links; empty: all edges
    neighbors: Mapping[str, list[int]] = field(default_factory=dict)  # sampled per side
    keep_isolated: bool = False  # keep nodes of the node tables that have no edge
    min_degree: int = 1  # keep the k-core, in which every node has this many edges
    drop_repeats: bool = False  # of edges with equal source, target and text, keep the first
    notes: Sequence[str] = ()
    check: Callable[[EdgeTextGraph], list[str]] | None = None  # may raise; returns more notes
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
    require("duckdb", "data")
    _check_settings(table, config)
    splits = _checked_splits(table, config)
    tokenizer = checked_tokenizer(config.tokenizer)
    with atomic_folder(out, overwrite=overwrite, check=check_replaceable) as folder:
        filtered, notes = filter_edges(
            table,
            drop_repeats=config.drop_repeats,
            min_degree=config.min_degree,
            progress=config.progress,
        )
        writer = _NetworkWriter(folder, filtered, replace(config, notes=[*config.notes, *notes]))
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


def _check_settings(table: EdgeTable, config: PrepareConfig) -> None:
    """Reject conflicting names and settings before anything is read."""
    columns = table.schema.names
    for name in columns:
        if name in ("src", "dst") or columns.count(name) > 1:
            raise InputError(
                f"{table.origin}: a kept column cannot have the name '{name}', which is in use"
            )
    if config.positive_labels and "label" not in columns:
        raise InputError("positive labels need a label column; name it with --label")
    if config.min_degree < 1:
        raise InputError(f"--min-degree must be at least 1 (got {config.min_degree})")
    if config.keep_isolated and config.min_degree > 1:
        raise InputError(
            "--keep-isolated keeps nodes without edges, but --min-degree drops them; use only one"
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
                f"the split '{split.name}' needs times; name the time column with --time"
            )
    return config.splits


class _NetworkWriter:
    """The steps of writing; each one writes files to the folder and completes `meta`."""

    src: IntArray
    dst: IntArray

    def __init__(self, folder: Path, table: EdgeTable, config: PrepareConfig) -> None:
        self.folder = folder
        self.table = table
        self.config = config
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.staged = self.scratch / "staged.parquet"
        self.columns = EdgeColumnWriter(folder, table.schema, table.label_kind)
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

    def write_texts_and_columns(self) -> None:
        """One pass over the table: write texts and columns, stage the ids and the rest."""
        text = pa.schema([("text", pa.string())])
        bar = tqdm(desc="reading edges", unit=" edges", disable=not self.config.progress)
        with (
            bar,
            pq.ParquetWriter(self.folder / "texts.parquet", text, compression="zstd") as texts,
            pq.ParquetWriter(self.staged, self._staged_schema(), compression="lz4") as staged,
            self.columns,
        ):
            for batch in rebatch(self.table.batches()):
                batch = self._complete(batch)
                texts.write_table(pa.table([batch.column("text")], schema=text), TEXT_ROWS)
                columns = batch.drop_columns(["text"]).columns
                staged.write_batch(pa.RecordBatch.from_arrays(columns, schema=staged.schema))
                self.columns.append(batch)
                bar.update(batch.num_rows)
        if not self.columns.rows:
            raise InputError(f"{self.table.origin} has no edges; a network needs at least one")
        errors = self.table.errors
        skipped = {"count": errors.count, "examples": list(errors.examples)}
        self.meta = replace(self.meta, num_edges=self.columns.rows, skipped=skipped)

    def write_labels(self) -> None:
        """Recode labels and edge types in natural order; rename the other columns."""
        for column, array in (("time", "times"), ("weight", "weights")):
            if column in self.columns.writers:
                self.columns.path(column).rename(self.folder / f"{array}.npy")
        if "edge_type" in self.columns.encoders:
            path = self.folder / "edge_types.npy"
            categories = self.columns.encoders["edge_type"].categories
            names = write_classes(path, self.columns.path("edge_type"), categories)
            self.meta = replace(self.meta, edge_type_names=names)
        if "label" in self.columns.writers:
            names = self._write_label_codes(self.folder / "labels.npy")
            for label in self.meta.positive_labels:
                if label not in names:
                    raise InputError(
                        f"no edge has the positive label '{label}'; {suggest(label, names)}"
                    )
            self.meta = replace(self.meta, label_kind=self.table.label_kind, label_names=names)

    def write_nodes(self, tables: Sequence[NodeTable]) -> None:
        """Number the nodes, join the node tables, and write the table of nodes."""
        has_texts = False
        labels = NodeLabelWriter(self.folder)
        bipartite = self.table.bipartite
        with NodeNumbering(self.staged, bipartite=bipartite, scratch=self.scratch) as numbering:
            notes = numbering.add_tables(tables, keep_isolated=self.config.keep_isolated)
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
        """Write the table of edges: node numbers and the staged columns."""
        number = pa.from_numpy_dtype(self.src.dtype)
        kept = [field for field in self.table.schema if field.name not in KEY_COLUMNS]
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
        """Write the codes of every split; its counts go to the metadata."""
        times = self.folder / "times.npy"
        columns = {config.column for config in configs if config.how == "column"}
        edges = EdgeList(
            src=self.src,
            dst=self.dst,
            num_nodes=self.meta.num_nodes,
            directed=self.meta.is_directed,
            times=open_array(times) if times.exists() else None,
            columns={name: self._split_column(name) for name in sorted(columns)},
        )
        (self.folder / "splits").mkdir()
        splits: dict[str, dict[str, Any]] = {}
        for config in configs:
            codes = make_split(config, edges)
            save_array(self.folder / f"splits/{config.name}.npy", codes)
            splits[config.name] = _describe_split(config, codes, edges)
        self.meta = replace(self.meta, splits=splits)

    def write_metadata(self) -> None:
        """Remove temporary files, compute checksums and write the metadata."""
        shutil.rmtree(self.scratch)
        self.meta = replace(self.meta, files=fingerprint_folder(self.folder))
        self.meta.write(self.folder)

    def check(self) -> None:
        """Run the caller's check of the finished network."""
        if self.config.check is not None:
            notes = self.config.check(EdgeTextGraph.open(self.folder))
            self.meta = replace(self.meta, notes=[*self.meta.notes, *notes])
            self.meta.write(self.folder)

    def _staged_schema(self) -> pa.Schema:
        """Source, target and numbered column names, because DuckDB's names ignore case."""
        types = [field.type for field in self.table.schema if field.name not in KEY_COLUMNS]
        ends = [("source", pa.string()), ("target", pa.string())]
        return pa.schema([*ends, *((f"c{i}", type_) for i, type_ in enumerate(types))])

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with empty strings for missing texts; a missing end is an error."""
        check_ends(batch, self.table.origin, self.columns.rows)
        index = batch.schema.get_field_index("text")
        text = pc.fill_null(batch.column("text"), "")
        return batch.set_column(index, batch.schema.field("text"), text)

    def _write_label_codes(self, path: Path) -> list[str]:
        codes = self.columns.path("label")
        if self.table.label_kind == "number":
            codes.rename(path)
            return []
        categories = self.columns.encoders["label"].categories
        if self.table.label_kind == "multi":
            return write_label_sets(path, codes, categories, self.table.label_separator or "|")
        return write_classes(path, codes, categories)

    def _split_column(self, name: str) -> SplitCodes:
        """The codes of the parts that a column of edges.parquet names."""
        codes = np.empty(self.meta.num_edges, np.uint8)
        start = 0
        with pq.ParquetFile(self.folder / "edges.parquet") as edges:
            for batch in edges.iter_batches(BATCH_ROWS, columns=[name]):
                words = pc.utf8_trim_whitespace(batch.column(0).cast(pa.string()))
                encoded = pc.utf8_lower(words).dictionary_encode()
                codes[start : start + len(batch)] = self._part_codes(name, encoded, start)
                start += len(batch)
        return codes

    def _part_codes(self, column: str, words: pa.DictionaryArray, start: int) -> SplitCodes:
        parts = {**PART_ALIASES, "": NONE, "none": NONE}
        known = words.dictionary.to_pylist()
        if unknown := [word for word in known if word not in parts]:
            row = start + pc.index(words.cast(pa.string()), unknown[0]).as_py() + 1
            raise InputError(
                f"{self.table.origin}, edge {row:,}: column '{column}': '{unknown[0]}' is not a "
                "split; use train, val or test (or profile, for the context of a held-out node)"
            )
        codes = np.array([parts[word] for word in known] + [NONE], np.uint8)
        indices = pc.fill_null(words.indices, len(known)).to_numpy(zero_copy_only=False)
        return np.asarray(codes[indices])


def _describe_split(config: SplitConfig, codes: SplitCodes, edges: EdgeList) -> dict[str, Any]:
    """A split for the metadata: its settings, the sizes of its parts, and its cold edges."""
    before_drop = codes
    if config.unseen != "keep" or config.new_pairs:
        before_drop = make_split(replace(config, unseen="keep", new_pairs=False), edges)
    return {
        "config": config.to_dict(),
        "counts": count_parts(codes),
        "counts_before_drop": count_parts(before_drop),
        "cold": {side: int(cold_edges(codes, edges, side).sum()) for side in get_args(Side)},
    }
