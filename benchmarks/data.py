"""Preparing and sampling: speed, memory and disk, beside the procedures they replace.

python -m benchmarks.data                  everything, at ten million edges
python -m benchmarks.data --edges 1000000  a smaller network
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from benchmarks.machine import machine, print_table
from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.simulate import simulate
from edgeformers.data.tokenize import load_tokenizer, train_tokenizer
from edgeformers.data.tokens import TOKEN_LIMIT, encode_chunks
from edgeformers.minilm import MINILM, has_minilm

TOKENS = 64  # tokens per text in the authors' layout
APPS = {"source": 6, "target": 10}  # texts stored per pair on Amazon-Apps: 3 + 3 and 5 + 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--texts", type=int, default=300_000, help="texts to tokenise")
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare is not None:
        prepare_once(options.edges, options.prepare)
        return
    print(f"# Data benchmarks\n\n{machine()}")
    with TemporaryDirectory() as folder:
        network = Path(folder) / "network"
        prepare_in_another_process(options.edges, network)
        graph = EdgeTextGraph.open(network)
        tokenising(graph, options.texts)
        sampling(options.edges)
        disk()


def prepare_once(edges: int, out: Path) -> None:
    """Prepare a simulated network in this process and print what it took as JSON."""
    table = simulate(num_edges=edges, seed=0).table
    start = time.perf_counter()
    for _ in table.batches():
        pass
    generating = time.perf_counter() - start
    start = time.perf_counter()
    write_network(table, out, config=PrepareConfig(tokenizer=None, progress=False))
    whole = time.perf_counter() - start
    start = time.perf_counter()
    graph = EdgeTextGraph.open(out)
    first = (graph.src[0], graph.adjacency.edges_of(0)[:1])
    opening = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {"generating": generating, "whole": whole, "opening": opening, "peak": peak}
    print(json.dumps({**found, "first": str(first)}))


def prepare_in_another_process(edges: int, out: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.data",
        "--edges",
        str(edges),
        "--prepare",
        str(out),
    ]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    took = json.loads(answer.splitlines()[-1])
    own = took["whole"] - took["generating"]
    print_table(
        f"Preparing {edges:,} simulated edges (ids, texts, adjacency, two splits, checksums)",
        ["", "seconds", "edges/s", "peak memory"],
        [
            [
                "simulating the table",
                f"{took['generating']:.1f}",
                f"{edges / took['generating']:,.0f}",
                "",
            ],
            [
                "preparing, simulation included",
                f"{took['whole']:.1f}",
                f"{edges / took['whole']:,.0f}",
                f"{took['peak'] / 1e9:.2f} GB",
            ],
            ["preparing alone", f"{own:.1f}", f"{edges / own:,.0f}", ""],
            ["opening", f"{took['opening']:.4f}", "", ""],
        ],
    )


def tokenising(graph: EdgeTextGraph, count: int) -> None:
    """Our tokenising beside a bare loop over `encode_batch`, on the same texts, in turns."""
    chunks: list[list[str]] = []
    for chunk in graph.iter_texts():
        chunks.append(chunk)
        if sum(map(len, chunks)) >= count:
            break
    texts = sum(map(len, chunks))
    tokenizer = load_tokenizer(MINILM) if has_minilm() else train_tokenizer(chunks[0])
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(3):
        tokenizer.no_truncation()
        start = time.perf_counter()
        for chunk in chunks:
            tokenizer.encode_batch(chunk)
        bare.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in encode_chunks(tokenizer, chunks, np.uint16, TOKEN_LIMIT):
            pass
        ours.append(time.perf_counter() - start)
    print_table(
        f"Tokenising {texts:,} texts, best of 3 in turns",
        ["", "texts/s", "time, bare loop = 1"],
        [
            ["bare `encode_batch` loop, ids thrown away", f"{texts / min(bare):,.0f}", "1.00"],
            ["ours, ids in arrays", f"{texts / min(ours):,.0f}", f"{min(ours) / min(bare):.2f}"],
        ],
    )


def sampling(edges: int) -> None:
    """Neighborhoods of 8 a second on one core as the network grows, and by plain Python."""
    rows = []
    for size in (edges // 10, edges * 3 // 10, edges):
        src, dst = ends(size)
        num_nodes = int(dst.max()) + 1
        group = (np.arange(size) % 3 == 0).astype(np.int16)  # positive and negative edges
        adjacency = build_adjacency(src, dst, num_nodes, strata=group, num_strata=2)
        sampler = EgoSampler(adjacency, (4, 4))
        pairs = np.random.default_rng(0).permutation(size)[:50_000]
        ours = neighborhoods_per_second(sampler, src[pairs], dst[pairs])
        plain = plain_per_second(src, dst, group, pairs[:2_000])
        rows.append([f"{size:,}", f"{ours:,.0f}", f"{plain:,.0f}", f"{ours / plain:,.0f}x"])
    print_table(
        "Neighborhoods of 4 positive + 4 negative edges a second, one core, target edge left out",
        ["edges", "EgoSampler", "plain Python", "ratio"],
        rows,
    )


def ends(edges: int) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of a simulated network's edges, drawn without writing the texts."""
    model = simulate(num_edges=edges, seed=0).model
    parts = [
        model.draw(np.arange(start, min(start + 500_000, edges)))
        for start in range(0, edges, 500_000)
    ]
    src = np.concatenate([part.source for part in parts]).astype(np.int32)
    dst = np.concatenate([part.target for part in parts]).astype(np.int32)
    return src, dst + np.int32(src.max() + 1)


