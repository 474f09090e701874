"""Embedding edges and nodes on a CPU beside the padded reference: same numbers, less work.

python -m benchmarks.embed_cpu                      MiniLM's size, 2 threads, texts as in real data
python -m benchmarks.embed_cpu --network FOLDER     MiniLM itself on a prepared network
python -m benchmarks.embed_cpu --edges 300 --layers 2 --width 64   quickly
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.machine import machine, print_table
from benchmarks.network import write_arrays
from benchmarks.reference import pad_edges, pad_egos, padded_twin
from benchmarks.workload import (
    CRITIC_DEGREES,
    CRITIC_LENGTHS,
    MAX_TOKENS,
    REAL_LENGTHS,
    bert_encoder,
    draw,
    new_model,
    spread,
)
from edgeformers.data.adjacency import build_adjacency
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader, EgoLoader
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.tokenize import add_tokens
from edgeformers.data.tokens import TokenStore
from edgeformers.inference.encode import EncodeOptions, encode_edges, encode_nodes
from edgeformers.minilm import MINILM
from edgeformers.nn.backbones import load_backbone

CPU = torch.device("cpu")
NEIGHBORS = 8
EDGES_AT_ONCE = 32  # of the reference: it was as quick with 8 and 16, slower with 64
NODES_AT_ONCE = 4  # of the reference: quickest with 4 of 4, 12 and 24
TEXTS = {"short": CRITIC_LENGTHS, "long": REAL_LENGTHS}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", type=Path, help="a prepared network, read by MiniLM")
    parser.add_argument("--edges", type=int, default=1_200)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for embed_cpu.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{machine()}, torch {torch.__version__}, {options.threads} threads", flush=True)
    found = []
    with TemporaryDirectory() as folder:
        for kind, graph, tokens in networks(options, Path(folder)):
            found += [edges(graph, tokens, kind, options), nodes(graph, tokens, kind, options)]
    print_table(
        f"Embedding on a CPU, {options.layers} layers of {options.width}, in the middle of "
        f"{options.rounds} rounds",
        [
            *("", "texts", "tokens", "padded /s", "by length /s", "ours /s"),
            *("times faster", "lowest to highest", "largest difference"),
        ],
        [
            [
                one["what"],
                one["texts"],
                f"{one['tokens']:.0f}",
                f"{one['padded']:.1f}",
                f"{one['by_length']:.1f}" if "by_length" in one else "",
                f"{one['ours']:.1f}",
                f"{one['times_faster']:.2f}",
                f"{min(one['ratios']):.2f} to {max(one['ratios']):.2f}",
                f"{one['difference']:.1e}",
            ]
            for one in found
        ],
    )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "embed_cpu.json").write_text(json.dumps(found, indent=1))


def networks(
    options: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, EdgeTextGraph, TokenStore]]:
    """What is embedded: the network given, or drawn ones of short and of long texts."""
    if options.network is not None:
        graph = EdgeTextGraph.open(options.network)
        yield graph.name, graph, add_tokens(graph, MINILM, progress=False)
        return
    for kind, lengths in TEXTS.items():
        graph = make_network(options.edges, lengths, folder / kind)
        yield kind, graph, add_tokens(graph, "train:8000", progress=False)


def make_network(edges: int, lengths: tuple[int, ...], out: Path) -> EdgeTextGraph:
    """Sources with as many edges, and edges with texts as long, as in real networks."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 4)) for _ in range(500)]
    src = np.repeat(np.arange(edges), draw(CRITIC_DEGREES, edges, rng))[:edges]
    words_of = spread(lengths, edges, rng) - 2  # with [CLS] and [SEP] as many tokens
    texts = [" ".join(rng.choice(words, count)) for count in words_of]
    return write_arrays(
        out,
        src=src,
        dst=rng.integers(0, 500, edges),
        num_nodes=(int(src[-1]) + 1, 500),
        texts=texts,
    )


