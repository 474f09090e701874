"""Input ablation: does a model need the graph, does it need the text?"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from edgeformers.baselines.collaborative.reciprocity import can_reciprocate
from edgeformers.config import flatten
from edgeformers.data.batch import UNKNOWN, EdgeBatch, edge_batch
from edgeformers.data.loader import EdgeLoader
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.estimators.build import chosen_name, find_model
from edgeformers.experiments.compare import compare_rows
from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.plan import split_name
from edgeformers.experiments.run_report.input_kinds import input_kind
from edgeformers.experiments.scoring import RunScores, score
from edgeformers.inference.ensemble import feasible_components
from edgeformers.registry import BACKBONE_BASELINES, EDGE_BASELINES, LINK_BASELINES
from edgeformers.report.scores import InputKind, MetricValue, TaskScores
from edgeformers.training.initialization import is_scratch

METRICS = {"edge-classification": "macro_f1", "link-prediction": "full/mrr"}
Ablated = tuple[str, InputKind, RunScores]  # title, inputs and scores of a model


def ablate_inputs(model: EdgeClassifier | LinkPredictor) -> TaskScores:
    """Test scores of a model next to models of the text alone and of the nodes alone.

    These are simple baselines and, for edge models, the model itself with its nodes or texts
    masked. `gains` are paired comparisons of the best model of each kind; see
    `edgeformers.report.scores` for their wording.
    """
    metric = METRICS[model.task]
    model.fitted_.network.part("test")  # raises if the split has no test edges
    if isinstance(model, EdgeClassifier) and model.fitted_.head.kind not in ("class", "ordered"):
        raise InputError("input ablation needs links, or edges with one class each")
    ablated = [*_masked(model), *_baselines(model)]
    models = [scores.model_scores(title, inputs, [metric]) for title, inputs, scores in ablated]
    task = TaskScores(task=model.task, metrics=[metric], models=models)
    examples = {title: scores.examples for title, _, scores in ablated}
    best = {kind: examples[scores.model] for kind, scores in task.best_by_input().items()}
    gains: dict[str, MetricValue] = {}
    for kind in ("text", "nodes"):
        if "both" in best and kind in best:
            gap = compare_rows([best["both"]], [best[kind]], "test", metric)
            if gap is not None:
                gains[kind] = MetricValue(value=gap.value, low=gap.low, high=gap.high)
    return replace(task, gains=gains)


class MaskedNodes(EdgeLoader):
    """Loads edges with unknown end nodes."""

    def edges(self, edge_ids: Ids) -> EdgeBatch:
        return self._masked(super().edges(edge_ids))

    def untruncated(self, edge_ids: Ids) -> EdgeBatch:
        return self._masked(super().untruncated(edge_ids))

    def _masked(self, edges: EdgeBatch) -> EdgeBatch:
        unknown = torch.full_like(edges.src, UNKNOWN)
        return replace(edges, src=unknown, dst=unknown)


class MaskedTexts(EdgeLoader):
    """Loads edges with empty texts: only the special tokens are left."""

    def edges(self, edge_ids: Ids) -> EdgeBatch:
        return edge_batch(self.graph, self.tokens, edge_ids, self.tokens.num_special)

    def untruncated(self, edge_ids: Ids) -> EdgeBatch:
        return self.edges(edge_ids)


def _masked(model: EdgeClassifier | LinkPredictor) -> Iterator[Ablated]:
    """The model itself; an edge model of both inputs also with its nodes or its texts masked.

    Texts are not masked if the model also reads the texts around an edge's ends.
    """
    name = chosen_name(model.config)
    title, inputs = ROWS[name].title, input_kind(name, flatten(model.config.to_dict()))
    yield title, inputs, _test_scores(model, model)
    if inputs != "both" or isinstance(model, LinkPredictor):
        return
    masks: dict[str, tuple[InputKind, type[EdgeLoader]]] = {"nodes": ("text", MaskedNodes)}
    if not find_model(model.config).context:
        masks["texts"] = ("nodes", MaskedTexts)
    for masked_input, (kind, loader) in masks.items():
        network = model.fitted_.network
        network = replace(network, loader=loader(**vars(network.loader)))
        masked = EdgeClassifier.from_fitted(replace(model.fitted_, attached=network))
        yield f"{title}, {masked_input} hidden", kind, _test_scores(masked, model)


def _baselines(model: EdgeClassifier | LinkPredictor) -> Iterator[Ablated]:
    """Simple baselines of the text or of the nodes alone."""
    graph, config = model.fitted_.network.graph, model.config
    split = split_name(config, graph)
    reader = {"backbone": config.model.backbone, "max_tokens": config.data.max_tokens}
    baselines: Mapping[str, Any] = {**EDGE_BASELINES, **LINK_BASELINES}
    for name in _baseline_names(model, split):
        options = reader if name in BACKBONE_BASELINES else {}
        try:
            baseline = baselines[name](seed=config.train.seed, **options).fit(graph, split)
        except MissingExtraError:  # the masked model has to do
            continue
        yield ROWS[name].title, input_kind(name, {}), _test_scores(baseline, model)


def _test_scores(scored: Any, model: EdgeClassifier | LinkPredictor) -> RunScores:
    """Test scores of a model or baseline on the network and split of `model`."""
    graph, config = model.fitted_.network.graph, model.config
    split = split_name(config, graph)
    return score(scored, graph, split, seed=config.train.seed, parts=("test",))


def _baseline_names(model: EdgeClassifier | LinkPredictor, split: str) -> list[str]:
    """Baselines that take at most minutes here; an untrained backbone carries no information."""
    if isinstance(model, EdgeClassifier):
        return ["tfidf", "node-ids"]
    graph = model.fitted_.network.graph
    fits = {
        "popularity": True,
        "reciprocity": can_reciprocate(graph),
        "text-similarity": not is_scratch(model.config.model.backbone),
    }
    names = [name for name, is_feasible in fits.items() if is_feasible]
    return [*names, *feasible_components(graph, split)]
