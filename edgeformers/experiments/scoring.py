"""Scores of any fitted model or baseline, with per-example values for paired comparisons.

`predictions.parquet` holds part, edge, source node, label and predicted class of every scored edge.
`ranks.parquet` holds part, edge, query, the rank under each protocol, and the degree and profile
group of every scored link.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.baselines.base import EdgeBaseline, LinkBaseline
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.table import read_parquet
from edgeformers.data.types import Ids
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.evaluation import (
    DEGREES,
    PROFILES,
    PROTOCOLS,
    FunctionScorer,
    LinkProtocol,
    LinkReport,
    f1_intervals,
    metrics,
)
from edgeformers.evaluation.dtgb import rank_with_dtgb
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.evaluation.network_links import link_parts, rank_links
from edgeformers.evaluation.rolling import ROLLING_GROUPS, RollingLinks, RollingScorer
from edgeformers.files import atomic_file
from edgeformers.inference.rolling import RollingPredictor
from edgeformers.report.scores import InputKind, MetricValue, ModelScores

PARTS = ("val", "test")
PREDICTIONS, RANKS = "predictions.parquet", "ranks.parquet"


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """Metrics by part, and the examples behind them (None for multi-label and numeric labels)."""

    results: dict[str, dict[str, Any]]
    examples: pa.Table | None

    def model_scores(self, model: str, inputs: InputKind, metrics: Iterable[str]) -> ModelScores:
        """Test metrics with their confidence intervals, for a report."""
        test = self.results["test"]
        values = {}
        for metric in metrics:
            low, high = test.get(f"{metric}_interval", (None, None))
            values[metric] = MetricValue(value=test[metric], low=low, high=high)
        return ModelScores(model=model, inputs=inputs, metrics=values)

    def write_examples(self, folder: Path) -> None:
        """Save the examples in a run folder, atomically."""
        if self.examples is not None:
            name = PREDICTIONS if "predicted" in self.examples.column_names else RANKS
            with atomic_file(folder / name) as temporary:
                pq.write_table(self.examples, temporary, compression="zstd")


def read_examples(folder: Path) -> pa.Table | None:
    """The examples of a finished run, if it saved any."""
    for name in (PREDICTIONS, RANKS):
        if (folder / name).is_file():
            return read_parquet(folder / name)
    return None


def score(
    model: Any,
    graph: EdgeTextGraph,
    split: str,
    *,
    seed: int = 0,
    parts: Sequence[str] = PARTS,
    protocols: Sequence[LinkProtocol] = PROTOCOLS,
) -> RunScores:
    """Score a fitted estimator or baseline on parts of a split.

    A link baseline is anything with `scores`: query nodes [q], candidate nodes [c] -> [q, c].
    """
    is_link_model = isinstance(model, LinkPredictor) or hasattr(model, "scores")
    edges = link_parts(graph, split) if is_link_model else labeled_edge_parts(graph, split)
    results: dict[str, dict[str, Any]] = {}
    tables = []
    for part in parts:
        if not len(edges[part]):
            continue
        if is_link_model:
            report = _link_report(model, graph, split, part, seed, tuple(protocols))
            results[part], columns = report.results(seed), _rank_columns(report, graph, edges[part])
        else:
            results[part], columns = _score_edges(model, graph, edges[part], seed)
        if columns:
            tables.append(_examples(part, edges[part], columns))
    return RunScores(results=results, examples=pa.concat_tables(tables) if tables else None)


def score_rolling(model: Any, graph: EdgeTextGraph, split: str, *, seed: int = 0) -> RunScores:
    """Score a fitted link predictor or rolling baseline under `rolling` and DTGB's protocols."""
    results: dict[str, dict[str, Any]] = {}
    tables = []
    for part in PARTS:
        if isinstance(model, LinkPredictor):
            scorer: RollingScorer = RollingPredictor(model.fitted_)
        else:
            model.restart()
            scorer = model
        report, dtgb = rank_with_dtgb(RollingLinks(graph, split, part), scorer)
        assert report.edges is not None
        columns = _rank_columns(report, graph, report.edges)
        tables.append(_examples(part, report.edges, columns))
        results[part] = report.results(seed) | dtgb.results()
    return RunScores(results=results, examples=pa.concat_tables(tables))


def _examples(part: str, edges: Ids, columns: dict[str, pa.Array]) -> pa.Table:
    """The examples of one part: its name, the edges, and what is known about them."""
    names = pa.array([part] * len(edges), pa.string()).dictionary_encode()
    return pa.table({"part": names, "edge": pa.array(edges, pa.int32()), **columns})


def _score_edges(
    model: EdgeClassifier | EdgeBaseline, graph: EdgeTextGraph, edges: Ids, seed: int
) -> tuple[dict[str, Any], dict[str, pa.Array]]:
    """Metrics, and the labels and predictions behind them if each edge has one class."""
    assert graph.labels is not None
    labels = np.asarray(graph.labels[edges])
    if isinstance(model, EdgeClassifier):
        predictions = model.fitted_.predict_known(edges)
        head, truth = model.fitted_.head, model.fitted_.labels_of(edges)
        results: dict[str, Any] = dict(head.metrics(predictions, truth))
        if head.kind not in ("class", "ordered"):
            return results, {}
        predicted = predictions.value.numpy()
    else:
        predicted = np.asarray(model.predict(edges))
        names = ("macro_f1", "micro_f1", "accuracy")
        results = {name: getattr(metrics, name)(labels, predicted) for name in names}
    results |= f1_intervals(labels, predicted, seed)
    sources = np.asarray(graph.src)[edges]
    columns = {"source": sources, "label": labels, "predicted": predicted}
    return results, {name: pa.array(values, pa.int32()) for name, values in columns.items()}


def _link_report(
    model: LinkPredictor | LinkBaseline,
    graph: EdgeTextGraph,
    split: str,
    part: str,
    seed: int,
    protocols: tuple[LinkProtocol, ...],
) -> LinkReport:
    if isinstance(model, LinkPredictor):
        return model.report(part, protocols=protocols)
    parts, adjacency = link_parts(graph, split), graph.training_adjacency(split)

    def scorer(queries: Ids, candidates: Ids) -> FunctionScorer:
        return FunctionScorer(lambda rows: model.scores(queries[rows], candidates), len(candidates))

    return rank_links(
        graph, parts, parts[part], scorer, adjacency=adjacency, protocols=protocols, seed=seed
    )


def _rank_columns(report: LinkReport, graph: EdgeTextGraph, links: Ids) -> dict[str, pa.Array]:
    """The query, the groups and the rank under each protocol of every link."""
    columns = {name: pa.array(ranks, pa.float32()) for name, ranks in report.ranks.items()}
    columns["query"] = pa.array(np.asarray(graph.src)[links], pa.int32())
    for column, names in (("degree", DEGREES), ("profile", PROFILES)):
        groups = np.full(len(links), "", object)
        for name in names:
            groups[report.groups.get(name, np.zeros(len(links), bool))] = name
        columns[column] = pa.array(groups, pa.string()).dictionary_encode()
    for name in ROLLING_GROUPS:
        if name in report.groups:
            groups = np.where(report.groups[name], name, "")
            columns[name] = pa.array(groups, pa.string()).dictionary_encode()
    return columns
