"""Exported models next to ours: speed of embedding on a CPU, and the quality cost of int8.

    python -m benchmarks.export --out benchmarks/results/scale    MiniLM on the built-in network
    python -m benchmarks.export --network FOLDER --settings train.epochs=2
    python -m benchmarks.export --backbone scratch:2x32 --edges 300 --rounds 1     quickly

A model is trained, exported, and used on the test edges by all ways in turn. Speeds are compared by
CPU seconds, which depend less on what else runs on the machine. ONNX Runtime gets batches of texts
of similar length. Macro-F1 is that of our head on the vectors of each way, without
the linear model that it may be combined with; so is the share of predictions that differ from those
of our vectors.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import machine, print_table
from edgeformers.config import parse_setting
from edgeformers.data.batch import pack_texts
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.estimators import EdgeClassifier
from edgeformers.evaluation.metrics import macro_f1
from edgeformers.export import export_model
from edgeformers.inference.encode import encode_edges
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.nn.fast.int8 import quantize_int8

Vectors = NDArray[np.float32]
AT_ONCE = 32  # texts that ONNX Runtime and sentence-transformers read together


class Seconds(NamedTuple):
    """The duration of one call."""

    wall: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", type=Path, help="a prepared network with classes")
    parser.add_argument("--edges", type=int, default=4_000, help="of the built-in network")
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--test", type=int, default=2_000, help="most test edges to embed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for export.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{machine()}, torch {torch.__version__}, {options.threads} threads", flush=True)
    with TemporaryDirectory() as folder:
        record = compare(options, Path(folder))
    print_table(
        f"{record['edges']} test edges of {record['network']}, {record['tokens']:.0f} tokens on "
        f"average; medians of {options.rounds} rounds",
        [
            "",
            "edges/s",
            "edges per CPU s",
            "to ours",
            "in each round",
            "largest difference",
            "Macro-F1",
            "changed",
        ],
        [
            [
                way["way"],
                f"{way['rate']:.0f}",
                f"{way['cpu_rate']:.0f}",
                f"{way['ratio']:.2f}",
                f"{min(way['ratios']):.2f} to {max(way['ratios']):.2f}",
                f"{way['difference']:.1e}",
                f"{way['macro_f1']:.4f}" if "macro_f1" in way else "",
                f"{way['changed']:.2%}" if "changed" in way else "",
            ]
            for way in record["ways"]
        ],
    )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "export.json").write_text(json.dumps(record, indent=1) + "\n")


def compare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Train, export, and measure each way."""
    graph = open_graph(options, folder)
    settings = dict(map(parse_setting, options.settings))
    classifier = EdgeClassifier(options.backbone, settings=settings, device="cpu", show=False)
    fitted = classifier.fit(graph).fitted_
    edges = fitted.network.part("test")[: options.test]
    ways = make_ways(fitted, edges, folder)
    vectors = {name: encode() for name, encode in ways.items()}
    seconds: dict[str, list[Seconds]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, encode in ways.items():
            started, cpu_started = time.perf_counter(), time.process_time()
            encode()
            taken = Seconds(time.perf_counter() - started, time.process_time() - cpu_started)
            seconds[name].append(taken)
    lengths = fitted.network.loader.lengths(edges)
    return {
        "machine": machine(),
        "threads": options.threads,
        "network": graph.name,
        "edges": len(edges),
        "tokens": float(np.mean(lengths)),
        "settings": fitted.config.to_dict(),
        "ways": [describe(name, vectors, seconds, fitted, edges) for name in ways],
    }


def open_graph(options: argparse.Namespace, folder: Path) -> EdgeTextGraph:
    """The network given, or the built-in one."""
    if options.network is not None:
        return EdgeTextGraph.open(options.network)
    config = PrepareConfig(tokenizer=None, progress=False)
    return prepare_simulated(folder / "network", num_edges=options.edges, config=config)


def describe(
    name: str,
    vectors: dict[str, Vectors],
    seconds: dict[str, list[Seconds]],
    fitted: FittedEdgeClassifier,
    edges: NDArray[Any],
) -> dict[str, Any]:
    """The speed of a way relative to ours for the same input, and the quality of its vectors."""
    is_text_only = "texts" in name
    reference = "ours, texts only" if is_text_only else "ours"
    pairs = zip(seconds[name], seconds[reference], strict=True)
    ratios = [ours.cpu / own.cpu for own, ours in pairs]
    wall, cpu = map(statistics.median, zip(*seconds[name], strict=True))
    facts = {
        "way": name,
        "rate": len(edges) / wall,
        "cpu_rate": len(edges) / cpu,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "difference": float(np.abs(vectors[name] - vectors[reference]).max()),
    }
    if is_text_only:
        return facts
    predicted, ours = (predict(fitted, vectors[way]) for way in (name, reference))
    macro_f1_score = float(macro_f1(fitted.labels_of(edges).numpy(), predicted))
    return {**facts, "macro_f1": macro_f1_score, "changed": float((predicted != ours).mean())}


def predict(fitted: FittedEdgeClassifier, vectors: Vectors) -> NDArray[Any]:
    """The predictions of the head from vectors."""
    linear, fitted.head.ensemble = fitted.head.ensemble, None
    try:
        with torch.inference_mode():
            return fitted.head.predict(torch.from_numpy(vectors)).value.numpy()
    finally:
        fitted.head.ensemble = linear


def make_ways(
    fitted: FittedEdgeClassifier, edges: NDArray[Any], folder: Path
) -> dict[str, Callable[[], Vectors]]:
    """Each way to embed the edges, or their texts, with tokenized texts."""
    from sentence_transformers import SentenceTransformer

    loader, options = fitted.network.loader, fitted.options
    rounded = quantize_int8(fitted.model)
    text_encoder = SentenceTransformer(
        str(export_model(fitted, folder / "st", to="sentence-transformers")), device="cpu"
    )
    graph = fitted.network.graph
    texts = [text or "" for text in graph.texts(edges)]
    return {
        "ours": lambda: encode_edges(fitted.model, loader, edges, options),
        "ONNX Runtime": onnx_way(fitted, edges, folder / "onnx", int8=False),
        "ours, int8": lambda: encode_edges(rounded, loader, edges, options),
        "ONNX Runtime, int8": onnx_way(fitted, edges, folder / "int8", int8=True),
        "ours, texts only": lambda: fitted.embed_texts(texts),
        "sentence-transformers, texts only": lambda: text_encoder.encode(
            texts, batch_size=AT_ONCE, show_progress_bar=False
        ),
    }


def onnx_way(
    fitted: FittedEdgeClassifier, edges: NDArray[Any], out: Path, *, int8: bool
) -> Callable[[], Vectors]:
    """ONNX Runtime on batches of edges of similar length."""
    import onnxruntime

    export_model(fitted, out, to="onnx", int8=int8)
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(out / "model.onnx", chosen)
    loader, graph = fitted.network.loader, fitted.network.graph
    order = np.argsort(loader.lengths(edges), kind="stable")

    def encode() -> Vectors:
        vectors = np.empty((len(edges), fitted.width), np.float32)
        for at in range(0, len(edges), AT_ONCE):
            rows = order[at : at + AT_ONCE]
            text = pack_texts(loader.tokens, edges[rows], loader.max_tokens)
            inputs = {
                "input_ids": text.to_padded(text.token_ids[:, None])[..., 0].numpy(),
                "attention_mask": text.mask.long().numpy(),
                "source": graph.src[edges[rows]].astype(np.int64),
                "target": graph.dst[edges[rows]].astype(np.int64),
            }
            (vectors[rows],) = session.run(None, inputs)
        return vectors

    return encode


if __name__ == "__main__":
    main()