def edges(
    graph: EdgeTextGraph, tokens: TokenStore, kind: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Edges in the order of the file and padded to 64, by length and padded, or packed."""
    loader = EdgeLoader(graph=graph, tokens=tokens, max_tokens=MAX_TOKENS)
    model = _model("edgeformer-e", graph, tokens, options)
    twin = padded_twin(model).eval()
    ids = _some(graph.num_edges, options.edges)
    order = np.argsort(loader.lengths(ids), kind="stable")

    def read(order: np.ndarray, length: int | None) -> np.ndarray:
        parts = [
            loader.batch(ids[order[at : at + EDGES_AT_ONCE]])
            for at in range(0, len(ids), EDGES_AT_ONCE)
        ]
        found = [twin(pad_edges(part, length or part.text.max_length)) for part in parts]
        return torch.cat(found).numpy()[np.argsort(order)]

    ways = {
        "padded": lambda: read(np.arange(len(ids)), MAX_TOKENS),
        "by_length": lambda: read(order, None),
        "ours": lambda: encode_edges(model, loader, ids, EncodeOptions(device=CPU)),
    }
    lengths = float(loader.lengths(ids).mean())
    return compare("edges", kind, lengths, len(ids), ways, options.rounds)


def nodes(
    graph: EdgeTextGraph, tokens: TokenStore, kind: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Sources: their empty slots padded too, or left out."""
    adjacency = build_adjacency(graph.src, graph.dst, graph.num_nodes)  # drawn as training edges
    if options.network is not None:
        adjacency = graph.training_adjacency("link")
    sampler = EgoSampler(adjacency, (NEIGHBORS,))
    loader = EgoLoader(
        graph=graph,
        tokens=tokens,
        max_tokens=MAX_TOKENS,
        source_sampler=sampler,
        target_sampler=sampler,
    )
    model = _model("edgeformer-n", graph, tokens, options)
    twin = padded_twin(model).eval()
    known = np.flatnonzero(adjacency.degrees()[: graph.num_sources])
    ids = known[_some(len(known), options.edges // NEIGHBORS)]

    def padded() -> np.ndarray:
        parts = [
            loader.nodes(ids[at : at + NODES_AT_ONCE]) for at in range(0, len(ids), NODES_AT_ONCE)
        ]
        return torch.cat([twin(pad_egos(part, NEIGHBORS, MAX_TOKENS)) for part in parts]).numpy()

    read = loader.nodes(ids)
    print(f"{read.text.num_texts / len(ids):.2f} edges of at most {NEIGHBORS} a node", flush=True)
    lengths = read.text.num_tokens / read.text.num_texts
    ways = {
        "padded": padded,
        "ours": lambda: encode_nodes(model, loader, ids, EncodeOptions(device=CPU)),
    }
    return compare("nodes", kind, lengths, len(ids), ways, options.rounds)


def compare(
    what: str,
    kind: str,
    tokens: float,
    count: int,
    ways: dict[str, Callable[[], np.ndarray]],
    rounds: int,
) -> dict[str, Any]:
    """All ways in turns; their vectors must agree. Rates are those of the round in the middle.

    One thread is timed by the processor's clock, which stands still while others have it.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in ways}
    vectors: dict[str, np.ndarray] = {}
    with torch.inference_mode():
        for _ in range(rounds):
            for name, run in ways.items():
                start = clock()
                vectors[name] = run()
                times[name].append(clock() - start)
    ratios = [a / b for a, b in zip(times["padded"], times["ours"], strict=True)]
    worst = max(float(np.abs(found - vectors["padded"]).max()) for found in vectors.values())
    found = {
        **{"what": what, "texts": kind, "tokens": tokens, "difference": worst},
        **{name: count / statistics.median(taken) for name, taken in times.items()},
        **{"times_faster": statistics.median(ratios), "ratios": ratios},
    }
    print(json.dumps(found), flush=True)
    if not worst <= 1e-5:
        raise AssertionError(f"{what}: the vectors differ by {worst:.1e}")
    return found


def _some(total: int, wanted: int) -> np.ndarray:
    """So many numbers below `total`, drawn evenly, in their order."""
    return np.sort(np.random.default_rng(0).permutation(total)[:wanted])


def _model(name: str, graph: EdgeTextGraph, tokens: TokenStore, options: argparse.Namespace) -> Any:
    shape = bert_encoder(options.layers, options.width, tokens.vocab_size)
    shape = replace(shape, heads=max(1, options.width // 32))  # as MiniLM has them
    model = new_model(name, shape, num_nodes=graph.num_nodes, fidelity="released").eval()
    if options.network is not None:
        model.encoder = load_backbone(MINILM).eval()
    return model


if __name__ == "__main__":
    main()
