"""The labeled edges of each part of a split."""

from collections.abc import Collection

import numpy as np

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import TEST, TRAIN, VAL
from edgeformers.data.types import Ids
from edgeformers.errors import InputError


def labeled_edge_parts(
    graph: EdgeTextGraph, split: str, required: Collection[str] = ("train", "val")
) -> dict[str, Ids]:
    """The labeled edges of each part of a split; the required parts must not be empty."""
    if graph.labels is None:
        raise InputError(f"{graph.path} has no labels; name a label column in prepare (`label=`)")
    labels = graph.labels
    is_known = ~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0
    is_known = is_known.any(1) if labels.ndim == 2 else is_known
    codes = graph.split(split)
    parts = {
        part: np.flatnonzero((codes == code) & is_known).astype(np.int64)
        for part, code in {"train": TRAIN, "val": VAL, "test": TEST}.items()
    }
    for part in required:
        if not len(parts[part]):
            raise InputError(
                f"{graph.path}: part '{part}' of the split '{split}' has no labeled edge; "
                "choose another split with `data.split=`"
            )
    return parts
