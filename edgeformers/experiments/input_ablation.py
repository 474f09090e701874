"""Does the graph help, does the text? A trained model beside cheap ones that see either alone."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from edgeformers.baselines.collaborative.reciprocity import can_reciprocate
from edgeformers.config import flatten
from edgeformers.data.batch import UNKNOWN, EdgeBatch, edge_batch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.estimators.settings import chosen_name
from edgeformers.experiments.compare import compare_rows
from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.run_report.input_kinds import input_kind
from edgeformers.experiments.scoring import (
    Scored,
    score_classifier,
    score_edge_baseline,
    score_link_baseline,
    score_predictor,
)
from edgeformers.inference.ensemble import fits_als, fits_ease, fits_lightgcn
from edgeformers.registry import BACKBONE_BASELINES, EDGE_BASELINES, LINK_BASELINES
from edgeformers.report.results_verdict import best_by_input
from edgeformers.report.scores import InputKind, MetricValue, ModelScores, TaskScores
from edgeformers.training.initialization import is_scratch

METRICS = {"edge-classification": "macro_f1", "link-prediction": "full/mrr"}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A model, what it sees, and how it did."""

    title: str
    inputs: InputKind
    scored: Scored


def ablate_inputs(made: EdgeClassifier | LinkPredictor) -> TaskScores:
    """What tells whether nodes add to what the text says, and the text to the nodes: test scores.

    The trained model stands beside simple ones that see one side alone, and a model of edges also
    beside itself, its nodes or its texts hidden. The best of each kind are compared edge by edge:
    these are the gains. `edgeformers.report.conclusions` says it in sentences.
    """
    metric = METRICS[made.task]
    made._part("test")  # refuses a split without one
    if isinstance(made, EdgeClassifier):
        if made.head.kind not in ("class", "ordered"):
            raise InputError("what helps is told where edges have one class each, and of links")
        found = [*_hidden(made), *_simple(made)]
    else:
        found = [_whole(made), *_simple(made)]
    models = [
        ModelScores(
            model=one.title, inputs=one.inputs, metrics={metric: _score(one.scored, metric)}
        )
        for one in found
    ]
    task = TaskScores(task=made.task, metrics=[metric], models=models)
    tables = {one.title: one.scored.examples for one in found}
    best = {model.inputs: tables[model.model] for model in best_by_input(task)}
    gains: dict[str, MetricValue] = {}
    for seen in ("text", "nodes"):
        if "both" in best and seen in best:
            gap = compare_rows([best["both"]], [best[seen]], "test", metric)
            if gap is not None:
                gains[seen] = MetricValue(value=gap.value, low=gap.low, high=gap.high)
    return replace(task, gains=gains)


class NodesHidden(EdgeLoader):
    """Edges between nodes that nobody knows."""

    def plain(self, edge_ids: Ids) -> EdgeBatch:
        return _between_unknown(super().plain(edge_ids))

    def whole(self, edge_ids: Ids) -> EdgeBatch:
        return _between_unknown(super().whole(edge_ids))


class TextsHidden(EdgeLoader):
    """Edges without a word: the special tokens alone."""

    def plain(self, edge_ids: Ids) -> EdgeBatch:
        return edge_batch(self.graph, self.tokens, edge_ids, self.tokens.num_special)

    def whole(self, edge_ids: Ids) -> EdgeBatch:
        return self.plain(edge_ids)


def _between_unknown(edges: EdgeBatch) -> EdgeBatch:
    nobody = torch.full_like(edges.src, UNKNOWN)
    return replace(edges, src=nobody, dst=nobody)


def _whole(made: EdgeClassifier | LinkPredictor) -> Seen:
    """The trained model as it is."""
    name = chosen_name(made.config)
    settings = flatten(made.config.to_dict())
    score = score_classifier(made) if isinstance(made, EdgeClassifier) else score_predictor(made)
    return Seen(title=ROWS[name].title, inputs=input_kind(name, settings), scored=score)


def _hidden(made: EdgeClassifier) -> Iterator[Seen]:
    """A model of edges as it is and, where it sees both, with its nodes hidden, or its texts.

    One that reads the texts around its ends too would read those still.
    """
    whole = _whole(made)
    yield whole
    if whole.inputs != "both":
        return
    hidden: tuple[tuple[str, InputKind, type[EdgeLoader]], ...] = (
        ("nodes", "text", NodesHidden),
        ("texts", "nodes", TextsHidden),
    )
    for what, left, loader in hidden[:1] if made.entry.context else hidden:
        blind = copy.copy(made)
        blind.objective = copy.copy(made.objective)
        blind.objective.loader = loader(**vars(made.objective.loader))
        scored = score_classifier(blind)
        yield Seen(title=f"{whole.title}, {what} hidden", inputs=left, scored=scored)


def _simple(made: EdgeClassifier | LinkPredictor) -> Iterator[Seen]:
    """Simple models that see one side alone, as the tables have them."""
    graph, seed = made.objective.loader.graph, made.config.train.seed
    split, is_edge = made._split(graph), made.task == "edge-classification"
    score: Any = score_edge_baseline if is_edge else score_link_baseline
    makers: Mapping[str, Any] = EDGE_BASELINES if is_edge else LINK_BASELINES
    for name in ("tfidf", "node-ids") if is_edge else _fitting(made, graph, split):
        reads = {"backbone": made.config.model.backbone, "max_tokens": made.config.data.max_tokens}
        given = reads if name in BACKBONE_BASELINES else {}
        try:
            fitted = makers[name](seed=seed, **given).fit(graph, split)
        except MissingExtraError:  # the model with one side hidden has to do
            continue
        scored = score(fitted, graph, split, seed)
        yield Seen(title=ROWS[name].title, inputs=input_kind(name, {}), scored=scored)


def _fitting(
    made: EdgeClassifier | LinkPredictor, graph: EdgeTextGraph, split: str
) -> Iterator[str]:
    """Models of links that take no longer than minutes here; an untrained backbone says nothing."""
    yield "popularity"
    yield from ["reciprocity"] * can_reciprocate(graph)
    yield from ["text-similarity"] * (not is_scratch(made.config.model.backbone))
    yield from ["ease"] * fits_ease(graph)
    yield from ["als"] * fits_als(graph)
    yield from ["lightgcn"] * fits_lightgcn(graph, split)


def _score(scored: Scored, metric: str) -> MetricValue:
    """The metric on the test part, with its interval where there is one."""
    found = scored.results["test"]
    low, high = found.get(f"{metric}_interval", (None, None))
    return MetricValue(value=found[metric], low=low, high=high)
