"""A run with 100,000 targets to serve: simulated texts and links, and an untrained head.

Everything that is fast is real: the texts of a sample of nodes are encoded by MiniLM, node vectors
are factors of the links, and LightGCN, ALS and EASE are fitted to them with the largest widths that
the recipe `default` has at this size. Components are weighted equally, as the recipe does unless
validation shows otherwise. Every step leaves its result in the folder and is not repeated.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import numpy as np
import torch
from numpy.lib.format import open_memmap
from safetensors.torch import load_file, save_file

import edgeformers
from edgeformers.baselines.collaborative.als import ALS, ALSConfig
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.simulate import SimulationConfig, simulate
from edgeformers.data.types import Ids, Side
from edgeformers.estimators import LinkPredictor
from edgeformers.inference.components import MeanComponent, ScoreComponent
from edgeformers.inference.encode import EncodeOptions, Vectors
from edgeformers.inference.ensemble import (
    Standardized,
    als_component,
    ease_component,
    lightgcn_component,
)
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.index import FOLDER, LinkIndex
from edgeformers.inference.load import load_fitted
from edgeformers.inference.saved_components import GROUPS, Ensemble, degree_group, restore_component
from edgeformers.training.run_folder import MODEL, owned_folder

#: Gives a little more than 100,000 sources and targets with at least one edge.
NETWORK = SimulationConfig(
    num_edges=400_000, num_sources=110_000, num_targets=108_500, mean_words=10, seed=5
)
#: Of the recipe; given explicitly, so that no settings are planned for training on a CPU.
SETTINGS = {"data.source_neighbors": [4], "data.target_neighbors": [4]}
LAMBDA = 200.0  # of EASE
Baseline = TypeVar("Baseline", LightGCN, ALS, EASE)
COMPONENTS = ("lightgcn", "als", "ease")
ENCODED = 20_000  # nodes whose texts are encoded
CHUNK = 500  # of them are encoded and written at a time


def build_run(folder: Path, config: SimulationConfig = NETWORK) -> Path:
    """The folder of the run, built as far as it is not there yet."""
    run = folder / "run"
    if not (run / MODEL).is_dir():
        fitted = _untrained(_network(folder / "network", config))
        with encoded_texts(fitted, folder / "texts.npy"):
            ensemble = _ensemble(fitted, folder)
        with owned_folder(run, fitted.config, fitted.network.graph):
            replace(fitted, ensemble=ensemble).save(run / MODEL)
    if not (run / FOLDER).is_dir():
        fitted = load_fitted(run, device="cpu", show=False)
        assert isinstance(fitted, FittedLinkPredictor)
        with encoded_texts(fitted, folder / "texts.npy"):
            LinkIndex.build(fitted, run / FOLDER, show=False)
    return run


def component_widths(fitted: FittedLinkPredictor) -> dict[str, int]:
    """The width of each component of a link score."""
    components = fitted.scorer.components
    queries = fitted.scorer.queries(np.array([0]))
    return {c.name: width for c, width in zip(components, queries.widths, strict=True)}


@contextmanager
def encoded_texts(fitted: FittedLinkPredictor, path: Path) -> Iterator[None]:
    """Take the text vectors of known nodes from a file, which is written first if necessary."""
    vectors = _text_vectors(fitted, path)

    def look_up(
        model: object, loader: object, nodes: Ids, options: EncodeOptions, *, side: Side
    ) -> Vectors:
        return vectors[nodes]

    with patch("edgeformers.inference.trained_components.encode_nodes", look_up):
        yield


def _network(path: Path, config: SimulationConfig) -> EdgeTextGraph:
    if path.is_dir():
        return EdgeTextGraph.open(path)
    simulation = simulate(config)
    return edgeformers.prepare(simulation.table, path, nodes=simulation.nodes, progress=False)


def _untrained(graph: EdgeTextGraph) -> FittedLinkPredictor:
    predictor = LinkPredictor("minilm", settings=SETTINGS, device="cpu", show=False)
    return predictor.make_objective(graph).fitted


def _text_vectors(fitted: FittedLinkPredictor, path: Path) -> Vectors:
    """node_repr [N, D] of all nodes.

    A sample is encoded; any other node is a random mean of two encoded nodes with its label, as a
    node is a mean of its edges. Encoding all would take half an hour.
    """
    if path.exists():
        return open_memmap(path, mode="r")
    graph, random = fitted.network.graph, np.random.default_rng(0)
    has_edges = graph.training_adjacency(fitted.network.split).degrees() > 0
    sample = np.sort(random.permutation(np.flatnonzero(has_edges))[:ENCODED])
    encoded = _encode(fitted, sample, path.with_name("sample.npy"))
    offsets, codes = graph.node_labels or (np.empty(0), np.empty(0))
    label = codes[offsets[:-1]]
    vectors = np.zeros((graph.num_nodes, encoded.shape[1]), np.float32)
    for code in np.unique(label):
        nodes, own = np.flatnonzero(has_edges & (label == code)), encoded[label[sample] == code]
        share = random.random((len(nodes), 1), np.float32)
        first, second = random.integers(0, len(own), (2, len(nodes)))
        vectors[nodes] = share * own[first] + (1 - share) * own[second]
    vectors[sample] = encoded
    np.save(path, vectors)
    return vectors


def _encode(fitted: FittedLinkPredictor, nodes: Ids, path: Path) -> Vectors:
    """node_repr [n, D], written in chunks, so that an interruption loses little."""
    record = path.with_suffix(".json")
    done = json.loads(record.read_text())["nodes"] if record.exists() else 0
    shape = (len(nodes), int(fitted.model.width))  # type: ignore[arg-type]
    vectors = open_memmap(path, "r+" if done else "w+", np.float32, shape)
    is_source = nodes < fitted.network.graph.num_sources
    for start in range(done, len(nodes), CHUNK):
        for side in ("source", "target"):
            own = start + np.flatnonzero(is_source[start : start + CHUNK] == (side == "source"))
            vectors[own] = fitted.embed_nodes(nodes[own], side=side)
        vectors.flush()
        record.write_text(json.dumps({"nodes": min(start + CHUNK, len(nodes))}))
        print(f"encoded {start + CHUNK:,} of {len(nodes):,} nodes", flush=True)
    return vectors


def _ensemble(fitted: FittedLinkPredictor, folder: Path) -> Ensemble:
    """The trained score, LightGCN, ALS and EASE, each divided by its standard deviation."""
    graph, scorer = fitted.network.graph, fitted.scorer
    query = torch.from_numpy(scorer.queries(np.arange(graph.num_nodes)).vectors)
    key = torch.from_numpy(scorer.keys(np.arange(graph.num_nodes)))
    components = [_component(name, fitted, folder) for name in COMPONENTS]
    scales = [Standardized(c, graph).scale for c in (MeanComponent(query, key), *components)]
    degrees = graph.training_adjacency(fitted.network.split).degrees()
    return Ensemble(
        components=components,
        weights=torch.tensor(scales).expand(GROUPS, -1).clone(),
        group=torch.from_numpy(degree_group(degrees)),
    )


def _component(name: str, fitted: FittedLinkPredictor, folder: Path) -> ScoreComponent:
    """A component with the largest width of its grid, fitted or from its file."""
    path = folder / f"{name}.safetensors"
    if path.exists():
        return restore_component(name, load_file(path))
    graph, split, size = fitted.network.graph, fitted.network.split, fitted.network.graph.num_nodes
    if name == "lightgcn":
        lightgcn = LightGCN([PairwiseConfig(epochs=10)], device="cpu")
        component: ScoreComponent = lightgcn_component(_fitted(lightgcn, graph, split), size)
    elif name == "als":
        als = ALS([ALSConfig(factors=64)], device="cpu")
        component = als_component(_fitted(als, graph, split), size)
    else:
        ease = EASE([LAMBDA], device="cpu")
        component = ease_component(_fitted(ease, graph, split), LAMBDA, size, seed=0)
    save_file({n: t.contiguous() for n, t in component.tensors().items()}, path)
    print(f"fitted {name}", flush=True)
    return component


def _fitted(baseline: Baseline, graph: EdgeTextGraph, split: str) -> Baseline:
    """A baseline fitted with its only setting; nothing has to be chosen on validation."""
    return next(fit for _, fit in baseline.fit_each(graph, split))
