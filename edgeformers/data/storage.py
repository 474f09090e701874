"""NetworkStorage: reads the files of a prepared network, with arrays memory-mapped."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.arrays import open_array
from edgeformers.data.checksums import check_files, verify_files
from edgeformers.data.metadata import NetworkMeta
from edgeformers.data.tokens import TokenStore, open_tokens
from edgeformers.data.types import Ids
from edgeformers.errors import FormatError, InputError, suggest

TEXT_ROWS = 16_384  # texts per Parquet row group, the unit read to access one text


class NetworkStorage:
    """The folder of a prepared network: arrays, Parquet tables, texts and token stores."""

    def __init__(self, path: Path, meta: NetworkMeta) -> None:
        self.path = path
        self.meta = meta

    def check(self, *, checksums: bool = False) -> None:
        """Check that every file exists with its size and, optionally, compare all checksums."""
        check_files(self.path, self.meta.files, checksums=checksums)
        if checksums:
            for folder in self._token_folders():
                open_tokens(folder, verify=True)

    def verify(self) -> None:
        """Compare the checksums of files that changed since the last call."""
        verify_files(self.path, self.meta.files)

    def array(self, name: str) -> NDArray[Any]:
        return open_array(self.path / f"{name}.npy")

    def edge_array(self, name: str) -> NDArray[Any]:
        """An array with one row per edge."""
        array = self.array(name)
        if len(array) != self.meta.num_edges:
            raise FormatError(
                f"{self.path / name}.npy has {len(array):,} rows for {self.meta.num_edges:,} "
                "edges; prepare the network again"
            )
        return array

    def optional_edge_array(self, name: str) -> NDArray[Any] | None:
        return self.edge_array(name) if f"{name}.npy" in self.meta.files else None

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A Parquet table, or some of its columns."""
        path = self.path / name
        with _format_errors(path), pq.ParquetFile(path) as file:
            known = file.schema_arrow.names
            for column in columns or ():
                if column not in known:
                    raise InputError(f"{path} has no column '{column}'; {suggest(column, known)}")
            return file.read(columns=None if columns is None else list(columns))

    def texts(self, edge_ids: ArrayLike) -> list[str]:
        """The texts of some edges."""
        ids = self._checked_edges(np.asarray(edge_ids, np.int64))
        groups = np.searchsorted(self._text_starts, ids, side="right") - 1
        texts: dict[int, str] = {}
        with _format_errors(self.path / "texts.parquet"):
            for group in np.unique(groups).tolist():
                in_group = ids[groups == group]
                column = self._text_file.read_row_group(group).column(0)
                values = column.take(pa.array(in_group - self._text_starts[group])).to_pylist()
                texts.update(zip(in_group.tolist(), values, strict=True))
        return [texts[i] for i in ids.tolist()]

    def iter_texts(self) -> Iterator[list[str]]:
        """All edge texts in order, in chunks."""
        with _format_errors(self.path / "texts.parquet"), self._open_texts() as file:
            for batch in file.iter_batches(TEXT_ROWS):
                yield batch.column(0).to_pylist()

    def iter_node_texts(self) -> Iterator[list[str]]:
        """All node texts in order, in chunks; empty for nodes without a text."""
        path = self.path / "nodes.parquet"
        with _format_errors(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(TEXT_ROWS, columns=["text"]):
                yield pc.fill_null(batch.column(0), "").to_pylist()

    def token_folder(self, fingerprint: str) -> Path:
        """The folder of a tokenizer's token store, whether it exists or not."""
        return self.path / "tokens" / fingerprint

    def token_stores(self) -> dict[str, TokenStore]:
        """All token stores of edge texts by tokenizer name."""
        stores = [open_tokens(folder) for folder in self._token_folders()]
        return {store.name: store for store in sorted(stores, key=lambda store: store.name)}

    def token_store(self, name: str, part: Literal["edges", "nodes"] = "edges") -> TokenStore:
        """The token store of a tokenizer, by its name or fingerprint, with checksums verified."""
        stores = self.token_stores()
        known = {store.meta.fingerprint: store for store in stores.values()} | stores
        if name not in known:
            raise InputError(f"{self.path} is not tokenized with '{name}'; {suggest(name, stores)}")
        return open_tokens(known[name].folder, part, verify="changed")

    def _token_folders(self) -> list[Path]:
        folders = sorted(self.path.glob("tokens/*"))
        return [path for path in folders if path.is_dir() and not path.name.startswith(".")]

    @cached_property
    def _text_file(self) -> pq.ParquetFile:
        return self._open_texts()

    def _open_texts(self) -> pq.ParquetFile:
        with _format_errors(self.path / "texts.parquet"):
            return pq.ParquetFile(self.path / "texts.parquet", memory_map=True)

    @cached_property
    def _text_starts(self) -> Ids:
        """The first edge of each row group of texts, then the number of edges."""
        metadata = self._text_file.metadata
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return np.cumsum([0, *rows])

    def _checked_edges(self, ids: Ids) -> Ids:
        if ids.size and not 0 <= ids.min() <= ids.max() < self.meta.num_edges:
            raise InputError(
                f"{self.path}: edges are numbered from 0 to {self.meta.num_edges - 1:,} "
                f"(got {ids.min():,} to {ids.max():,})"
            )
        return ids


@contextmanager
def _format_errors(path: Path) -> Iterator[None]:
    """Turn errors while reading a Parquet file into FormatErrors that name it."""
    try:
        yield
    except FileNotFoundError as error:
        raise FormatError(f"{path} is missing; prepare the network again") from error
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path} is damaged ({error}); prepare the network again") from error
