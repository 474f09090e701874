"""Data for figures of a trained model: its attention, and a 2-d map of nodes and edges."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.batch import EdgeBatch, edge_batch
from edgeformers.data.random import hash_keys
from edgeformers.data.types import Floats, Ids
from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import bootstrap_interval, draw_clusters
from edgeformers.experiments.record import Measurement
from edgeformers.models.base import AttentionMap
from edgeformers.report.figures import AttentionFigure, NodeMap

QueryToken: TypeAlias = Literal["text", "cls"]  # whose attention is shown
SHOWN_TOKENS = 20  # text tokens in the paper's attention map
ATTENTION_BATCH = 25  # edges or nodes encoded at once
MAX_EDGES = 40  # edges per node on a map
MEASURED_EDGES = 8  # edges per node whose similarity is measured
MIN_VECTORS = 10  # for t-SNE; fewer vectors have no neighborhoods to preserve


@torch.inference_mode()
def attention_map(
    classifier: EdgeClassifier, edge: int, title: str, *, token: QueryToken = "cls"
) -> AttentionFigure:
    """The attention of one token of an edge's text in every layer, averaged over heads.

    With "text", it is a fixed random token among the first twenty; the figure then shows the
    virtual tokens and these twenty, as in the paper. {token} in the title is replaced by it.
    """
    loader = classifier.fitted_.network.loader
    batch = edge_batch(loader.graph, loader.tokens, [edge], loader.max_tokens)
    (layers,) = _attention(classifier, batch)
    words = [classifier.fitted_.tokenizer.id_to_token(i) or "" for i in batch.text.token_ids]
    place = 0 if token == "cls" else _random_place(words[:SHOWN_TOKENS], edge)
    virtual = max(len(layer.virtual) for layer in layers)
    last = None if token == "cls" else virtual + SHOWN_TOKENS
    weights = []
    for layer in layers:
        row = layer.weights[:, place].float().mean(0).tolist()  # [V+L], mean over heads
        weights.append(([0.0] * (virtual - len(layer.virtual)) + row)[:last])
    graph = loader.graph
    ends = graph.node_names([int(graph.src[edge]), int(graph.dst[edge])])
    names = dict(zip(("source", "target"), ends, strict=True))
    tokens = ([names[name] for name in layers[-1].virtual] + words)[:last]
    title = title.replace("{token}", words[place])
    return AttentionFigure(title=title, tokens=tokens, weights=weights, virtual=virtual)


@torch.inference_mode()
def measure_attention(
    classifier: EdgeClassifier, edges: Ids, *, token: QueryToken = "text"
) -> list[Measurement]:
    """Mean attention to a virtual and to a text token by layer, and their difference.

    It is averaged over heads and over the tokens of a text that attend ("cls": the first only).
    The difference is that of the last two layers, with an interval over sources.
    """
    loader = classifier.fitted_.network.loader
    means: list[list[tuple[float, float]]] = []  # [edges][layers] (virtual, text)
    for start in range(0, len(edges), ATTENTION_BATCH):
        chosen = edges[start : start + ATTENTION_BATCH]
        batch = edge_batch(loader.graph, loader.tokens, chosen, loader.max_tokens)
        for layers in _attention(classifier, batch):
            rows = [layer.weights[:, :1] if token == "cls" else layer.weights for layer in layers]
            averaged = [
                row.float().mean((0, 1)).split([len(at.virtual), row.size(-1) - len(at.virtual)])
                for row, at in zip(rows, layers, strict=True)
            ]
            means.append(
                [(float(v.mean()) if len(v) else 0.0, float(t.mean())) for v, t in averaged]
            )
    table = np.array(means)  # [edges, layers, 2]
    last = table[:, 1:][:, -2:].mean(axis=1)  # the first layer has no virtual tokens
    gap = bootstrap_interval(last[:, 0] - last[:, 1], 0, groups=np.asarray(loader.graph.src)[edges])
    virtual, text = last.mean(axis=0)
    found = [
        Measurement(name=f"{name}/layer {layer}", value=float(value), examples=len(edges))
        for layer, both in enumerate(table.mean(axis=0))
        for name, value in zip(("virtual", "text"), both, strict=True)
    ]
    difference = Measurement(
        name="virtual-minus-text",
        value=gap.value,
        what=f"attention to a virtual token ({virtual:.3f}) minus to a text token ({text:.3f})",
        low=gap.low,
        high=gap.high,
        examples=len(edges),
    )
    return [difference, *found]


def _attention(classifier: EdgeClassifier, batch: EdgeBatch) -> list[list[AttentionMap]]:
    """The full attention of every layer; the model itself computes only one row of the last."""
    maps: list[list[AttentionMap]] = classifier.model.eval().attention_maps(  # type: ignore[operator]
        batch.to(classifier.device)
    )
    return maps


def _random_place(words: Sequence[str], edge: int) -> int:
    """A fixed random place of a token that is not special; the first if there is none."""
    places = [
        i for i, word in enumerate(words) if not (word.startswith("[") and word.endswith("]"))
    ]
    keys = hash_keys(0, 0xF17, edge, np.array(places, np.int64))
    return places[int(np.argmin(keys))] if places else 0


@torch.inference_mode()
def node_map(predictor: LinkPredictor, nodes: Ids, names: Sequence[str], title: str) -> NodeMap:
    """Target nodes and the edges around them, projected to two dimensions."""
    network = predictor.fitted_.network
    sampler = network.graph.sampler(network.split, [MAX_EDGES])
    batch = replace(network.loader, target_sampler=sampler).nodes(nodes, side="target")
    batch = batch.to(predictor.device)
    with predictor.options.autocast():
        edges = predictor.model.encode_ego_edges(batch).float().cpu().numpy()  # type: ignore[operator]
        centers = predictor.model(batch).float().cpu().numpy()
    points = project_2d(np.concatenate([centers, edges])).tolist()
    return NodeMap(
        title=title,
        names=list(names),
        nodes=points[: len(nodes)],
        edges=points[len(nodes) :],
        ends=batch.owner.tolist(),
    )


@torch.inference_mode()
def measure_embeddings(predictor: LinkPredictor, nodes: Ids) -> list[Measurement]:
    """Mean cosine similarity between nodes, edges of one node, and edges of different nodes.

    The differences that the paper claims have intervals over nodes.
    """
    network = predictor.fitted_.network
    sampler = network.graph.sampler(network.split, [MEASURED_EDGES])
    sized, centers, sums, sizes = replace(network.loader, target_sampler=sampler), [], [], []
    for start in range(0, len(nodes), ATTENTION_BATCH):
        batch = sized.nodes(nodes[start : start + ATTENTION_BATCH], side="target")
        batch = batch.to(predictor.device)
        with predictor.options.autocast():
            edges = predictor.model.encode_ego_edges(batch).float()  # type: ignore[operator]
            center = predictor.model(batch).float()
        unit = torch.nn.functional.normalize(edges)  # [E, D]
        owner = torch.as_tensor(batch.owner, device=unit.device)
        sums.append(unit.new_zeros(len(center), unit.size(1)).index_add_(0, owner, unit).cpu())
        sizes.append(torch.bincount(owner, minlength=len(center)).cpu())
        centers.append(torch.nn.functional.normalize(center).cpu())
    center, total, size = (torch.cat(parts).double().numpy() for parts in (centers, sums, sizes))
    return similarity_measurements(center, total, size)


def similarity_measurements(centers: Floats, sums: Floats, sizes: Floats) -> list[Measurement]:
    """From unit vectors of nodes [n, D], and the sum and number of unit vectors of their edges."""
    within = (np.square(sums).sum(1) - sizes) / np.maximum(sizes * (sizes - 1), 1)  # pairs of edges
    means = sums / np.maximum(sizes, 1)[:, None]
    _, counts = draw_clusters(np.arange(len(centers)), 0)
    counts = np.vstack([np.ones(len(centers)), counts])  # the first row is the estimate

    def between(vectors: Floats) -> Floats:
        """The mean inner product of two different nodes, by resample."""
        own = np.square(vectors).sum(1)
        both = np.square(counts @ vectors).sum(1) - np.square(counts) @ own
        return np.asarray(both / np.maximum(counts.sum(1) ** 2 - np.square(counts).sum(1), 1))

    has_pairs = counts * (sizes > 1)
    values = {
        "nodes": between(centers),
        "edges of different nodes": between(means),
        "edges of the same node": has_pairs @ within / np.maximum(has_pairs.sum(1), 1),
    }
    differences = {
        "nodes-minus-edges": ("nodes", "edges of different nodes"),
        "same-node-minus-other": ("edges of the same node", "edges of different nodes"),
    }
    found = []
    for name, (first, second) in differences.items():
        gaps = values[first] - values[second]
        low, high = np.quantile(gaps[1:], [0.025, 0.975])
        what = (
            f"cosine of {first} ({values[first][0]:.3f}) minus {second} ({values[second][0]:.3f})"
        )
        found.append(
            Measurement(
                name=name,
                value=float(gaps[0]),
                what=what,
                low=float(low),
                high=float(high),
                examples=len(centers),
            )
        )
    similarities = [
        Measurement(name=name, value=float(value[0]), examples=len(centers))
        for name, value in values.items()
    ]
    return [*found, *similarities]


def project_2d(vectors: ArrayLike, seed: int = 0) -> NDArray[np.float64]:
    """Project vectors [n, D] to [n, 2] by t-SNE; a few vectors by PCA."""
    table = np.asarray(vectors, np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(
            f"vectors to project must be finite and of shape [n, D] (got {list(table.shape)})"
        )
    points = _pca(table)
    if len(table) < MIN_VECTORS:
        return points
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(table) - 1) / 3)
    initial = points / (points.std() or 1.0) * 1e-4
    tsne = TSNE(perplexity=perplexity, init=initial, random_state=seed)
    return np.asarray(tsne.fit_transform(table.astype(np.float32)), np.float64)


def _pca(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first two principal components; the largest loading of each is positive."""
    centered = table - table.mean(axis=0) if len(table) else table
    left, sizes, right = np.linalg.svd(centered, full_matrices=False)
    largest = np.argmax(np.abs(right), axis=1) if right.size else np.empty(0, np.int64)
    signs = np.sign(right[np.arange(len(right)), largest]) if right.size else np.empty(0)
    points = (left * sizes * signs)[:, :2]
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
