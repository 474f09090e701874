"""Embedding edges and nodes on a CPU beside the padded reference: same numbers, less work.

python -m benchmarks.embed_cpu                 MiniLM's size, 2 threads
python -m benchmarks.embed_cpu --edges 300 --layers 2 --width 64   quickly
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.machine import machine, print_table
from benchmarks.reference import pad_edges, pad_egos, padded_twin
from benchmarks.workload import (
    CRITIC_DEGREES,
    CRITIC_LENGTHS,
    MAX_TOKENS,
    REAL_LENGTHS,
    bert_encoder,
    new_model,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader, EgoLoader
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.table import EdgeTable
from edgeformers.train.encode import encode_edges, encode_nodes

CPU = torch.device("cpu")
NEIGHBORS = 8
BATCH = 32  # texts or nodes of the reference at once: it was quickest with 32 of 32, 64 and 100
TEXTS = {"short": CRITIC_LENGTHS, "long": REAL_LENGTHS}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edges", type=int, default=1_200)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder for embed_cpu.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{machine()}, torch {torch.__version__}, {options.threads} threads", flush=True)
    found = []
    with TemporaryDirectory() as folder:
        for kind, lengths in TEXTS.items():
            graph = make_network(options.edges, lengths, Path(folder) / kind)
            found += [edges(graph, kind, options), nodes(graph, kind, options)]
    print_table(
        f"Embedding on a CPU, {options.layers} layers of {options.width}, best of {options.rounds}",
        ["", "texts", "tokens", "padded /s", "ours /s", "times faster", "largest difference"],
        [
            [
                one["what"],
                one["texts"],
                f"{one['tokens']:.0f}",
                f"{one['padded']:.1f}",
                f"{one['ours']:.1f}",
                f"{one['ours'] / one['padded']:.2f}",
                f"{one['difference']:.1e}",
            ]
            for one in found
        ],
    )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "embed_cpu.json").write_text(json.dumps(found, indent=1))


def make_network(edges: int, lengths: tuple[int, ...], out: Path) -> EdgeTextGraph:
    """Sources with as many edges, and edges with texts as long, as in real networks."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 4)) for _ in range(500)]

    def rows() -> Iterator[dict[str, str]]:
        for source, degree in enumerate(draw(CRITIC_DEGREES, edges, rng)):
            for length in draw(lengths, degree, rng):
                text = " ".join(rng.choice(words, length - 2))  # with [CLS] and [SEP]
                yield {"source": f"s{source}", "target": f"t{rng.integers(500)}", "text": text}

    made = list(itertools.islice(rows(), edges))
    table = EdgeTable.from_rows(lambda: made, fields=(), origin="drawn", bipartite=True)
    config = PrepareConfig(tokenizer="train:8000", progress=False)
    return write_network(table, out, config=config)


def draw(quantiles: tuple[int, ...], count: int, rng: np.random.Generator) -> np.ndarray:
    at = np.linspace(0, 1, len(quantiles))
    return np.rint(np.interp(rng.random(count), at, quantiles)).astype(int)


def edges(graph: EdgeTextGraph, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """All edges: in the order of the file and padded, or sorted and packed."""
    loader = EdgeLoader(graph=graph, tokens=_tokens(graph), max_tokens=MAX_TOKENS)
    model = _model("edgeformer-e", graph, options)
    twin = padded_twin(model).eval()  # type: ignore[arg-type]
    ids = np.arange(graph.num_edges)

    def padded() -> np.ndarray:
        parts = [loader.batch(ids[at : at + BATCH]) for at in range(0, len(ids), BATCH)]
        return _numbers([twin(pad_edges(part, MAX_TOKENS)) for part in parts])  # type: ignore[arg-type]

    def ours() -> np.ndarray:
        return encode_edges(model, loader, ids, device=CPU)

    tokens = float(loader.lengths(ids).mean())
    return compare("edges", kind, tokens, len(ids), padded, ours, options.rounds)


def nodes(graph: EdgeTextGraph, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Sources: their empty slots padded too, or left out."""
    adjacency = graph.adjacency
    sampler = EgoSampler(adjacency, (NEIGHBORS,))
    loader = EgoLoader(
        graph=graph,
        tokens=_tokens(graph),
        max_tokens=MAX_TOKENS,
        source_sampler=sampler,
        target_sampler=sampler,
    )
    model = _model("edgeformer-n", graph, options)
    twin = padded_twin(model).eval()  # type: ignore[arg-type]
    ids = np.arange(graph.num_sources)[: options.edges // NEIGHBORS]

    def padded() -> np.ndarray:
        parts = [loader.nodes(ids[at : at + BATCH]) for at in range(0, len(ids), BATCH)]
        return _numbers([twin(pad_egos(part, NEIGHBORS, MAX_TOKENS)) for part in parts])  # type: ignore[arg-type]

    def ours() -> np.ndarray:
        return encode_nodes(model, loader, ids, device=CPU)

    read = loader.nodes(ids)
    print(f"{read.text.num_texts / len(ids):.2f} edges of at most {NEIGHBORS} a node", flush=True)
    tokens = read.text.num_tokens / read.text.num_texts
    return compare("nodes", kind, tokens, len(ids), padded, ours, options.rounds)


def compare(
    what: str,
    kind: str,
    tokens: float,
    count: int,
    padded: Callable[[], np.ndarray],
    ours: Callable[[], np.ndarray],
    rounds: int,
) -> dict[str, Any]:
    """Both in turns, the best of each; their vectors must agree."""
    times: dict[str, list[float]] = {"padded": [], "ours": []}
    with torch.inference_mode():
        for _ in range(rounds):
            for name, run in (("padded", padded), ("ours", ours)):
                start = time.perf_counter()
                vectors = run()
                times[name].append(time.perf_counter() - start)
                if name == "padded":
                    expected = vectors
    difference = float(np.abs(vectors - expected).max())
    rates = {name: count / min(taken) for name, taken in times.items()}
    found = {"what": what, "texts": kind, "tokens": tokens, **rates, "difference": difference}
    print(json.dumps(found), flush=True)
    if not difference <= 1e-5:
        raise AssertionError(f"{what}: the vectors differ by {difference:.1e}")
    return found


def _model(name: str, graph: EdgeTextGraph, options: argparse.Namespace) -> Any:
    encoder = bert_encoder(options.layers, options.width, _tokens(graph).vocab_size)
    encoder = replace(encoder, heads=max(1, options.width // 32))  # as MiniLM has them
    return new_model(name, encoder, num_nodes=graph.num_nodes, fidelity="released").eval()


def _tokens(graph: EdgeTextGraph) -> Any:
    assert graph.tokens is not None
    return graph.tokens


def _numbers(parts: list[torch.Tensor]) -> np.ndarray:
    return torch.cat(parts).numpy()


if __name__ == "__main__":
    main()
