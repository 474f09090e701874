"""EdgeTextGraph: a prepared network, opened at once and read only where it is touched."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.adjacency import Adjacency, build_adjacency
from edgeformers.data.arrays import open_array
from edgeformers.data.checksums import check_files, verify_files
from edgeformers.data.metadata import NetworkMeta
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.splits import (
    PROFILE,
    TRAIN,
    EdgeArrays,
    SplitConfig,
    make_split,
    seen_in_training,
)
from edgeformers.data.table import LabelKind
from edgeformers.data.tokens import TokenStore, open_tokens
from edgeformers.data.types import IntArray, Side
from edgeformers.errors import ConfigError, FormatError, InputError, suggest

TEXT_ROWS = 16_384  # texts per Parquet row group: what is read to show a single text


class EdgeTextGraph:
    """A network G = (V, E, D) whose edges carry text.

    Nodes and edges are numbered from 0. In a bipartite network sources come first, then targets;
    within a side nodes are numbered as they first appear. Edges keep the order of the table.
    Arrays are memory-mapped: opening ten million edges reads a few kilobytes.
    """

    def __init__(self, path: Path, meta: NetworkMeta) -> None:
        self.path = path
        self.meta = meta

    @classmethod
    def open(cls, path: str | PathLike[str], *, verify: bool = False) -> "EdgeTextGraph":
        """Open a prepared folder; `verify` compares every checksum, which reads everything."""
        folder = Path(path).expanduser()
        meta = NetworkMeta.read(folder)
        check_files(folder, meta.files, checksums=verify)
        graph = cls(folder, meta)
        if verify:
            for store in graph._token_folders():
                open_tokens(store, verify=True)
        return graph

    def verify(self) -> None:
        """Compare the checksums of files that changed since this was last done.

        Whatever learns from a network, or computes with it, does so first. Tokens are verified
        when they are opened to be used.
        """
        verify_files(self.path, self.meta.files)

    def __reduce__(self) -> tuple[Any, ...]:
        return EdgeTextGraph, (self.path, self.meta)  # another process maps the arrays itself

    def __repr__(self) -> str:
        kind = "bipartite" if self.is_bipartite else "one node type"
        counts = f"{self.num_nodes:,} nodes, {self.num_edges:,} edges"
        return f"EdgeTextGraph({self.name}: {counts}, {kind})"

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def num_nodes(self) -> int:
        return self.meta.num_nodes

    @property
    def num_edges(self) -> int:
        return self.meta.num_edges

    @property
    def num_sources(self) -> int:
        return self.meta.num_sources

    @property
    def num_targets(self) -> int:
        return self.num_nodes - self.num_sources if self.is_bipartite else self.num_nodes

    @property
    def is_bipartite(self) -> bool:
        return self.meta.is_bipartite

    @property
    def is_directed(self) -> bool:
        return self.meta.is_directed

    @property
    def label_kind(self) -> LabelKind | None:
        return self.meta.label_kind

    @property
    def label_names(self) -> list[str]:
        return self.meta.label_names

    @property
    def edge_type_names(self) -> list[str]:
        return self.meta.edge_type_names

    @property
    def origin(self) -> str:
        return self.meta.origin

    @property
    def skipped(self) -> dict[str, Any]:
        return self.meta.skipped

    @property
    def notes(self) -> list[str]:
        return self.meta.notes

    @cached_property
    def src(self) -> IntArray:
        """The source node of every edge [E]."""
        return self._edge_array("src")

    @cached_property
    def dst(self) -> IntArray:
        """The target node of every edge [E]."""
        return self._edge_array("dst")

    @cached_property
    def labels(self) -> NDArray[Any] | None:
        """Class codes [E] (-1: none), several labels [E, C], or numbers [E] (nan: none)."""
        return self._optional("labels")

    @cached_property
    def times(self) -> NDArray[np.int64] | None:
        """Microseconds since 1970 in UTC [E]; the lowest int64 where there is no time."""
        return self._optional("times")

    @cached_property
    def weights(self) -> NDArray[np.float32] | None:
        """A weight for each edge [E], nan where there is none."""
        return self._optional("weights")

    @cached_property
    def edge_types(self) -> NDArray[np.int16] | None:
        """The type of each edge [E], -1 where there is none."""
        return self._optional("edge_types")

    @cached_property
    def text_hashes(self) -> NDArray[np.uint64]:
        """A hash of each text [E]: equal texts have equal hashes."""
        return self._edge_array("text_hashes")

    @cached_property
    def text_lengths(self) -> NDArray[np.int32]:
        """The length of each text in characters [E]."""
        return self._edge_array("text_lengths")

    @cached_property
    def splits(self) -> Mapping[str, NDArray[np.uint8]]:
        """Each split by its name: a code per edge, 0 train, 1 validation, 2 test, 255 none."""
        return {name: self._edge_array(f"splits/{name}") for name in self.meta.splits}

    @cached_property
    def split_configs(self) -> Mapping[str, SplitConfig]:
        """How each split was made."""
        described = self.meta.splits.items()
        return {name: SplitConfig.from_dict(one["config"]) for name, one in described}

    def split(self, name: str) -> NDArray[np.uint8]:
        """One split: a prepared one by its name, or any other by how it is made: `cold-source`.

        What says how is what `prepare` takes (`SplitConfig.parse`); only a column must have been
        prepared. An unknown name is answered with the known ones.
        """
        if name in self.splits:
            return self.splits[name]
        if name not in self._made_splits:
            self._made_splits[name] = make_split(self._described_split(name), self.facts)
        return self._made_splits[name]

    def has_split(self, name: str) -> bool:
        """Whether there is such a split, or its name says how it is made."""
        try:
            return name in self.splits or bool(self._described_split(name))
        except InputError:
            return False

    @cached_property
    def _made_splits(self) -> dict[str, NDArray[np.uint8]]:
        """Splits that were asked for by how they are made."""
        return {}

    def _described_split(self, name: str) -> SplitConfig:
        with suppress(ConfigError):
            config = SplitConfig.parse(name)
            if config.how != "column" and not (config.needs_times and self.times is None):
                return config
        raise InputError(f"{self.path} has no split '{name}'; {suggest(name, self.splits)}")

    @cached_property
    def facts(self) -> EdgeArrays:
        """What splits are made from."""
        return EdgeArrays(
            src=self.src,
            dst=self.dst,
            num_nodes=self.num_nodes,
            directed=self.is_directed,
            times=self.times,
        )

    @cached_property
    def adjacency(self) -> Adjacency:
        """All edges around every node, of every split: not what may be trained on."""
        return Adjacency(
            indptr=self._array("adjacency.indptr"),
            links=self._array("adjacency.links"),
        )

    def training_adjacency(
        self, split: str, *, strata: Literal["none", "positive", "edge_type"] = "none"
    ) -> Adjacency:
        """Training edges around every node, in strata: positive and negative edges, edge types.

        Around a node that training has not met stands its profile, which no other node sees.
        """
        groups, count = self._strata(strata)
        codes = self.split(split)
        unseen = ~seen_in_training(codes, self.facts)
        profile = codes == PROFILE
        around = [(codes == TRAIN) | (profile & unseen[end]) for end in (self.src, self.dst)]
        found = build_adjacency(
            self.src,
            self.dst,
            self.num_nodes,
            keep=(around[0], around[1]),
            strata=groups,
            num_strata=count,
        )
        return replace(found, held_out=unseen & (found.degrees() > 0)) if profile.any() else found

    def sampler(
        self,
        split: str,
        sizes: Sequence[int],
        *,
        strata: Literal["none", "positive", "edge_type"] = "none",
        seed: int = 0,
    ) -> EgoSampler:
        """A sampler over the training edges of a split, `sizes` edges from each stratum."""
        return EgoSampler(self.training_adjacency(split, strata=strata), sizes, seed=seed)

    @cached_property
    def is_positive(self) -> NDArray[np.bool_]:
        """Whether each edge counts as a link: its label, or one of several, is a positive one."""
        if not self.meta.positive_labels:
            return np.ones(self.num_edges, bool)
        codes = [self.label_names.index(name) for name in self.meta.positive_labels]
        labels = np.asarray(self.labels)
        if labels.ndim == 2:
            return np.asarray(labels[:, codes].any(axis=1))
        return np.isin(labels, codes)

    def texts(self, edge_ids: ArrayLike) -> list[str]:
        """The texts of chosen edges."""
        wanted = self._checked(np.asarray(edge_ids, np.int64), self.num_edges, "edges")
        groups = np.searchsorted(self._text_starts, wanted, side="right") - 1
        found: dict[int, str] = {}
        with _naming(self.path / "texts.parquet"):
            for group in np.unique(groups).tolist():
                rows = wanted[groups == group]
                column = self._text_file.read_row_group(group).column(0)
                values = column.take(pa.array(rows - self._text_starts[group])).to_pylist()
                found.update(zip(rows.tolist(), values, strict=True))
        return [found[i] for i in wanted.tolist()]

    def iter_texts(self) -> Iterator[list[str]]:
        """All texts in the order of edges, a chunk at a time."""
        with _naming(self.path / "texts.parquet"), self._open_texts() as file:
            for batch in file.iter_batches(TEXT_ROWS):
                yield batch.column(0).to_pylist()

    def iter_node_texts(self) -> Iterator[list[str]]:
        """The texts of all nodes in order (empty where a node has none), a chunk at a time."""
        path = self.path / "nodes.parquet"
        with _naming(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(TEXT_ROWS, columns=["text"]):
                yield pc.fill_null(batch.column(0), "").to_pylist()

    def edges(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The table of edges: src, dst, and the columns that came with them."""
        return self._table("edges.parquet", columns)

    def nodes(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The table of nodes: id, side, labels, text, and what else came with them."""
        return self._table("nodes.parquet", columns)

    @cached_property
    def node_index(self) -> NodeIndex:
        """Node ids, as the user wrote them, to node numbers and back."""
        ids = self.nodes(["id"]).column(0).cast(pa.string())
        return NodeIndex(ids, self.num_sources if self.is_bipartite else None)

    def node_names(self, nodes: ArrayLike) -> list[str]:
        """The ids of nodes as the user wrote them."""
        return self.node_index.ids_of(nodes)

    def node_number(self, name: str, side: Side | None = None) -> int:
        """The number of a node; in a bipartite network `side` distinguishes equal ids."""
        return int(self.node_index.known_numbers([name], side)[0])

    @cached_property
    def node_labels(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """(offsets [V+1], label codes): the labels of node v, coded as in `node_label_names`."""
        if not self.meta.node_label_names:
            return None
        return self._array("node_labels.offsets"), self._array("node_labels.codes")

    @property
    def node_label_names(self) -> list[str]:
        return self.meta.node_label_names

    def token_stores(self) -> list[str]:
        """Names of the tokenizers this network's texts are tokenised with."""
        return sorted(open_tokens(folder).name for folder in self._token_folders())

    def token_store(self, name: str, part: Literal["edges", "nodes"] = "edges") -> TokenStore:
        """The token store of a tokenizer, by its name or its fingerprint.

        `edgeformers.data.tokenize.add_tokens` finds it by what the tokenizer does, and makes it
        where there is none.
        """
        stores = {store.name: store for store in map(open_tokens, self._token_folders())}
        known = {store.meta.fingerprint: store for store in stores.values()} | stores
        if name not in known:
            raise InputError(f"{self.path} is not tokenised with '{name}'; {suggest(name, stores)}")
        return open_tokens(known[name].folder, part, verify="changed")

    @property
    def tokens(self) -> TokenStore | None:
        """The token store there is, the first by name if there are several; None if none."""
        names = self.token_stores()
        return self.token_store(names[0]) if names else None

    def token_folder(self, fingerprint: str) -> Path:
        """Where the token store of a tokenizer stands, or would stand."""
        return self.path / "tokens" / fingerprint

    def _token_folders(self) -> list[Path]:
        folders = sorted(self.path.glob("tokens/*"))
        return [path for path in folders if path.is_dir() and not path.name.startswith(".")]

    @cached_property
    def _text_file(self) -> pq.ParquetFile:
        return self._open_texts()

    def _open_texts(self) -> pq.ParquetFile:
        with _naming(self.path / "texts.parquet"):
            return pq.ParquetFile(self.path / "texts.parquet", memory_map=True)

    @cached_property
    def _text_starts(self) -> NDArray[np.int64]:
        """The first edge of each row group of texts, and the number of edges."""
        metadata = self._text_file.metadata
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return np.cumsum([0, *rows])

    def _table(self, name: str, columns: Sequence[str] | None) -> pa.Table:
        path = self.path / name
        with _naming(path), pq.ParquetFile(path) as file:
            known = file.schema_arrow.names
            for column in columns or ():
                if column not in known:
                    raise InputError(f"{path} has no column '{column}'; {suggest(column, known)}")
            return file.read(columns=None if columns is None else list(columns))

    def _checked(self, numbers: NDArray[np.int64], count: int, what: str) -> NDArray[np.int64]:
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
            raise InputError(
                f"{self.path}: {what} are numbered from 0 to {count - 1:,} "
                f"(got {numbers.min():,} to {numbers.max():,})"
            )
        return numbers

    def _strata(self, strata: str) -> tuple[NDArray[np.int16] | None, int]:
        if strata == "none":
            return None, 1
        if strata == "positive":
            return np.where(self.is_positive, 0, 1).astype(np.int16), 2
        if strata == "edge_type":
            if self.edge_types is None:
                raise InputError(f"{self.path} has no edge types")
            return self.edge_types, len(self.edge_type_names)
        raise InputError(f"strata '{strata}' is unknown; available: none, positive, edge_type")

    def _array(self, name: str) -> NDArray[Any]:
        return open_array(self.path / f"{name}.npy")

    def _edge_array(self, name: str) -> NDArray[Any]:
        """An array with one row per edge."""
        array = self._array(name)
        if len(array) != self.num_edges:
            raise FormatError(
                f"{self.path / name}.npy has {len(array):,} rows for {self.num_edges:,} edges; "
                "prepare the network again"
            )
        return array

    def _optional(self, name: str) -> NDArray[Any] | None:
        return self._edge_array(name) if f"{name}.npy" in self.meta.files else None


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What goes wrong while a Parquet file is read, with its name."""
    try:
        yield
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; prepare the network again") from error
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path} is damaged ({error}); prepare the network again") from error
