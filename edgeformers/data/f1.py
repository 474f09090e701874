"""F1 from counts or probability mass, shared by the evaluation metrics and the simulation."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def f1(hits: ArrayLike, size: ArrayLike) -> NDArray[np.float64]:
    """F1 of each class, 2 hits / size, where size is true plus predicted; NaN where size is 0."""
    size = np.asarray(size, np.float64)
    scores = np.full(np.broadcast_shapes(np.shape(hits), size.shape), np.nan)
    np.divide(2 * np.asarray(hits, np.float64), size, out=scores, where=size > 0)
    return scores


def f1_of_confusion(counts: ArrayLike) -> NDArray[np.float64]:
    """Per-class F1 from tables [..., C true, C predicted]; NaN for classes that never occur."""
    table = np.asarray(counts, np.float64)
    return f1(np.diagonal(table, axis1=-2, axis2=-1), table.sum(-1) + table.sum(-2))
