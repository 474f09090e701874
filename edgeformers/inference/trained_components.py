"""The components of a link score that a trained model provides: text, node vectors, popularity."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers.data.loader import INFERENCE
from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError
from edgeformers.inference.components import Arrivals, NewEdges, ScoreComponent
from edgeformers.inference.node_reader import NodeReader
from edgeformers.models.link_head import LinkHead


def trained_components(head: LinkHead, reader: NodeReader) -> list[ScoreComponent]:
    """The parts of the trained score, as `LinkHead.factors` concatenates them."""
    components: list[ScoreComponent] = [TextComponent(head, reader)]
    if head.is_collaborative:
        components.append(NodeVectorComponent(head, reader.model.get_submodule("nodes")))
    if head.bias is not None:
        components.append(PopularityComponent(head))
    return components


class TextComponent(ScoreComponent):
    """scale h_v . h_u, with h read from the texts of a node's edges by the trained encoder."""

    name = "text"

    def __init__(self, head: LinkHead, reader: NodeReader) -> None:
        self.head, self.reader = head, reader

    def query(self, nodes: Ids) -> Tensor:
        return self._factors(self.reader.encode(nodes, "source"), "source")

    def key(self, nodes: Ids) -> Tensor:
        return self._factors(self.reader.encode(nodes, "target"), "target")

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return self._factors(self.reader.encode_new([edges], side), side)[0]

    def update(self, arrivals: Arrivals) -> None:
        """Encode nodes with their newest edges from now on."""
        self.reader.add(arrivals.edges)

    @torch.inference_mode()
    def edge_shares(self, query: Tensor, targets: Ids) -> Iterator[tuple[int, int, int, float]]:
        """What each edge of the targets adds to the text's share: (target, edge, neighbor, value).

        A target is the sum of its edges' vectors, so its product with a query [D] is the sum of
        theirs. Where keys are scaled to length 1, so are the values. `target` is a position.
        """
        model, loader = self.reader.model, self.reader.loader
        if not hasattr(model, "edge_shares"):
            raise InputError(
                f"{type(model).__name__} cannot attribute a score to single texts; use explain=0 "
                "or an edgeformer-n model"
            )
        sample = loader.target_sampler.sample(targets, epoch=INFERENCE)
        batch = loader.nodes(targets, side="target").to(self.reader.options.device)
        if not batch.text.num_texts:
            return
        with self.reader.options.autocast():
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

    @torch.inference_mode()
    def _factors(self, states: Tensor | np.ndarray, side: Side) -> Tensor:
        on_device = torch.as_tensor(states, device=self.reader.options.device)
        return self.head.text_factors(side, on_device)


class NodeVectorComponent(ScoreComponent):
    """weight z_v . z_u, with z the vectors of the node table."""

    name = "node_vectors"

    def __init__(self, head: LinkHead, table: nn.Module) -> None:
        self.head, self.table = head, table

    def query(self, nodes: Ids) -> Tensor:
        return self._factors(nodes, "source")

    def key(self, nodes: Ids) -> Tensor:
        return self._factors(nodes, "target")

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return self._factors(np.array([-1]), side)[0]

    @torch.inference_mode()
    def _factors(self, nodes: Ids, side: Side) -> Tensor:
        assert self.head.weight is not None
        device = self.head.weight.device
        return self.head.node_factors(side, self.table(torch.from_numpy(nodes).to(device)))


class PopularityComponent(ScoreComponent):
    """b_u, a learned bias of each candidate."""

    name = "popularity"

    def __init__(self, head: LinkHead) -> None:
        assert head.bias is not None
        self.head, self.rise = head, torch.zeros(len(head.bias))

    def query(self, nodes: Ids) -> Tensor:
        return torch.ones(len(nodes), 1)

    @torch.inference_mode()
    def key(self, nodes: Ids) -> Tensor:
        numbers = torch.from_numpy(nodes)
        assert self.head.bias is not None
        bias = self.head.popularity_factors("target", numbers.to(self.head.bias.device))
        return bias.cpu() + self.rise[numbers][:, None]

    def fold_in(self, edges: NewEdges, side: Side) -> Tensor:
        return torch.tensor([1.0 if side == "source" else 0.0])

    def update(self, arrivals: Arrivals) -> None:
        """Raise the bias as log(1 + edges) rises."""
        nodes, counts = np.unique(arrivals.target, return_counts=True)
        edges = arrivals.history.popularity[nodes]
        rise = torch.from_numpy(np.log1p(edges) - np.log1p(edges - counts))
        self.rise[torch.from_numpy(nodes)] += rise.float()
