"""EdgeTextGraph: a prepared network; opening it reads only its metadata."""

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
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.scratch import count_values, rows_where
from edgeformers.data.splits import (
    FUTURE_SPLIT,
    NO_TIME,
    PROFILE,
    TRAIN,
    EdgeList,
    SplitConfig,
    has_profiles,
    make_split,
    seen_in_training,
    split_future,
)
from edgeformers.data.storage import (
    REMEDY,
    NetworkMeta,
    check_files,
    check_offsets,
    check_once,
    check_range,
    open_array,
)
from edgeformers.data.tokens import TokenStore, open_tokens
from edgeformers.data.types import Ids, IntArray, Mask, Side, SplitCodes
from edgeformers.errors import ConfigError, FormatError, InputError, suggest

TEXT_ROWS = 16_384  # texts per Parquet row group, the unit read to access one text
TEXT_GROUPS = 4  # row groups that are kept in memory: those read last

Strata = Literal["none", "positive", "edge_type"]


class EdgeTextGraph:
    """A network G = (V, E, D) whose edges carry text.

    Nodes and edges are numbered from 0. In a bipartite network sources come first, then targets;
    nodes of a side are numbered in order of appearance, edges in the order of the table. Arrays
    are memory-mapped: opening ten million edges reads a few kilobytes.
    """

    def __init__(self, path: Path, meta: NetworkMeta) -> None:
        self.path = path
        self.name = path.name
        self.meta = meta
        self.num_nodes = meta.num_nodes
        self.num_edges = meta.num_edges
        self.num_sources = meta.num_sources
        self.is_bipartite = meta.is_bipartite
        self.num_targets = meta.num_nodes - (meta.num_sources if meta.is_bipartite else 0)
        self.is_directed = meta.is_directed
        #: Whether an edge links both its ends; in a bipartite network, it links its source only.
        self.is_undirected = not meta.is_bipartite and not meta.is_directed
        self.label_kind = meta.label_kind
        self.label_names = meta.label_names
        self.edge_type_names = meta.edge_type_names
        self.node_label_names = meta.node_label_names
        self.origin = meta.origin
        self.skipped = meta.skipped
        self.notes = meta.notes
        self._made_splits: dict[str, SplitCodes] = {}
        self._text_groups: dict[int, pa.ChunkedArray] = {}

    @classmethod
    def open(cls, path: str | PathLike[str], *, verify: bool = False) -> "EdgeTextGraph":
        """Open a prepared folder; `verify` reads every file and compares its checksum."""
        folder = Path(path).expanduser()
        graph = cls(folder, NetworkMeta.read(folder))
        check_files(folder, graph.meta.files, verify=verify)
        for tokens in graph._token_folders() if verify else ():
            open_tokens(tokens, verify=True)
        return graph

    def verify(self) -> None:
        """Compare counts with the arrays, and checksums of files that changed since the last call.

        Everything that computes with a network calls this first. Token stores are verified when
        they are opened.
        """
        arrays = [self.path / name for name in self.meta.files if name.endswith(".npy")]
        labels = self.num_nodes * len(self.node_label_names)
        most = max(2 * self.num_edges, self.num_nodes + 1, labels)  # what the largest may have
        for path in arrays:
            if len(open_array(path)) > most:  # before a huge file is read
                raise FormatError(f"{path} has more rows than the network allows; {REMEDY}")
        with self._parquet("nodes.parquet"):  # its number of rows, before node tables are allocated
            pass
        self._array("src", self.num_edges)
        check_files(self.path, self.meta.files, verify="changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return EdgeTextGraph, (self.path, self.meta)  # another process maps the arrays itself

    def __repr__(self) -> str:
        kind = "bipartite" if self.is_bipartite else "one node type"
        counts = f"{self.num_nodes:,} nodes, {self.num_edges:,} edges"
        return f"EdgeTextGraph({self.name}: {counts}, {kind})"

    @cached_property
    def src(self) -> IntArray:
        """The source node of every edge [E]."""
        return self._edge_array("src", values=(0, self.num_nodes))

    @cached_property
    def dst(self) -> IntArray:
        """The target node of every edge [E]."""
        return self._edge_array("dst", values=(0, self.num_nodes))

    @cached_property
    def labels(self) -> NDArray[Any] | None:
        """Class codes [E] (-1: missing), label sets [E, C], or numbers [E] (NaN: missing)."""
        if not self._has_array("labels"):
            return None
        if self.label_kind == "multi":
            return self._array("labels", self.num_edges, "b")
        if self.label_kind == "number":
            return self._edge_array("labels", "f")
        return self._edge_array("labels", "i", (-1, len(self.label_names)))

    @cached_property
    def times(self) -> Ids | None:
        """Microseconds since 1970 in UTC [E]; the lowest int64 if missing."""
        return self._edge_array("times", "i") if self._has_array("times") else None

    @cached_property
    def weights(self) -> NDArray[np.float32] | None:
        """The weight of each edge [E]; NaN if missing."""
        return self._edge_array("weights", "f") if self._has_array("weights") else None

    @cached_property
    def edge_types(self) -> NDArray[np.int16] | None:
        """The type of each edge [E]; -1 if missing."""
        codes = (-1, len(self.edge_type_names))
        return self._edge_array("edge_types", "i", codes) if self._has_array("edge_types") else None

    @cached_property
    def text_hashes(self) -> NDArray[np.uint64]:
        """A hash of each text [E]; equal texts have equal hashes."""
        return self._edge_array("text_hashes")

    @cached_property
    def text_lengths(self) -> NDArray[np.int32]:
        """The number of characters of each text [E]."""
        return self._edge_array("text_lengths")

    @cached_property
    def node_labels(self) -> tuple[Ids, NDArray[np.int32]] | None:
        """(offsets [V+1], codes): labels of node v as indices into `node_label_names`."""
        if not self.node_label_names:
            return None
        codes = self._array("node_labels.codes", None, values=(0, len(self.node_label_names)))
        return self._offsets("node_labels.offsets", len(codes)), codes

    @cached_property
    def is_positive(self) -> Mask:
        """Whether each edge counts as a link: whether one of its labels is a positive one [E]."""
        if not self.meta.positive_labels:
            return np.broadcast_to(np.True_, self.num_edges)  # a single byte
        codes = [self.label_names.index(name) for name in self.meta.positive_labels]
        labels = np.asarray(self.labels)
        if labels.ndim == 2:
            return np.asarray(labels[:, codes].any(axis=1))
        return np.isin(labels, codes)

    @cached_property
    def adjacency(self) -> Adjacency:
        """All edges around every node, held-out ones included: not for training."""
        links = self._array("adjacency.links", None)
        most, path = max(self.num_nodes, self.num_edges), self.path / "adjacency.links.npy"
        check_once(check_range, links, 0, most, path=path)
        return Adjacency(indptr=self._offsets("adjacency.indptr", len(links)), links=links)

    @cached_property
    def edge_list(self) -> EdgeList:
        """The arrays that splits are made from."""
        return EdgeList(
            src=self.src,
            dst=self.dst,
            num_nodes=self.num_nodes,
            directed=self.is_directed,
            times=self.times,
        )

    @cached_property
    def splits(self) -> Mapping[str, SplitCodes]:
        """The prepared splits by name; see `split` for others."""
        return {name: self._edge_array(f"splits/{name}", "u") for name in self.meta.splits}

    @cached_property
    def split_configs(self) -> Mapping[str, SplitConfig]:
        """The settings of each prepared split."""
        return {
            name: SplitConfig.from_dict(split["config"]) for name, split in self.meta.splits.items()
        }

    def split(self, name: str) -> SplitCodes:
        """The part of every edge [E]: 0 train, 1 validation, 2 test, 3 profile, 255 none.

        `name` is that of a prepared split, or a description such as `cold-source`, in the syntax
        of `SplitConfig.parse`.
        """
        if name in self.splits:
            return self.splits[name]
        if name not in self._made_splits:
            self._made_splits[name] = make_split(self.split_config(name), self.edge_list)
        return self._made_splits[name]

    def has_split(self, name: str) -> bool:
        """Whether `split` accepts the name."""
        return self._find_split(name) is not None

    def split_config(self, name: str) -> SplitConfig:
        """The settings of a prepared split, or of one that `name` describes."""
        config = self._find_split(name)
        if config is None:
            raise InputError(self._why_no_split(name))
        return config

    def _find_split(self, name: str) -> SplitConfig | None:
        if name in self.split_configs:
            return self.split_configs[name]
        with suppress(ConfigError):
            config = SplitConfig.parse(name)
            if config.how != "column" and not (config.needs_times and self.times is None):
                return config
        return None

    def _why_no_split(self, name: str) -> str:
        """Why there is no split of this name, and what to do."""
        config = FUTURE_SPLIT if name == FUTURE_SPLIT.name else None
        with suppress(ConfigError):
            config = config or SplitConfig.parse(name)
        if config is None or not config.needs_times:
            return f"the network has no split '{name}'; {suggest(name, self.splits)}"
        if self.times is None:
            return (
                f"the split '{name}' needs a time for every edge, but {self.path} has no times; "
                "prepare the network with `time=`"
            )
        problem = split_future(self.edge_list)[1]
        if problem:
            return f"{self.path} has no split '{name}', because {problem}"
        same = f"{FUTURE_SPLIT.how}:{'/'.join(map(str, FUTURE_SPLIT.fractions))}"
        return (
            f"{self.path} was prepared without the split '{name}'; use '{same}', which is the same"
        )

    def seen_in_training(self, split: str) -> Mask:
        """Whether each node has a training edge [V]."""
        return seen_in_training(self.split(split), self.edge_list)

    def training_edge_counts(self, split: str) -> Ids:
        """The number of training edges of each node [V]."""
        codes = self.split(split)
        chosen = rows_where(lambda rows: codes[rows] == TRAIN, self.num_edges)
        out, into = (count_values(end, self.num_nodes, chosen) for end in (self.src, self.dst))
        return out + into

    def training_adjacency(
        self, split: str, *, strata: Strata = "none", timed: bool = False
    ) -> Adjacency:
        """The training edges around every node; profile edges around a node that has none.

        Strata separate positive from negative edges, or edge types. No other node sees the
        profile edges. `timed` puts the edges of a node in time order.
        """
        if timed and (self.times is None or (self.times == NO_TIME).any()):
            raise InputError(f"{self.path} does not have a time for every edge")
        codes = self.split(split)
        is_training, unseen = codes == TRAIN, ~self.seen_in_training(split)
        ends = (self.src, self.dst) if has_profiles(codes) else ()
        of_ends = tuple(is_training | ((codes == PROFILE) & unseen[end]) for end in ends)
        stratum_of_edge, num_strata = self._strata(strata)
        adjacency = build_adjacency(
            self.src,
            self.dst,
            self.num_nodes,
            keep=of_ends or is_training,
            strata=stratum_of_edge,
            num_strata=num_strata,
            times=self.times if timed else None,
        )
        if not of_ends:
            return adjacency
        return replace(adjacency, held_out=unseen & (adjacency.degrees() > 0))

    def sampler(
        self,
        split: str,
        sizes: Sequence[int],
        *,
        strata: Strata = "none",
        timed: bool = False,
        seed: int = 0,
    ) -> EgoSampler:
        """A sampler of training edges, `sizes[s]` from each stratum s; `timed`: as of any time."""
        adjacency = self.training_adjacency(split, strata=strata, timed=timed)
        return EgoSampler(adjacency, sizes, seed=seed)

    def num_strata(self, strata: Strata) -> int:
        """The number of groups that strata separate the edges of a node into."""
        counts = {"none": 1, "positive": 2, "edge_type": len(self.edge_type_names)}
        if strata not in counts:
            raise InputError(f"unknown strata '{strata}'; available: {', '.join(counts)}")
        if strata == "edge_type" and self.edge_types is None:
            raise InputError(f"{self.path} has no edge types")
        return counts[strata]

    def _strata(self, strata: Strata) -> tuple[NDArray[np.int16] | None, int]:
        """The stratum of each edge, and the number of strata."""
        stratum_of_edge, count = None, self.num_strata(strata)
        if strata == "positive":
            stratum_of_edge = np.where(self.is_positive, 0, 1).astype(np.int16)
        elif strata == "edge_type":
            stratum_of_edge = self.edge_types
        return stratum_of_edge, count

    def texts(self, edge_ids: ArrayLike) -> list[str]:
        """The texts of some edges."""
        ids = np.asarray(edge_ids, np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < self.num_edges:
            raise InputError(
                f"{self.path}: edges are numbered from 0 to {self.num_edges - 1:,} "
                f"(got {ids.min():,} to {ids.max():,})"
            )
        texts = np.empty(len(ids), object)
        with self._parquet("texts.parquet") as file:
            rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            starts = np.cumsum([0, *rows])
            groups = np.searchsorted(starts, ids, side="right") - 1
            for group in np.unique(groups).tolist():
                column = self._text_group(file, group)
                in_group = groups == group
                texts[in_group] = column.take(pa.array(ids[in_group] - starts[group])).to_pylist()
        return list(texts)

    def _text_group(self, file: pq.ParquetFile, group: int) -> pa.ChunkedArray:
        """The texts of a row group; those of the last few groups are kept."""
        kept = self._text_groups
        column = kept.get(group)
        if column is None:
            column = file.read_row_group(group).column(0)
            newest = [*kept.items(), (group, column)][-TEXT_GROUPS:]
            self._text_groups = dict(newest)  # a new one: other threads may read the old one
        return column

    def iter_texts(self) -> Iterator[list[str]]:
        """All edge texts in order, in chunks."""
        return self._iter_texts("texts.parquet")

    def iter_node_texts(self) -> Iterator[list[str]]:
        """All node texts in order, in chunks; empty for nodes without a text."""
        return self._iter_texts("nodes.parquet")

    def _iter_texts(self, file: str) -> Iterator[list[str]]:
        with self._parquet(file) as parquet:
            for batch in parquet.iter_batches(TEXT_ROWS, columns=["text"]):
                yield pc.fill_null(batch.column(0), "").to_pylist()

    def edges(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The table of edges: src, dst, and all columns of the input but the text."""
        return self._table("edges.parquet", columns)

    def nodes(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The table of nodes: id, side, labels, text, and further columns of the input."""
        return self._table("nodes.parquet", columns)

    def _table(self, file: str, columns: Sequence[str] | None) -> pa.Table:
        with self._parquet(file) as parquet:
            known = parquet.schema_arrow.names
            for name in columns or ():
                if name not in known:
                    raise InputError(
                        f"{self.path / file} has no column '{name}'; {suggest(name, known)}"
                    )
            return parquet.read(columns=None if columns is None else list(columns))

    @cached_property
    def node_index(self) -> NodeIndex:
        """Maps node ids to node numbers and back."""
        ids = self.nodes(["id"]).column(0).cast(pa.string())
        return NodeIndex(ids, self.num_sources if self.is_bipartite else None)

    def node_names(self, nodes: ArrayLike) -> list[str]:
        """The ids of nodes, as in the input."""
        return self.node_index.ids_of(nodes)

    def nodes_on(self, side: Side | None) -> range:
        """The numbers of the nodes on a side; with one node type, or without a side, of all."""
        if side is None or not self.is_bipartite:
            return range(self.num_nodes)
        border = self.num_sources
        return range(border) if side == "source" else range(border, self.num_nodes)

    def node_number(self, name: str, side: Side | None = None) -> int:
        """The number of a node; in a bipartite network `side` distinguishes equal ids."""
        return int(self.node_index.known_numbers([name], side)[0])

    def token_stores(self) -> list[str]:
        """Names of the tokenizers this network is tokenized with."""
        return sorted({open_tokens(folder).name for folder in self._token_folders()})

    def token_store(self, name: str, part: Literal["edges", "nodes"] = "edges") -> TokenStore:
        """The token store of a tokenizer, by its name or fingerprint, with checksums verified.

        `edgeformers.data.tokenize.add_tokens` makes it if necessary.
        """
        stores = [open_tokens(folder) for folder in self._token_folders()]
        for store in stores:
            if name in (store.name, store.meta.fingerprint):
                return open_tokens(store.folder, part, verify="changed")
        names = sorted(store.name for store in stores)
        raise InputError(f"{self.path} is not tokenized with '{name}'; {suggest(name, names)}")

    @property
    def tokens(self) -> TokenStore | None:
        """The token store (the first by name, if there are several), or None."""
        names = self.token_stores()
        return self.token_store(names[0]) if names else None

    def _token_folders(self) -> list[Path]:
        folders = sorted(self.path.glob("tokens/*"))
        return [path for path in folders if path.is_dir() and not path.name.startswith(".")]

    def _array(
        self, name: str, rows: int | None, kinds: str = "iu", values: tuple[int, int] | None = None
    ) -> NDArray[Any]:
        """An array with so many rows, of some kinds of types, and with values in a range."""
        path = self.path / f"{name}.npy"
        array = open_array(path, kinds)
        if rows is not None and len(array) != rows:
            raise FormatError(f"{path} has {len(array):,} rows, not {rows:,}; {REMEDY}")
        return array if values is None else check_once(check_range, array, *values, path=path)

    def _edge_array(
        self, name: str, kinds: str = "iu", values: tuple[int, int] | None = None
    ) -> NDArray[Any]:
        """An array with one value per edge."""
        array = self._array(name, self.num_edges, kinds, values)
        if array.ndim != 1:
            raise FormatError(f"{self.path / name}.npy has {array.ndim} dimensions; {REMEDY}")
        return array

    def _offsets(self, name: str, length: int) -> NDArray[Any]:
        """Where the rows of each node begin in an array of some length [V+1]."""
        offsets = self._array(name, self.num_nodes + 1)
        return check_once(check_offsets, offsets, length, path=self.path / f"{name}.npy")

    def _has_array(self, name: str) -> bool:
        return f"{name}.npy" in self.meta.files

    @contextmanager
    def _parquet(self, file: str) -> Iterator[pq.ParquetFile]:
        """A Parquet file of the network; errors while reading it become FormatErrors."""
        path = self.path / file
        try:
            with pq.ParquetFile(path, memory_map=True) as parquet:
                rows = self.num_nodes if file == "nodes.parquet" else self.num_edges
                if parquet.metadata.num_rows != rows:
                    raise FormatError(
                        f"{path} has {parquet.metadata.num_rows:,} rows, not {rows:,}; {REMEDY}"
                    )
                yield parquet
        except FileNotFoundError as error:
            raise FormatError(f"{path} is missing; {REMEDY}") from error
        except (pa.ArrowException, OSError, LookupError) as error:
            raise FormatError(f"{path} is damaged ({error}); {REMEDY}") from error
