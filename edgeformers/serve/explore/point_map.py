"""The map: vectors of nodes or edges in two dimensions, with several ways to color the points."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeformers.report.figures import COLORS

WIDTH, HEIGHT, MARGIN = 1000, 640, 24
CLUSTERS = len(COLORS)
DEGREE_STEPS = 5
OTHER = len(COLORS) - 1  # the gray of labels that are too many to tell apart
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Item:
    """A node or an edge to be shown; `link` is its page."""

    about: str
    link: str
    label: str
    degree: int


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point on the map; its CSS classes say how it is colored by label, degree and cluster."""

    x: int
    y: int
    css: str
    about: str
    link: str


@dataclass(frozen=True, kw_only=True)
class PointMap:
    """Points, and for each way to color them the names and CSS classes of the colors."""

    points: list[Point]
    legends: dict[str, list[tuple[str, str]]]


def make_map(vectors: NDArray[np.float32], items: Sequence[Item]) -> PointMap:
    """Project vectors [n, D] of items; nearby points have similar vectors."""
    from edgeformers.experiments.model_figures import project_2d

    if not items:
        return PointMap(points=[], legends={})
    places = _fit_in(project_2d(vectors, SEED))
    by_label, labels = _label_codes([item.label for item in items])
    by_degree, degrees = _degree_codes(np.array([item.degree for item in items], np.int64))
    by_cluster, clusters = _cluster_codes(vectors)
    points = [
        Point(
            x=int(x),
            y=int(y),
            css=f"l{by_label[i]} d{by_degree[i]} k{by_cluster[i]}",
            about=item.about,
            link=item.link,
        )
        for i, ((x, y), item) in enumerate(zip(places, items, strict=True))
    ]
    legends = {"label": labels, "degree": degrees, "cluster": clusters}
    return PointMap(points=points, legends={name: own for name, own in legends.items() if own})


def _fit_in(places: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places [n, 2] within the margins of the map."""
    low, high = places.min(axis=0), places.max(axis=0)
    share = (places - low) / np.where(high > low, high - low, 1.0)
    size = np.array([WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN])
    return np.asarray(np.round(MARGIN + share * size), np.int64)


def _label_codes(labels: Sequence[str]) -> tuple[list[int], list[tuple[str, str]]]:
    """A color for each of the most frequent labels, and gray for others; none without labels."""
    counts = Counter(filter(None, labels))
    names = [name for name, _ in counts.most_common(OTHER)]
    codes = {name: code for code, name in enumerate(sorted(names))}
    legend = [(name, f"l{code}") for name, code in codes.items()]
    if legend and any(label not in codes for label in labels):
        legend.append(("other or none", f"l{OTHER}"))
    return [codes.get(label, OTHER) for label in labels], legend


def _degree_codes(degrees: NDArray[np.int64]) -> tuple[list[int], list[tuple[str, str]]]:
    """Steps with about as many items each, and the degrees that they cover."""
    cuts = np.unique(np.quantile(degrees, np.linspace(0, 1, DEGREE_STEPS + 1)[1:-1]).astype(int))
    codes = np.searchsorted(cuts, degrees, side="left")
    legend = []
    for code in np.unique(codes).tolist():
        own = degrees[codes == code]
        low, high = int(own.min()), int(own.max())
        legend.append((f"{low:,}" if low == high else f"{low:,} to {high:,}", f"d{code}"))
    return codes.tolist(), legend if len(legend) > 1 else []


def _cluster_codes(vectors: NDArray[np.float32]) -> tuple[list[int], list[tuple[str, str]]]:
    """Clusters of the vectors themselves, not of their projection; the largest is the first."""
    from sklearn.cluster import KMeans

    count = min(CLUSTERS, len(np.unique(vectors, axis=0)))
    if count < 2:
        return [0] * len(vectors), []
    found = KMeans(count, n_init=1, random_state=SEED).fit_predict(vectors)
    sizes = np.bincount(found, minlength=count)
    rank = np.empty(count, np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(count)
    ordered = np.sort(sizes)[::-1].tolist()
    legend = [(f"cluster {i + 1} ({size:,})", f"k{i}") for i, size in enumerate(ordered) if size]
    return rank[found].tolist(), legend
