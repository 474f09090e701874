"""The labeled edges of each part of a split."""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.scratch import rows_where
from edgeformers.data.splits import TEST, TRAIN, VAL
from edgeformers.data.types import Ids, Mask
from edgeformers.errors import InputError


def is_labeled(labels: NDArray[Any]) -> Mask:
    """Whether each edge has a label, from labels as a network stores them [n] or [n, C]."""
    if labels.dtype.kind == "f":
        return np.asarray(~np.isnan(labels))
    return np.asarray(labels.any(1) if labels.ndim == 2 else labels >= 0)


def labeled_edge_parts(
    graph: EdgeTextGraph, split: str, required: Collection[str] = ("train", "val")
) -> dict[str, Ids]:
    """The labeled edges of each part of a split; the required parts must not be empty."""
    if graph.labels is None:
        raise InputError(f"{graph.path} has no labels; name a label column in prepare (`label=`)")
    labels, codes = graph.labels, graph.split(split)

    def edges_of(code: int) -> Ids:
        return rows_where(
            lambda rows: (codes[rows] == code) & is_labeled(labels[rows]), graph.num_edges
        )

    parts = {"train": edges_of(TRAIN), "val": edges_of(VAL), "test": edges_of(TEST)}
    for part in required:
        if not len(parts[part]):
            raise InputError(
                f"{graph.path}: part '{part}' of the split '{split}' has no labeled edge; "
                "choose another split with `data.split=`"
            )
    return parts
