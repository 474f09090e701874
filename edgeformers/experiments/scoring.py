"""Scores of a trained model or a fitted baseline on validation and test, and of every example.

What is kept of each example is small and lets any two rows be compared on the same examples:
`predictions.parquet` (part, edge, label, predicted) or `ranks.parquet` (part, edge, query, the
rank under each protocol, and the groups of degrees and profiles that the link belongs to).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from edgeformers.baselines.base import EdgeBaseline, LinkBaseline
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Ids
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import (
    DEGREES,
    PROFILES,
    FunctionScorer,
    LinkReport,
    bootstrap_f1,
    bootstrap_interval,
    metrics,
)
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.evaluation.network_links import link_parts, rank_links
from edgeformers.files import atomic_file

PARTS = ("val", "test")
PREDICTIONS, RANKS = "predictions.parquet", "ranks.parquet"
Average = Literal["macro", "micro"]
Results = dict[str, dict[str, Any]]  # part -> metric -> value


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What results.json will say, and the examples behind it; none of several labels per edge."""

    results: Results
    examples: pa.Table | None
    file: str = PREDICTIONS

    def write_examples(self, folder: Path) -> None:
        """The examples beside the results, whole or not at all."""
        if self.examples is not None:
            with atomic_file(folder / self.file) as temporary:
                pq.write_table(self.examples, temporary, compression="zstd")


def read_examples(folder: Path) -> pa.Table | None:
    """The examples of a finished run, if it kept any."""
    for name in (PREDICTIONS, RANKS):
        if (folder / name).is_file():
            return pq.read_table(folder / name)
    return None


def score_classifier(made: EdgeClassifier) -> Scored:
    """An edge model on both parts."""
    parts = made.objective.parts
    found: Results = {}
    tables = []
    for part in PARTS:
        edges = parts[part]
        if not len(edges):
            continue
        predicted = made.objective.predict(edges, show=made.show)
        truth = np.asarray(_labels(made.objective.loader.graph)[edges])
        as_tensor = torch.from_numpy(truth if truth.dtype.kind == "f" else truth.astype(np.int64))
        found[part] = dict(made.head.metrics(predicted, as_tensor))
        if made.head.kind in ("class", "ordered"):
            guess = predicted.value.numpy()
            found[part] |= _f1_intervals(truth, guess, made.config.train.seed)
            tables.append(_predictions(part, edges, truth, guess))
    return Scored(results=found, examples=pa.concat_tables(tables) if tables else None)


def score_predictor(made: LinkPredictor) -> Scored:
    """A link model on both parts, under every protocol."""
    graph, parts = made.objective.loader.graph, made.objective.parts
    return _ranked(graph, parts, lambda part, pairs: made.report(part), made.config.train.seed)


def score_edge_baseline(
    baseline: EdgeBaseline, graph: EdgeTextGraph, split: str, seed: int
) -> Scored:
    """A simple edge baseline on both parts, with the metrics of a model of classes."""
    parts, labels = labeled_edge_parts(graph, split), _labels(graph)
    found: Results = {}
    tables = []
    for part in PARTS:
        edges = parts[part]
        if not len(edges):
            continue
        truth, guess = np.asarray(labels[edges]), np.asarray(baseline.predict(edges))
        found[part] = {
            "macro_f1": metrics.macro_f1(truth, guess),
            "micro_f1": metrics.micro_f1(truth, guess),
            "accuracy": metrics.accuracy(truth, guess),
            **_f1_intervals(truth, guess, seed),
        }
        tables.append(_predictions(part, edges, truth, guess))
    return Scored(results=found, examples=pa.concat_tables(tables))


def score_link_baseline(
    baseline: LinkBaseline, graph: EdgeTextGraph, split: str, seed: int
) -> Scored:
    """A simple link baseline on both parts, ranked as the models are."""
    parts, adjacency = link_parts(graph, split), graph.training_adjacency(split)

    def scorer(queries: Ids, candidates: Ids) -> FunctionScorer:
        return FunctionScorer(
            lambda chosen: baseline.scores(queries[chosen], candidates), len(candidates)
        )

    def report(part: str, pairs: Ids) -> LinkReport:
        return rank_links(graph, parts, pairs, scorer, adjacency=adjacency, seed=seed)

    return _ranked(graph, parts, report, seed)


def _ranked(
    graph: EdgeTextGraph,
    parts: Mapping[str, Ids],
    rank: Callable[[str, Ids], LinkReport],
    seed: int,
) -> Scored:
    found: Results = {}
    tables = []
    for part in PARTS:
        pairs = parts[part]
        if not len(pairs):
            continue
        report = rank(part, pairs)
        found[part] = dict(report.flat())
        for protocol in report.ranks:
            interval = bootstrap_interval(report.values(protocol, "mrr"), seed)
            found[part][f"{protocol}/mrr_interval"] = [interval.low, interval.high]
        found[part]["groups"] = {p: one["groups"] for p, one in report.to_dict().items()}
        columns = {name: pa.array(ranks, pa.float32()) for name, ranks in report.ranks.items()}
        columns |= {
            "query": pa.array(np.asarray(graph.src)[pairs], pa.int32()),
            "degree": _group_names(report.groups, DEGREES, len(pairs)),
            "profile": _group_names(report.groups, PROFILES, len(pairs)),
        }
        tables.append(_table(part, pairs, columns))
    return Scored(results=found, examples=pa.concat_tables(tables), file=RANKS)


def _group_names(
    groups: Mapping[str, NDArray[np.bool_]], names: Iterable[str], count: int
) -> pa.Array:
    """The one of some groups that each link belongs to, empty where it is in none."""
    found = np.full(count, "", object)
    for name in names:
        found[groups.get(name, np.zeros(count, bool))] = name
    return pa.array(found, pa.string()).dictionary_encode()


def _f1_intervals(truth: NDArray[Any], guess: NDArray[Any], seed: int) -> dict[str, list[float]]:
    found = {}
    for average in get_args(Average):
        interval = bootstrap_f1(truth, guess, seed, average=average)
        found[f"{average}_f1_interval"] = [interval.low, interval.high]
    return found


def _predictions(part: str, edges: Ids, truth: NDArray[Any], guess: NDArray[Any]) -> pa.Table:
    columns = {"label": pa.array(truth, pa.int32()), "predicted": pa.array(guess, pa.int32())}
    return _table(part, edges, columns)


def _table(part: str, edges: Ids, columns: Mapping[str, pa.Array]) -> pa.Table:
    names = pa.array([part] * len(edges), pa.string()).dictionary_encode()
    return pa.table({"part": names, "edge": pa.array(edges, pa.int32()), **columns})


def _labels(graph: EdgeTextGraph) -> NDArray[Any]:
    assert graph.labels is not None
    return graph.labels
