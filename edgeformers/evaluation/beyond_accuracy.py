"""What recommendations are judged by besides accuracy: coverage, diversity, novelty, popularity."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from edgeformers.data.types import Floats, Ids
from edgeformers.errors import InputError
from edgeformers.evaluation import metrics


def recommendation_metrics(
    sources: ArrayLike,
    recommended: ArrayLike,
    popularity: ArrayLike,
    *,
    vectors: ArrayLike | None = None,
    own_popularity: ArrayLike | None = None,
) -> dict[str, float]:
    """Metrics of recommendations, given as pairs: source `sources[i]` gets `recommended[i]`.

    - `coverage`: the share of the candidates [C] that anybody gets;
    - `novelty`: the mean of -log2 of a candidate's share of all training edges, each counted once
      more, in bits;
    - `popularity_lift`: how much more popular recommendations are than what sources link to in
      training (`own_popularity` [n], the mean popularity of each recommended source's links),
      as a share: 0 is no bias, 1 is twice as popular;
    - `diversity`: one minus the mean cosine between two recommendations to the same source, given
      the `vectors` [C, D] of candidates.
    """
    rows, columns = np.asarray(sources, np.int64), np.asarray(recommended, np.int64)
    counts = np.asarray(popularity, np.float64)
    if rows.shape != columns.shape:
        raise InputError(f"got {len(columns)} recommendations for {len(rows)} sources")
    shares = (counts + 1) / (counts + 1).sum()
    result = {
        "coverage": len(np.unique(columns)) / len(counts) if len(counts) else float("nan"),
        "novelty": metrics.mean(-np.log2(shares[columns])),
    }
    if own_popularity is not None:
        usual = metrics.mean(own_popularity)
        result["popularity_lift"] = metrics.mean(counts[columns]) / usual - 1 if usual else np.nan
    if vectors is not None:
        result["diversity"] = intra_list_diversity(rows, columns, np.asarray(vectors))
    return {name: float(value) for name, value in result.items()}


def intra_list_diversity(sources: Ids, recommended: Ids, vectors: Floats) -> float:
    """One minus the mean cosine of all pairs within a source's list, averaged over sources.

    Sources with a single recommendation do not count.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
    _, position, sizes = np.unique(sources, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), unit.shape[1]))
    np.add.at(sums, position, unit[recommended])
    squares = np.bincount(position, (unit[recommended] ** 2).sum(1), len(sizes))
    pairs = sizes * (sizes - 1)
    is_list = pairs > 0
    cosines = ((sums**2).sum(1) - squares)[is_list] / pairs[is_list]
    return 1 - metrics.mean(cosines)


def calibration(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> dict[str, list[float]]:
    """The reliability of the most probable class: one entry per bin of confidence with edges.

    `confidence` is the mean probability of the predicted class, `accuracy` the share of edges
    whose class it is, `count` the number of edges.
    """
    table, truth = np.asarray(probs, np.float64), np.asarray(labels)
    if table.ndim != 2 or len(table) != len(truth):
        raise InputError(f"got probabilities of shape {list(table.shape)} for {len(truth)} labels")
    confidence, is_correct = table.max(1, initial=0), table.argmax(1) == truth
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins)
    kept = counts > 0
    means = [
        (np.bincount(place, values, bins)[kept] / counts[kept]).tolist()
        for values in (confidence, is_correct)
    ]
    return {"confidence": means[0], "accuracy": means[1], "count": counts[kept].tolist()}


def expected_calibration_error(curve: Mapping[str, list[float]]) -> float:
    """The mean distance between confidence and accuracy over the bins of `calibration`."""
    confidence, accuracy, count = (
        np.asarray(curve[name], np.float64) for name in ("confidence", "accuracy", "count")
    )
    if not count.sum():
        return float("nan")
    return float(np.average(np.abs(confidence - accuracy), weights=count))
