"""NodeReader: representations of nodes from the texts of their edges, known and new."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.data.batch import UNKNOWN, EgoBatch
from edgeformers.data.loader import INFERENCE, EgoLoader
from edgeformers.data.types import Ids, Side
from edgeformers.inference.components import NewEdges
from edgeformers.inference.encode import EncodeOptions, Vectors, encode_nodes
from edgeformers.nn.packed import PackedText


@dataclass(frozen=True)
class _Edge:
    """An edge as one of its nodes sees it."""

    neighbor: int
    text: str | None
    is_out: bool


@dataclass(frozen=True, kw_only=True)
class NodeReader:
    """A node model with what it reads: training edges, and edges that arrived after fitting."""

    model: nn.Module
    loader: EgoLoader
    options: EncodeOptions
    pack: Callable[[Sequence[str | None]], PackedText]  # tokenizes texts
    _arrived: dict[int, list[_Edge]] = field(default_factory=lambda: defaultdict(list))

    def encode(self, nodes: Ids, side: Side) -> Vectors:
        """node_repr [n, D] of known nodes, read as sources or as targets."""
        options = replace(self.options, show=self.options.show and len(nodes) > self.options.batch)
        vectors = encode_nodes(self.model, self.loader, nodes, side=side, **vars(options))
        changed = [at for at, node in enumerate(nodes.tolist()) if node in self._arrived]
        if changed:
            around = [self._newest_edges(int(nodes[at]), side) for at in changed]
            vectors[changed] = self._encode(nodes[changed], around).cpu().numpy()
        return vectors

    def encode_new(self, nodes: Sequence[NewEdges], side: Side) -> Tensor:
        """node_repr [n, D] of nodes that are not in the network, each from its own edges."""
        size, is_out = self.options.batch, side == "source"
        parts = [torch.empty(0, int(self.model.width), device=self.options.device)]  # type: ignore[arg-type]
        for at in range(0, len(nodes), size):
            around = [
                [
                    _Edge(neighbor, text, is_out)
                    for neighbor, text in zip(new.neighbors(side).tolist(), new.texts, strict=True)
                ]
                for new in nodes[at : at + size]
            ]
            parts.append(self._encode(np.full(len(around), UNKNOWN), around))
        return torch.cat(parts)

    def add(self, edges: NewEdges) -> None:
        """Let the nodes of new edges be read with them from now on."""
        ends = zip(edges.source.tolist(), edges.target.tolist(), edges.texts, strict=True)
        for source, target, text in ends:
            if source >= 0:
                self._arrived[source].append(_Edge(target, text, True))
            if target >= 0:
                self._arrived[target].append(_Edge(source, text, False))

    def _newest_edges(self, node: int, side: Side) -> list[_Edge]:
        """As many edges as the model reads of a node: the newest, then sampled training edges."""
        is_source = side == "source"
        if self.loader.graph.is_bipartite:
            is_source = node < self.loader.graph.num_sources
        sampler = self.loader.source_sampler if is_source else self.loader.target_sampler
        sample = sampler.sample(np.array([node]), epoch=INFERENCE)
        ids = sample.edge_ids[sample.mask].astype(np.int64)
        graph = self.loader.graph
        trained = map(
            _Edge, sample.neighbors[sample.mask].tolist(), graph.texts(ids), graph.src[ids] == node
        )
        return [*reversed(self._arrived[node]), *trained][: sum(sampler.sizes)]

    def _encode(self, centers: Ids, around: Sequence[Sequence[_Edge]]) -> Tensor:
        edges = [edge for one in around for edge in one]
        batch = EgoBatch.from_counts(
            text=self.pack([edge.text for edge in edges]),
            center=torch.from_numpy(np.asarray(centers, np.int64)),
            counts=torch.tensor([len(one) for one in around]),
            neighbor=torch.tensor([edge.neighbor for edge in edges], dtype=torch.int64),
            is_out=torch.tensor([bool(edge.is_out) for edge in edges], dtype=torch.bool),
        )
        with torch.inference_mode(), self.options.autocast():
            states: Tensor = self.model(batch.to(self.options.device))
        return states.float()
