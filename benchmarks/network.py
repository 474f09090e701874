"""Networks to measure on, written as `prepare` would but from arrays, without a database."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from benchmarks.workload import REAL_LENGTHS, draw
from edgeformers import __version__
from edgeformers.data.graph import TEXT_ROWS, EdgeTextGraph
from edgeformers.data.simulate import simulate
from edgeformers.data.splits import DEFAULT_SPLITS, EdgeList, make_split
from edgeformers.data.storage import NetworkMeta, fingerprint_folder, write_record
from edgeformers.data.table import NODE_FIELDS
from edgeformers.data.tokens import RECORD, TOKENIZER, TokenMeta, TokenStore, open_tokens

SPECIAL = 2  # [CLS] and [SEP] around every text


def simulated_network(out: Path, edges: int) -> EdgeTextGraph:
    """The built-in network's nodes, labels and words, in texts as long as real ones."""
    table = pa.Table.from_batches(simulate(num_edges=edges, seed=0).table.batches())
    source, target, label = (
        table.column(name).combine_chunks().dictionary_encode()
        for name in ("source", "target", "label")
    )
    words = " ".join(table.column("text").to_pylist()).split()
    lengths = draw(REAL_LENGTHS, edges, np.random.default_rng(0)) - SPECIAL
    ends = np.cumsum(lengths)
    words *= -(-int(ends[-1]) // len(words))
    return write_arrays(
        out,
        src=source.indices.to_numpy(),
        dst=target.indices.to_numpy(),
        num_nodes=(len(source.dictionary), len(target.dictionary)),
        labels=label.indices.to_numpy(),
        label_names=label.dictionary.to_pylist(),
        texts=[" ".join(words[end - n : end]) for end, n in zip(ends, lengths, strict=True)],
    )


def regular_network(out: Path, edges: int, *, degree: int = 10) -> EdgeTextGraph:
    """As many nodes as edges: a tenth are sources of `degree` edges each, a tenth their targets."""
    rng = np.random.default_rng(edges)
    joined = edges // degree
    src = np.repeat(np.arange(joined), degree)[:edges]
    dst = rng.permutation(src)
    return write_arrays(out, src=src, dst=dst, num_nodes=(joined, edges - joined))


def write_arrays(
    out: Path,
    *,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    num_nodes: tuple[int, int],
    labels: NDArray[np.integer] | None = None,
    label_names: Sequence[str] = (),
    texts: list[str] | None = None,
) -> EdgeTextGraph:
    """A bipartite network of numbered sources and targets; without texts, tokens must follow."""
    sources, targets = num_nodes
    src, dst = src.astype(np.int32), (dst + sources).astype(np.int32)
    (out / "splits").mkdir(parents=True)
    np.save(out / "src.npy", src)
    np.save(out / "dst.npy", dst)
    if labels is not None:
        np.save(out / "labels.npy", labels.astype(np.int16))
    if texts is not None:
        pq.write_table(pa.table({"text": texts}), out / "texts.parquet", row_group_size=TEXT_ROWS)
    pq.write_table(_nodes(sources, targets), out / "nodes.parquet")
    edges = EdgeList(src=src, dst=dst, num_nodes=sources + targets)
    for split in DEFAULT_SPLITS:
        np.save(out / f"splits/{split.name}.npy", make_split(split, edges))
    NetworkMeta(
        library_version=__version__,
        num_nodes=sources + targets,
        num_sources=sources,
        num_edges=len(src),
        is_bipartite=True,
        is_directed=True,
        label_kind=None if labels is None else "class",
        label_names=list(label_names),
        splits={split.name: {"config": split.to_dict()} for split in DEFAULT_SPLITS},
        origin="drawn for a benchmark",
        files=fingerprint_folder(out),
    ).write(out)
    return EdgeTextGraph.open(out)


def write_random_tokens(graph: EdgeTextGraph, vocab_size: int) -> TokenStore:
    """Random tokens in texts as long as real ones, where texts would be too many to write."""
    rng = np.random.default_rng(graph.num_edges)
    lengths = draw(REAL_LENGTHS, graph.num_edges, rng) - SPECIAL
    meta = TokenMeta(
        name="random", fingerprint="random", vocab_size=vocab_size, prefix=[0], suffix=[1]
    )
    folder = graph.path / "tokens" / meta.fingerprint
    folder.mkdir(parents=True)
    ids = rng.integers(0, vocab_size, int(lengths.sum()), dtype=np.uint16)
    np.save(folder / "edges.ids.npy", ids.astype(meta.dtype, copy=False))
    np.save(folder / "edges.offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    words = {str(number): number for number in range(vocab_size)}
    Tokenizer(WordLevel(words)).save(str(folder / TOKENIZER))
    write_record(folder / RECORD, {"meta": asdict(meta), "files": fingerprint_folder(folder)})
    return open_tokens(folder)


def _nodes(sources: int, targets: int) -> pa.Table:
    sides = [("source", sources), ("target", targets)]
    numbers = [pa.array(np.arange(count)).cast(pa.string()) for _, count in sides]
    names = [
        pc.binary_join_element_wise(side, number, "-")
        for (side, _), number in zip(sides, numbers, strict=True)
    ]
    kinds = [pa.repeat(side, count) for side, count in sides]
    columns = [pa.chunked_array(names), pa.chunked_array(kinds)]
    empty = [pa.nulls(sources + targets, NODE_FIELDS[name]) for name in ("labels", "text")]
    return pa.table([*columns, *empty], schema=pa.schema(NODE_FIELDS))