def neighborhoods_per_second(sampler: EgoSampler, src: np.ndarray, dst: np.ndarray) -> float:
    """Both sides of many pairs, 8,192 nodes a call; best of 3."""
    sampler.sample(src[:8], partners=dst[:8])  # compiles
    best = float("inf")
    for epoch in range(3):
        start = time.perf_counter()
        for at in range(0, len(src), 8192):
            queries, keys = src[at : at + 8192], dst[at : at + 8192]
            sampler.sample(queries, partners=keys, epoch=epoch)
            sampler.sample(keys, partners=queries, epoch=epoch)
        best = min(best, time.perf_counter() - start)
    return 2 * len(src) / best


def plain_per_second(
    src: np.ndarray, dst: np.ndarray, group: np.ndarray, pairs: np.ndarray
) -> float:
    """The authors' procedure, pair by pair: for each group take the center's neighbors, leave the
    target out, draw without replacement, pad.
    """
    around: dict[tuple[int, int], list[tuple[int, int]]] = {}
    wanted = list(set(src[pairs].tolist()) | set(dst[pairs].tolist()))
    for edge in np.flatnonzero(np.isin(src, wanted) | np.isin(dst, wanted)).tolist():
        kind = int(group[edge])
        around.setdefault((int(src[edge]), kind), []).append((int(dst[edge]), edge))
        around.setdefault((int(dst[edge]), kind), []).append((int(src[edge]), edge))
    generator = random.Random(0)
    start = time.perf_counter()
    for pair in pairs.tolist():
        query, key = int(src[pair]), int(dst[pair])
        for center, other in ((query, key), (key, query)):
            for kind in (0, 1):
                candidates = [one for one in around.get((center, kind), ()) if one[0] != other]
                drawn = generator.sample(candidates, min(4, len(candidates)))
                drawn += [(-1, -1)] * (4 - len(drawn))
    return 2 * len(pairs) / (time.perf_counter() - start)


def disk() -> None:
    """Bytes per edge on disk beside the authors' layout, both really written, as for Apps."""
    pairs = 2_000
    with TemporaryDirectory() as folder:
        ids = np.zeros((pairs * sum(APPS.values()), TOKENS), np.int64)
        theirs = Path(folder) / "pairs.npz"
        np.savez(theirs, ids=ids, mask=np.ones_like(ids), neighbors=np.zeros(len(ids), np.int64))
        simulated = simulate(num_edges=20_000, seed=0).table
        table = replace(simulated, open=lambda: map(lengthen, simulated.open()))
        config = PrepareConfig(tokenizer="train:8000", progress=False)
        graph = write_network(table, Path(folder) / "network", config=config)
        parts = {part: folder_bytes(graph.path, part) for part in ("*", "tokens/*/*", "splits/*")}
        per_pair = theirs.stat().st_size / pairs
        length = float(graph.tokens.lengths.mean()) if graph.tokens else 0.0
    ours = sum(parts.values()) / graph.num_edges
    print_table(
        f"Bytes on disk per edge, 3 + 3 and 5 + 5 neighbors, {length:.0f} tokens a text",
        ["", "bytes", "ratio"],
        [
            ["authors' layout: each pair holds its neighbors' tokens", f"{per_pair:,.0f}", "1"],
            ["ours: everything, texts and tokens once", f"{ours:,.0f}", f"{per_pair / ours:,.0f}x"],
            ["of that, tokens", f"{parts['tokens/*/*'] / graph.num_edges:,.0f}", ""],
        ],
    )


def lengthen(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with texts of about 64 tokens, by writing the texts of four edges on each."""
    texts = np.array(batch.column("text").to_pylist(), object)
    longer = [" ".join(texts[(i + np.arange(4) * 97) % len(texts)]) for i in range(len(texts))]
    at = batch.schema.get_field_index("text")
    return batch.set_column(at, batch.schema.field(at), pa.array(longer))


def folder_bytes(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


if __name__ == "__main__":
    main()
