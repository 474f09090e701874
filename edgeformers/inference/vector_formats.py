"""Vectors of nodes and edges for FAISS, DuckDB and PyG."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.interop import DEFAULT_RELATION, graph_table, table_to_pyg
from edgeformers.data.types import Side
from edgeformers.errors import InputError, require
from edgeformers.files import atomic_file
from edgeformers.inference.embed import EmbeddingTable, What, embed, read_embeddings
from edgeformers.inference.load import open_fitted

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData


def embed_to(
    model: Any,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    *,
    what: What,
    out: str | PathLike[str],
    **options: Any,
) -> Path:
    """Write the vectors of a network's nodes or edges; the suffix of `out` is the format.

    - .parquet: ids and vectors; see `embed`, whose other arguments are `options`.
    - .faiss: a FAISS index of inner products. Its ids are the rows of a Parquet file of the same
      name, which is written too.
    - .duckdb: a DuckDB database with the table `nodes` or `edges`, vectors in an array column.
    """
    path = Path(out).expanduser()
    write = _WRITERS.get(path.suffix)
    if write is None:  # Parquet, or an error that names it
        return embed(model, network, what=what, out=path, **options)
    if options.get("shard", (1, 1)) != (1, 1):
        raise InputError(f"a shard is written as Parquet (got {path}); convert all of them at once")
    if path.exists() and not options.get("overwrite"):
        raise InputError(f"{path} exists; choose another file, or pass `overwrite=True`")
    parquet = embed(model, network, what=what, out=path.with_suffix(".parquet"), **options)
    with atomic_file(path) as temporary:
        write(read_embeddings(parquet), temporary)
    return path


def _write_faiss(table: EmbeddingTable, path: Path) -> None:
    faiss = require("faiss", "serve")
    index = faiss.IndexFlatIP(table.vectors.shape[1])
    index.add(np.ascontiguousarray(table.vectors))
    faiss.write_index(index, str(path))


def _write_duckdb(table: EmbeddingTable, path: Path) -> None:
    import duckdb

    path.unlink(missing_ok=True)  # DuckDB refuses an empty file
    with duckdb.connect(str(path)) as connection:
        connection.register("vectors", table.to_arrow())
        connection.execute(f'CREATE TABLE "{table.metadata["what"]}" AS SELECT * FROM vectors')


_WRITERS: Mapping[str, Callable[[EmbeddingTable, Path], None]] = {
    ".faiss": _write_faiss,
    ".duckdb": _write_duckdb,
}


def embed_as_pyg(
    model: Any,
    network: EdgeTextGraph | str | PathLike[str] | None = None,
    *,
    device: str | None = None,
) -> "HeteroData":
    """The network as PyG `HeteroData` with vectors: `x` of nodes, or `edge_attr` of edges.

    `model` is an estimator or the folder of a run. A link predictor gives vectors of nodes, an
    edge classifier of edges. Node types are "source" and "target", or "node" if there is only one.
    The edges have the attributes that `table_to_pyg` gives them, such as `edge_text`.
    """
    require("torch_geometric", "pyg")
    fitted: Any = open_fitted(model, network, device=device)
    graph: EdgeTextGraph = fitted.network.graph
    data = _as_hetero(table_to_pyg(graph_table(graph)))
    if fitted.entry.encodes == "edges":
        vectors = torch.from_numpy(fitted.encode_known(np.arange(graph.num_edges)))
        for kind in data.edge_types:
            rows = data[kind].get("edge_id")
            data[kind].edge_attr = vectors if rows is None else vectors[rows]
        return data
    vectors = torch.from_numpy(fitted.embed_nodes())
    for kind in data.node_types:
        side: Side = "target" if kind == "target" else "source"
        numbers = graph.node_index.known_numbers(data[kind].node_id, side)
        data[kind].x = vectors[torch.from_numpy(np.asarray(numbers))]
    return data


def _as_hetero(data: Any) -> Any:
    """A PyG graph with one node type as `HeteroData`; one that has two as it is."""
    from torch_geometric.data import HeteroData

    if isinstance(data, HeteroData):
        return data
    hetero = HeteroData()
    edges = hetero["node", DEFAULT_RELATION, "node"]
    for name, value in data.to_dict().items():
        store = edges if name.startswith("edge_") else hetero["node"]
        store[name] = value
    return hetero
