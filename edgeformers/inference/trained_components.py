"""The components of a link score that a trained model provides: text, node vectors, popularity."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.data.batch import UNKNOWN, EgoBatch
from edgeformers.data.loader import INFERENCE, EgoLoader
from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError
from edgeformers.inference.components import Arrivals, NewEdges, ScoreComponent
from edgeformers.inference.encode import EncodeOptions, Vectors, encode_nodes
from edgeformers.models.link_head import LinkHead
from edgeformers.nn.packed import PackedText

_Edge = tuple[int, str | None, bool]  # of a node: the neighbor, the text, whether it leads there


class TextComponent(ScoreComponent):
    """scale h_v . h_u, with h read from the texts of a node's edges by the trained encoder.

    It reads training edges, and edges that arrived after fitting. `pack` tokenizes texts.
    """

    name = "text"

    def __init__(
        self,
        head: LinkHead,
        model: nn.Module,
        loader: EgoLoader,
        options: EncodeOptions,
        pack: Callable[[Sequence[str | None]], PackedText],
    ) -> None:
        self.head, self.model, self.loader = head, model, loader
        self.options, self.pack = options, pack
        self._arrived: dict[int, list[_Edge]] = defaultdict(list)

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        return self._factors(self.encode(nodes, side), side)

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return self._factors(self.encode_new([edges], side), side)[0]

    def update(self, arrivals: Arrivals) -> None:
        """Encode nodes with their newest edges from now on."""
        edges = arrivals.edges
        ends = zip(edges.source.tolist(), edges.target.tolist(), edges.texts, strict=True)
        for source, target, text in ends:
            if source >= 0:
                self._arrived[source].append((target, text, True))
            if target >= 0:
                self._arrived[target].append((source, text, False))

    def encode(self, nodes: Ids, side: Side) -> Vectors:
        """node_repr [n, D] of known nodes, read as sources or as targets."""
        options = replace(self.options, show=self.options.show and len(nodes) > self.options.batch)
        vectors = encode_nodes(self.model, self.loader, nodes, options, side=side)
        changed = [at for at, node in enumerate(nodes.tolist()) if node in self._arrived]
        if changed:
            around = [self._newest_edges(int(nodes[at]), side) for at in changed]
            vectors[changed] = self._encode(nodes[changed], around).cpu().numpy()
        return vectors

    def encode_new(self, nodes: Sequence[NewEdges], side: Side) -> Tensor:
        """node_repr [n, D] of nodes that are not in the network, each from its own edges."""
        size, is_out = self.options.batch, side == "source"
        around: list[list[_Edge]] = [
            [
                (neighbor, text, is_out)
                for neighbor, text in zip(new.neighbors(side).tolist(), new.texts, strict=True)
            ]
            for new in nodes
        ]
        parts = [torch.empty(0, int(self.model.width), device=self.options.device)]  # type: ignore[arg-type]
        for at in range(0, len(nodes), size):
            part = around[at : at + size]
            parts.append(self._encode(np.full(len(part), UNKNOWN), part))
        return torch.cat(parts)

    @torch.inference_mode()
    def edge_shares(self, query: Tensor, targets: Ids) -> Iterator[tuple[int, int, int, float]]:
        """What each edge of the targets adds to the text's share: (target, edge, neighbor, value).

        A target is the sum of its edges' vectors, so its product with a query [D] is the sum of
        theirs. Where keys are scaled to length 1, so are the values. `target` is a position.
        """
        model = self.model
        if not hasattr(model, "edge_shares"):
            raise InputError(
                f"{type(model).__name__} cannot attribute a score to single texts; use explain=0 "
                "or an edgeformer-n model"
            )
        sample = self.loader.target_sampler.sample(targets, epoch=INFERENCE)
        batch = self.loader.nodes(targets, side="target").to(self.options.device)
        if not batch.text.num_texts:
            return
        with self.options.autocast():
            states = model.encode_ego_edges(batch)  # type: ignore[operator]
            vectors = model.edge_shares(batch, states).float()  # type: ignore[operator]
        values = vectors @ query.to(vectors.device)  # [E]
        if self.head.normalize:
            sums = vectors.new_zeros(len(targets), vectors.size(1))
            lengths = sums.index_add(0, batch.owner, vectors).norm(dim=1).clamp(min=1e-12)
            values = values / lengths[batch.owner]
        yield from zip(
            batch.owner.tolist(),
            sample.edge_ids[sample.mask].tolist(),
            sample.neighbors[sample.mask].tolist(),
            values.tolist(),
            strict=True,
        )

    def _newest_edges(self, node: int, side: Side) -> list[_Edge]:
        """As many edges as the model reads of a node: the newest, then sampled training edges."""
        graph, is_source = self.loader.graph, side == "source"
        if graph.is_bipartite:
            is_source = node < graph.num_sources
        sampler = self.loader.source_sampler if is_source else self.loader.target_sampler
        sample = sampler.sample(np.array([node]), epoch=INFERENCE)
        ids = sample.edge_ids[sample.mask].astype(np.int64)
        neighbors, is_out = sample.neighbors[sample.mask].tolist(), graph.src[ids] == node
        trained = zip(neighbors, graph.texts(ids), is_out.tolist(), strict=True)
        return [*reversed(self._arrived[node]), *trained][: sum(sampler.sizes)]

    def _encode(self, centers: Ids, around: Sequence[Sequence[_Edge]]) -> Tensor:
        edges = [edge for own in around for edge in own]
        batch = EgoBatch.from_counts(
            text=self.pack([text for _, text, _ in edges]),
            center=torch.from_numpy(np.asarray(centers, np.int64)),
            counts=torch.tensor([len(own) for own in around]),
            neighbor=torch.tensor([neighbor for neighbor, _, _ in edges], dtype=torch.int64),
            is_out=torch.tensor([is_out for _, _, is_out in edges], dtype=torch.bool),
        )
        with torch.inference_mode(), self.options.autocast():
            states: Tensor = self.model(batch.to(self.options.device))
        return states.float()

    @torch.inference_mode()
    def _factors(self, states: Tensor | Vectors, side: Side) -> Tensor:
        return self.head.text_factors(side, torch.as_tensor(states, device=self.options.device))


class NodeVectorComponent(ScoreComponent):
    """weight z_v . z_u, with z the vectors of the node table."""

    name = "node_vectors"

    def __init__(self, head: LinkHead, table: nn.Module) -> None:
        self.head, self.table = head, table

    @torch.inference_mode()
    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        assert self.head.weight is not None
        numbers = torch.from_numpy(nodes).to(self.head.weight.device)
        return self.head.node_factors(side, self.table(numbers))

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return self.vectors(np.array([UNKNOWN]), side)[0]


class PopularityComponent(ScoreComponent):
    """b_u, a learned bias of each candidate."""

    name = "popularity"

    def __init__(self, head: LinkHead) -> None:
        assert head.bias is not None
        self.head, self.rise = head, torch.zeros(len(head.bias))

    @torch.inference_mode()
    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        assert self.head.bias is not None
        numbers = torch.from_numpy(nodes)
        bias = self.head.popularity_factors(side, numbers.to(self.head.bias.device)).cpu()
        return bias if side == "source" else bias + self.rise[numbers][:, None]

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return torch.tensor([1.0 if side == "source" else 0.0])

    def update(self, arrivals: Arrivals) -> None:
        """Raise the bias as log(1 + edges) rises."""
        nodes, counts = np.unique(arrivals.target, return_counts=True)
        edges = arrivals.history.popularity[nodes]
        self.rise[nodes] += torch.from_numpy(np.log1p(edges) - np.log1p(edges - counts)).float()
