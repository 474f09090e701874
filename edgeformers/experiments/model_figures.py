"""Data for figures of a trained model: its attention, and a 2-d map of nodes and edges."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.batch import edge_batch
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, MissingExtraError, require
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.report.figures import AttentionFigure, NodeMap

MAX_EDGES = 40  # edges per node on a map
MIN_VECTORS = 10  # for t-SNE; fewer vectors have no neighborhoods to preserve


@torch.inference_mode()
def attention_map(classifier: EdgeClassifier, edge: int, title: str) -> AttentionFigure:
    """The attention of the readout token of one edge, in every layer."""
    loader = classifier.fitted_.network.loader
    batch = edge_batch(loader.graph, loader.tokens, [edge], loader.max_tokens)
    batch = batch.to(classifier.device)
    (layers,) = classifier.model.attention_maps(batch)  # type: ignore[operator]
    virtual = max(len(layer.virtual) for layer in layers)
    weights = []
    for layer in layers:
        row = layer.weights[:, 0].float().mean(0).tolist()  # [V+L], mean over heads
        weights.append([0.0] * (virtual - len(layer.virtual)) + row)
    graph = loader.graph
    ends = graph.node_names([int(graph.src[edge]), int(graph.dst[edge])])
    names = dict(zip(("source", "target"), ends, strict=True))
    tokens = [names[name] for name in layers[-1].virtual]
    tokens += [
        classifier.fitted_.tokenizer.id_to_token(i) or "" for i in batch.text.token_ids.tolist()
    ]
    return AttentionFigure(title=title, tokens=tokens, weights=weights, virtual=virtual)


@torch.inference_mode()
def node_map(
    predictor: LinkPredictor, nodes: Ids, names: Sequence[str], title: str, *, seed: int = 0
) -> NodeMap:
    """Target nodes and the edges around them, projected to two dimensions."""
    loader = predictor.fitted_.network.loader
    sampler = EgoSampler(loader.target_sampler.adjacency, [MAX_EDGES], seed=seed)
    batch = replace(loader, target_sampler=sampler).nodes(nodes, side="target")
    batch = batch.to(predictor.device)
    with predictor.options.autocast():
        edges = predictor.model.encode_ego_edges(batch).float().cpu().numpy()  # type: ignore[operator]
        centers = predictor.model(batch).float().cpu().numpy()
    points = project_2d(np.concatenate([centers, edges]), seed).tolist()
    return NodeMap(
        title=title,
        names=list(names),
        nodes=points[: len(nodes)],
        edges=points[len(nodes) :],
        ends=batch.owner.tolist(),
    )


def project_2d(vectors: ArrayLike, seed: int = 0) -> NDArray[np.float64]:
    """Project vectors [n, D] to [n, 2] by t-SNE or, without scikit-learn, by PCA."""
    table = np.asarray(vectors, np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(
            f"vectors to project must be finite and of shape [n, D] (got {list(table.shape)})"
        )
    points = _pca(table)
    if len(table) < MIN_VECTORS:
        return points
    try:
        manifold = require("sklearn.manifold", "baselines")
    except MissingExtraError:
        return points
    perplexity = min(30.0, (len(table) - 1) / 3)
    initial = points / (points.std() or 1.0) * 1e-4
    tsne = manifold.TSNE(perplexity=perplexity, init=initial, random_state=seed)
    return np.asarray(tsne.fit_transform(table.astype(np.float32)), np.float64)


def _pca(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first two principal components; the largest loading of each is positive."""
    centered = table - table.mean(axis=0) if len(table) else table
    left, sizes, right = np.linalg.svd(centered, full_matrices=False)
    largest = np.argmax(np.abs(right), axis=1) if right.size else np.empty(0, np.int64)
    signs = np.sign(right[np.arange(len(right)), largest]) if right.size else np.empty(0)
    points = (left * sizes * signs)[:, :2]
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
