"""The components of a link score that a trained model provides: text, node vectors, popularity."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.data.batch import UNKNOWN, EgoBatch
from edgeformers.data.loader import INFERENCE, EgoLoader
from edgeformers.data.sampler import EgoSampler, Neighborhoods
from edgeformers.data.types import Ids, Side
from edgeformers.inference.components import ScoreComponent
from edgeformers.inference.edge_history import Arrivals, Departures, NewEdges
from edgeformers.inference.encode import EncodeOptions, Vectors, encode_nodes
from edgeformers.inference.vector_cache import VectorCache
from edgeformers.models.link_head import LinkHead
from edgeformers.nn.packed import PackedText

#: Of a node: the neighbor, the text, whether it leads there, and its number.
TextEdge = tuple[int, str | None, bool, int]
#: Edges of a node by number; ~i is the i-th of those that are not in the network.
EdgeNumbers = frozenset[int]


CACHED_TARGETS = 2_000  # whose edges' vectors are kept for explanations: about 25 MB


@dataclass(frozen=True, kw_only=True)
class EdgeVectors:
    """What each edge adds to the text vector of its node; those of a node sum to the vector.

    Shapes: E edges, D width.
    """

    owner: Ids  # [E], the position of the node
    neighbor: Ids  # [E], the node at the other end; -1 if unknown
    edge: Ids  # [E], its number; ~i for the i-th edge that is not in the network
    vectors: Vectors  # [E, D]

    def of(self, position: int) -> "EdgeVectors":
        """Those of one node."""
        own = self.owner == position
        return EdgeVectors(
            owner=self.owner[own],
            neighbor=self.neighbor[own],
            edge=self.edge[own],
            vectors=self.vectors[own],
        )


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
        self._arrived: dict[int, list[TextEdge]] = defaultdict(list)
        self._removed: dict[int, EdgeNumbers] = {}
        self._of_targets: dict[int, EdgeVectors | None] = {}
        self.stored: Mapping[Side, Vectors] | None = None  # node_repr [N, D] of an index
        self.cache: VectorCache | None = None  # of nodes with the edges of training
        self._norms: Mapping[Side, Vectors] | None = None

    @property
    def width(self) -> int:
        return int(self.model.width)  # type: ignore[arg-type]

    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        return self._factors(self.encode(nodes, side), side)

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return self.fold_in_each([edges], side)[0]

    def fold_in_each(self, nodes: Sequence[NewEdges], side: Side) -> Tensor:
        return self._factors(self.encode_new(nodes, side), side)

    def update(self, arrivals: Arrivals) -> None:
        """Encode nodes with their newest edges from now on."""
        edges = arrivals.edges
        ends = zip(edges.source.tolist(), edges.target.tolist(), edges.texts, strict=True)
        for node in {*edges.source.tolist(), *edges.target.tolist()}:
            self._of_targets.pop(node, None)
        for source, target, text in ends:
            if source >= 0:
                self._arrived[source].append((target, text, True, UNKNOWN))
            if target >= 0:
                self._arrived[target].append((source, text, False, UNKNOWN))

    def renew(self, nodes: Ids) -> None:
        tables = {} if self.stored is None else {id(t): (s, t) for s, t in self.stored.items()}
        for side, table in tables.values():  # one table if every node has one side
            changed = nodes[nodes < len(table)]
            table[changed] = self._read(changed, side)
        self._norms = None

    def remove(self, departures: Departures) -> None:
        """Read none of the edges from now on, neither for the node nor for its neighbors."""
        node, gone = departures.node, frozenset(departures.edges.tolist())
        ends = [departures.node, *departures.neighbors.tolist()]
        for other in ends:
            self._of_targets.pop(other, None)
            kept = [edge for edge in self._arrived.pop(other, []) if node not in (other, edge[0])]
            if kept:
                self._arrived[other] = kept
            if gone and other < self.loader.graph.num_nodes:
                self._removed[other] = self.removed_from(other) | gone

    def removed_from(self, node: int) -> EdgeNumbers:
        """The edges of the network that are not read any more for a node."""
        return self._removed.get(node, frozenset())

    def is_changed(self, node: int) -> bool:
        """Whether other edges of a node are read than those of training."""
        is_new = node >= self.loader.graph.num_nodes
        return is_new or node in self._arrived or node in self._removed

    def encode(self, nodes: Ids, side: Side) -> Vectors:
        """node_repr [n, D] of known nodes, read as sources or as targets; stored ones first."""
        if self.stored is None:
            return self._read(nodes, side)
        table = self.stored[side]
        is_stored = nodes < len(table)
        vectors = table[np.where(is_stored, nodes, 0)]
        if not is_stored.all():
            vectors[~is_stored] = self._read(nodes[~is_stored], side)
        return vectors

    def store(self, side: Side) -> tuple[Vectors, Vectors]:
        """node_repr [N, D] of all nodes, which are encoded if there is no index, and its norms."""
        if self.stored is None:
            graph = self.loader.graph
            nodes = np.arange(graph.num_nodes)
            vectors = self._read(nodes, "source")
            targets = vectors if graph.is_bipartite else self._read(nodes, "target")
            self.stored = {"source": vectors, "target": targets}
        if self._norms is None:
            self._norms = {
                each: np.linalg.norm(table, axis=1) for each, table in self.stored.items()
            }
        return self.stored[side], self._norms[side]

    def changed_edges(self, nodes: Ids, side: Side) -> list[list[TextEdge] | None]:
        """The edges that are read of each node now; None if it has those of training."""
        return [
            self._read_edges(node, side) if self.is_changed(node) else None
            for node in nodes.tolist()
        ]

    def vectors_with(
        self, nodes: Ids, edges: Sequence[list[TextEdge] | None], side: Side
    ) -> Tensor:
        """The vectors [n, R] of nodes with edges as `changed_edges` has returned them."""
        return self._factors(self._read_with(nodes, edges, side), side)

    def _read(self, nodes: Ids, side: Side) -> Vectors:
        """node_repr [n, D] from the texts of the nodes' edges."""
        return self._read_with(nodes, self.changed_edges(nodes, side), side)

    def _read_with(self, nodes: Ids, edges: Sequence[list[TextEdge] | None], side: Side) -> Vectors:
        changed = np.array([own is not None for own in edges], bool)
        if not changed.any():
            return self._read_trained(nodes, side)
        vectors = np.empty((len(nodes), self.width), np.float32)
        if not changed.all():
            vectors[~changed] = self._read_trained(nodes[~changed], side)
        size, parts, centers = self.options.batch, [], nodes[changed]
        around = [own for own in edges if own is not None]
        for at in range(0, len(around), size):
            part = centers[at : at + size], around[at : at + size]
            parts.append(self._encode(*part).cpu().numpy())
        vectors[changed] = np.concatenate(parts)
        return vectors

    def _read_trained(self, nodes: Ids, side: Side) -> Vectors:
        """node_repr [n, D] of nodes that have the edges of training."""
        graph, show = self.loader.graph, self.options.show

        def encode(ids: Ids) -> Vectors:
            options = replace(self.options, show=show and len(ids) > self.options.batch)
            return encode_nodes(self.model, self.loader, ids, options, side=side)

        if self.cache is None:
            return encode(nodes)
        kind = "nodes" if graph.is_bipartite else side  # then every node has one side
        return self.cache.vectors(kind, nodes, graph.num_nodes, encode)

    def encode_new(self, nodes: Sequence[NewEdges], side: Side) -> Tensor:
        """node_repr [n, D] of nodes that are not in the network, each from its own edges."""
        size, around = self.options.batch, [_edges(new, side) for new in nodes]
        parts = [torch.empty(0, self.width, device=self.options.device)]
        for at in range(0, len(nodes), size):
            part = around[at : at + size]
            parts.append(self._encode(np.full(len(part), UNKNOWN), part))
        return torch.cat(parts)

    def vectors_without(
        self,
        nodes: Sequence[int],
        removed: Sequence[EdgeNumbers],
        side: Side,
        new: NewEdges | None = None,
    ) -> Tensor:
        """The vectors [n, D] of nodes, known or new, each without some of its edges."""
        pairs = list(zip(nodes, removed, strict=True))
        if not pairs:
            return torch.empty(0, self.width)
        if new is not None or any(map(self.is_changed, nodes)):
            around = [self._read_edges(node, side, gone, new) for node, gone in pairs]
            states = self._encode(np.array(nodes), around)
        else:
            samples = [self._sample(node, side, gone) for node, gone in pairs]
            states = self.options.encode(self.model, self.loader.pack(*samples))
        return self._factors(states, side).cpu()

    def target_edge_vectors(self, targets: Ids) -> "list[EdgeVectors | None]":
        """What each edge that is read adds to the vector of each target; cached."""
        if len(self._of_targets) + len(targets) > CACHED_TARGETS:
            self._of_targets = {}
        missing = [node for node in targets.tolist() if node not in self._of_targets]
        trained = np.array([node for node in missing if not self.is_changed(node)], np.int64)
        if len(trained):
            read = self._known_edge_vectors(trained, "target")
            for at, node in enumerate(trained.tolist()):
                self._of_targets[node] = None if read is None else read.of(at)
        for node in filter(self.is_changed, missing):
            self._of_targets[node] = self._edge_vectors_of(node, "target")
        return [self._of_targets[node] for node in targets.tolist()]

    def source_edge_vectors(self, source: int, new: NewEdges | None) -> "EdgeVectors | None":
        """The same for one source, known or new."""
        return self._edge_vectors_of(source, "source", new)

    def ego(
        self, node: int, side: Side, new: NewEdges | None = None
    ) -> tuple[EgoBatch, list[TextEdge]]:
        """A node, known or new, as the model reads it, and the edges that it reads."""
        edges = self._read_edges(node, side, frozenset(), new)
        if new is None and not self.is_changed(node):
            return self.loader.pack(self._sample(node, side, frozenset())), edges
        return self._batch(np.array([node]), [edges]), edges

    def later_edges(self, node: int, new: NewEdges | None = None) -> list[TextEdge]:
        """The edges of a node, known or new, that are not in the network; numbered from ~0 on."""
        edges = self._arrived.get(node, []) if new is None else _edges(new, "source")
        return [(*edge[:3], ~at) for at, edge in enumerate(edges)]

    def _edge_vectors_of(
        self, node: int, side: Side, new: NewEdges | None = None
    ) -> "EdgeVectors | None":
        batch, edges = self.ego(node, side, new)
        numbers = np.array([number for *_, number in edges], np.int64)
        read = self._edge_vectors(batch, side, numbers)
        neighbors = np.array([neighbor for neighbor, *_ in edges], np.int64)
        return None if read is None else replace(read, neighbor=neighbors)

    def _known_edge_vectors(self, nodes: Ids, side: Side) -> "EdgeVectors | None":
        sample = self._sampler(int(nodes[0]), side).sample(nodes, epoch=INFERENCE)
        edge = sample.edge_ids[sample.mask].astype(np.int64)
        return self._edge_vectors(self.loader.pack(sample), side, edge)

    @torch.inference_mode()
    def _edge_vectors(self, batch: EgoBatch, side: Side, edge: Ids) -> "EdgeVectors | None":
        """A node with edges is the sum of its edges' shares; the head scales both alike.

        None if there are no edges, or if the model does not tell edges apart.
        """
        model, owner = self.model, batch.owner
        if not hasattr(model, "edge_shares") or not len(owner):
            return None
        moved = batch.to(self.options.device)
        with self.options.autocast():
            states = model.encode_ego_edges(moved)  # type: ignore[operator]
            shares = model.edge_shares(moved, states).float()  # type: ignore[operator]
        sums = shares.new_zeros(len(batch), shares.size(1)).index_add(0, moved.owner, shares)
        scale = self.head.scale() if side == "source" else 1.0
        if self.head.normalize:
            scale = scale / sums.norm(dim=1).clamp(min=1e-12)[moved.owner, None]
        vectors: Vectors = (shares * scale).cpu().numpy()
        neighbor = batch.neighbor.numpy()
        return EdgeVectors(owner=owner.numpy(), neighbor=neighbor, edge=edge, vectors=vectors)

    def _read_edges(
        self,
        node: int,
        side: Side,
        removed: EdgeNumbers = frozenset(),
        new: NewEdges | None = None,
    ) -> list[TextEdge]:
        """The edges that the model reads of a node: the newest, then sampled training edges."""
        later = [edge for edge in self.later_edges(node, new) if edge[-1] not in removed]
        if new is not None:
            return later
        graph, size = self.loader.graph, sum(self._sampler(node, side).sizes)
        newest = later[: -1 - size : -1]
        if node >= graph.num_nodes:
            return newest
        sample = self._sample(node, side, removed)
        ids = sample.edge_ids[sample.mask].astype(np.int64)
        neighbors, is_out = sample.neighbors[sample.mask].tolist(), graph.src[ids] == node
        trained = zip(neighbors, graph.texts(ids), is_out.tolist(), ids.tolist(), strict=True)
        return [*newest, *trained][:size]

    def _sample(self, node: int, side: Side, removed: EdgeNumbers) -> Neighborhoods:
        numbers = [number for number in removed | self.removed_from(node) if number >= 0]
        return self._sampler(node, side).sample_without(node, numbers, epoch=INFERENCE)

    def _sampler(self, node: int, side: Side) -> EgoSampler:
        graph, is_source = self.loader.graph, side == "source"
        if graph.is_bipartite and node < graph.num_nodes:
            is_source = node < graph.num_sources
        return self.loader.source_sampler if is_source else self.loader.target_sampler

    def _encode(self, centers: Ids, around: Sequence[Sequence[TextEdge]]) -> Tensor:
        return self.options.encode(self.model, self._batch(centers, around))

    def _batch(self, centers: Ids, around: Sequence[Sequence[TextEdge]]) -> EgoBatch:
        """A batch in which nodes that are not in the network are unknown."""
        edges = [edge for own in around for edge in own]
        neighbors = np.array([neighbor for neighbor, *_ in edges], np.int64)
        return EgoBatch.from_counts(
            text=self.pack([text for _, text, *_ in edges]),
            center=torch.from_numpy(self._in_network(np.asarray(centers, np.int64))),
            counts=torch.tensor([len(own) for own in around]),
            neighbor=torch.from_numpy(self._in_network(neighbors)),
            is_out=torch.tensor([is_out for _, _, is_out, _ in edges], dtype=torch.bool),
        )

    def _in_network(self, nodes: Ids) -> Ids:
        return np.where(nodes < self.loader.graph.num_nodes, nodes, UNKNOWN)

    @torch.inference_mode()
    def _factors(self, states: Tensor | Vectors, side: Side) -> Tensor:
        return self.head.text_factors(side, torch.as_tensor(states, device=self.options.device))


