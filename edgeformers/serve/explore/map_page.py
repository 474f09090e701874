"""The map of a sample of nodes or edges."""

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids, Side
from edgeformers.errors import InputError, suggest
from edgeformers.serve.explore.point_map import SEED, Item, PointMap, make_map
from edgeformers.serve.explore.rendering import counted, page_url
from edgeformers.serve.explore.start import EDGES, LINKS, Values, models
from edgeformers.serve.node_search import list_edges
from edgeformers.serve.service import NODE_TOKENS, Service
from edgeformers.serve.versions import ServedModel

SAMPLE = 600  # points on a map
SHOWN_TEXT = 160  # characters of a text next to a point
COLORS = {"label": "label", "degree": "number of edges", "cluster": "cluster"}


class Maps:
    """Maps that are computed once, and again for a new version of a model or after a removal."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._maps: dict[tuple[str, tuple[str, int], str], PointMap] = {}
        self._computing = Lock()  # a second request for the same map waits for the first

    def page(self, what: str, color: str) -> Values:
        """The values of map.html.j2; `what` is the kind of its points."""
        kinds = self._kinds()
        what = what or next(iter(kinds))
        if what not in kinds:
            raise InputError(f"there is no map of '{what}'; {suggest(what, kinds)}")
        name, served = kinds[what]
        points = self._map(what, served)
        colors = [(mode, COLORS[mode]) for mode in points.legends]
        color = color if color in points.legends else next(iter(points.legends), "")
        count = counted(len(points.points), name.removesuffix("s"))
        return {
            "title": f"Map of {name}",
            "lead": f"{count}, placed by {served.name}: what is close together, the model sees as "
            "similar.",
            "kinds": [(kind, label) for kind, (label, _) in kinds.items()],
            "what": what,
            "colors": colors,
            "color": color,
            "points": points.points,
            "legends": list(points.legends.items()),
        }

    def _kinds(self) -> dict[str, tuple[str, ServedModel]]:
        """What can be shown, with the model that has vectors of it."""
        find = self.service.versions.find
        kinds: dict[str, tuple[str, ServedModel]] = {}
        if models(self.service, LINKS):
            served = find(LINKS)
            sides = ("target", "source") if served.graph.is_bipartite else ("node",)
            kinds |= {side: (f"{side}s", served) for side in sides}
        if models(self.service, EDGES):
            kinds["edge"] = ("edges", find(EDGES))
        return kinds

    def _map(self, what: str, served: ServedModel) -> PointMap:
        key = (served.name, (served.version, self.service.live.last_removal()), what)
        with self._computing:
            if key not in self._maps:
                make = self._edge_map if what == "edge" else self._node_map
                self._maps = {k: v for k, v in self._maps.items() if k[::2] != key[::2]}
                self._maps[key] = make(served, what)
            return self._maps[key]

    def _node_map(self, served: ServedModel, what: str) -> PointMap:
        graph = served.graph
        side: Side = "target" if what == "target" else "source"
        own, degrees = graph.nodes_on(side), graph.adjacency.degrees()
        nodes = _sample(own.start + np.flatnonzero(degrees[own.start : own.stop]))
        vectors = self._vectors(lambda part: served.links.embed_nodes(part, side=side), nodes)
        labels = _node_labels(graph, nodes)
        shown_side = side if graph.is_bipartite else None
        items = [
            Item(
                about=" · ".join(filter(None, [name, label, counted(degree, "edge")])),
                link=page_url("node", id=name, side=shown_side),
                label=label,
                degree=degree,
            )
            for name, label, degree in zip(
                graph.node_names(nodes), labels, degrees[nodes].tolist(), strict=True
            )
        ]
        return make_map(vectors, items)

    def _edge_map(self, served: ServedModel, what: str) -> PointMap:
        graph = served.graph
        edges = _sample(np.arange(graph.num_edges))
        edges = edges[~self.service.live.is_removed(graph, edges)]
        vectors = self._vectors(served.edges.embed_edges, edges)
        degrees = graph.adjacency.degrees()[graph.dst[edges]].tolist()
        shown_side = "source" if graph.is_bipartite else None
        items = [
            Item(
                about=f"{edge.source} → {edge.target}: {_shortened(edge.text)}",
                link=page_url("node", id=edge.source, side=shown_side),
                label=edge.label if isinstance(edge.label, str) else "",
                degree=degree,
            )
            for edge, degree in zip(list_edges(graph, edges), degrees, strict=True)
        ]
        return make_map(vectors, items)

    def _vectors(
        self, embed: Callable[[Ids], NDArray[np.float32]], numbers: Ids
    ) -> NDArray[np.float32]:
        """Vectors [n, D], computed between other requests rather than before them."""

        def run(batch: Sequence[int]) -> list[NDArray[np.float32]]:
            return list(embed(np.array(batch, np.int64)))

        tokens = [NODE_TOKENS] * len(numbers)
        rows = self.service.worker.compute(run, numbers.tolist(), key=object(), tokens=tokens)
        return np.stack(rows) if rows else np.empty((0, 1), np.float32)


def _sample(numbers: NDArray[np.int64]) -> Ids:
    """The same random sample every time, in order."""
    if len(numbers) <= SAMPLE:
        return numbers
    chosen = np.random.default_rng(SEED).choice(len(numbers), SAMPLE, replace=False)
    return numbers[np.sort(chosen)]


def _node_labels(graph: EdgeTextGraph, nodes: Ids) -> list[str]:
    """The first label of each node; empty if it has none."""
    if graph.node_labels is None:
        return [""] * len(nodes)
    offsets, codes = graph.node_labels
    starts, ends = offsets[nodes].tolist(), offsets[nodes + 1].tolist()
    names = graph.node_label_names
    return [
        names[codes[start]] if start < end else "" for start, end in zip(starts, ends, strict=True)
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_TEXT else text[: SHOWN_TEXT - 1].rstrip() + "…"
