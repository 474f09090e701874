"""Pictures of what a trained model does: how it reads a text, and where nodes and edges lie."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from edgeformers.data.batch import edge_batch
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.types import Ids
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.report.plots import project_2d
from edgeformers.report.results import AttentionMap, NodeMap

MAP_EDGES = 40  # edges drawn around each node, at most


@torch.inference_mode()
def attention_picture(classifier: EdgeClassifier, edge: int, title: str) -> AttentionMap:
    """What the read-out token of one edge of the network reads in every layer."""
    loader = classifier.objective.loader
    batch = edge_batch(loader.graph, loader.tokens, [edge], loader.max_tokens)
    batch = batch.to(classifier.device)
    (maps,) = classifier.model.attention_maps(batch)  # type: ignore[operator]
    virtual = max(len(one.virtual) for one in maps)
    layers = []
    for one in maps:
        row = one.weights[:, 0].float().mean(0).tolist()  # [V+L], the mean over heads
        layers.append([0.0] * (virtual - len(one.virtual)) + row)
    graph = loader.graph
    ends = graph.node_names([int(graph.src[edge]), int(graph.dst[edge])])
    words = [classifier.tokenizer.id_to_token(i) or "" for i in batch.text.token_ids.tolist()]
    names = dict(zip(("source", "target"), ends, strict=True))
    heard = [names[name] for name in maps[-1].virtual]
    return AttentionMap(title=title, tokens=heard + words, weights=layers, virtual=virtual)


@torch.inference_mode()
def node_map(
    predictor: LinkPredictor, nodes: Ids, names: Sequence[str], title: str, *, seed: int = 0
) -> NodeMap:
    """Targets and the edges around them, as the model sees both, on a plane."""
    loader = predictor.objective.loader
    wide = EgoSampler(loader.target_sampler.adjacency, [MAP_EDGES], seed=seed)
    batch = replace(loader, target_sampler=wide).nodes(nodes, side="target").to(predictor.device)
    with predictor.autocast():
        edges = predictor.model.encode_ego_edges(batch).float().cpu().numpy()  # type: ignore[operator]
        centers = predictor.model(batch).float().cpu().numpy()
    plane = project_2d(np.concatenate([centers, edges]), seed).tolist()
    return NodeMap(
        title=title,
        names=list(names),
        nodes=plane[: len(nodes)],
        edges=plane[len(nodes) :],
        ends=batch.owner.tolist(),
    )