class NodeVectorComponent(ScoreComponent):
    """weight z_v . z_u, with z the vectors of the node table."""

    name = "node_vectors"

    def __init__(self, head: LinkHead, table: nn.Module, num_nodes: int) -> None:
        self.head, self.table, self.num_nodes = head, table, num_nodes

    @torch.inference_mode()
    def vectors(self, nodes: Ids, side: Side) -> Tensor:
        assert self.head.weight is not None
        numbers = torch.from_numpy(np.where(nodes < self.num_nodes, nodes, UNKNOWN))
        numbers = numbers.to(self.head.weight.device)
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
        is_known = nodes < len(self.rise)
        numbers = torch.from_numpy(np.where(is_known, nodes, UNKNOWN))
        bias = self.head.popularity_factors(side, numbers.to(self.head.bias.device)).cpu()
        if side == "target":
            bias[is_known] += self.rise[numbers[is_known]][:, None]
        return bias

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return torch.tensor([1.0 if side == "source" else 0.0])

    def key_without(self, key: Tensor, edges: int, kept: int) -> Tensor:
        return key - float(np.log1p(edges) - np.log1p(kept))

    def update(self, arrivals: Arrivals) -> None:
        """Raise the bias as log(1 + edges) rises."""
        linked = arrivals.link_targets[arrivals.link_targets < len(self.rise)]
        nodes, counts = np.unique(linked, return_counts=True)
        edges = arrivals.history.popularity[nodes]
        self.rise[nodes] += torch.from_numpy(np.log1p(edges) - np.log1p(edges - counts)).float()

    def remove(self, departures: Departures) -> None:
        """Lower the bias as log(1 + edges) falls."""
        for node, count in departures.lost.items():
            if node < len(self.rise):
                edges = departures.history.popularity[node]
                self.rise[node] -= float(np.log1p(edges + count) - np.log1p(edges))


def _edges(new: NewEdges, side: Side) -> list[TextEdge]:
    """The edges of a new node on `side`."""
    ends = zip(new.neighbors(side).tolist(), new.texts, strict=True)
    return [(neighbor, text, side == "source", UNKNOWN) for neighbor, text in ends]
