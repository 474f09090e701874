"""The labeled edges of each part of a split."""

import numpy as np

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.errors import InputError


def labeled_edge_parts(graph: EdgeTextGraph, split: str) -> dict[str, Ids]:
    """The labelled edges of each part of a split; training and validation need some."""
    if graph.labels is None:
        raise InputError(
            f"{graph.path} has no labels to learn; name the label column when preparing: --label"
        )
    labels = graph.labels
    known = ~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0
    known = known.any(1) if labels.ndim == 2 else known
    codes = graph.split(split)
    parts = {
        part: np.flatnonzero((codes == code) & known).astype(np.int64)
        for part, code in {"train": 0, "val": 1, "test": 2}.items()
    }
    for part in ("train", "val"):
        if not len(parts[part]):
            raise InputError(
                f"{graph.path}: the split '{split}' has no labelled edge in '{part}'; "
                "choose another with data.split"
            )
    return parts
