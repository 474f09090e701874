"""Input ablation: tests whether the graph, the text and the ensemble help a trained model."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray

from edgeformers import distributed
from edgeformers.baselines.text.node_ids import NodeIds
from edgeformers.baselines.text.similarity import TextSimilarity
from edgeformers.baselines.text.tfidf import NoWordsError, Tfidf
from edgeformers.config import flatten
from edgeformers.data.batch import UNKNOWN, EdgeBatch, EgoBatch
from edgeformers.data.loader import EdgeLoader, EgoLoader
from edgeformers.data.sampler import Neighborhoods
from edgeformers.data.tokens import Encoded, TokenStore
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.estimators.build import chosen_name
from edgeformers.evaluation.significance import holm, holm_levels
from edgeformers.experiments.compare import CLUSTERS, Difference, RowComparison
from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.run_report.input_kinds import input_kind
from edgeformers.experiments.scoring import score
from edgeformers.inference import saved_model
from edgeformers.inference.components import MeanComponent
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.fitted_edges import FittedEdgeClassifier, tune_decision
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.model_card import write_model_card
from edgeformers.inference.saved_components import GROUPS, Ensemble
from edgeformers.report.verdict import ALPHA, Answer, Finding, Question, Verdict
from edgeformers.training.initialization import is_scratch

METRICS = {"edge-classification": "macro_f1", "link-prediction": "full/mrr"}
MODEL = "model"  # the row of the model itself
COMPONENT_NAMES = {"lightgcn": "LightGCN", "als": "ALS", "ease": "EASE"}
ORDER_WIDTH, ORDER_WEIGHT = 8, 1e-4  # of the random order of equal candidates
Fitted = FittedEdgeClassifier | FittedLinkPredictor
Alternatives = Iterator[tuple[str, Any]]  # title, and what `score` takes


def ablate_inputs(
    model: EdgeClassifier | LinkPredictor, *, run: str | PathLike[str] | None = None
) -> Verdict:
    """Test whether the graph, the text and the ensemble help a model, on its test part.

    Something helps if the model is significantly better than every alternative without it; see
    docs/evaluation.md. With `run`, the verdict is stored in the folder of the model's run.
    """
    fitted: Fitted = model.fitted_
    fitted.network.part("test")  # raises if the split has no test edges
    if isinstance(fitted, FittedEdgeClassifier) and fitted.head.kind not in ("class", "ordered"):
        raise InputError("input ablation needs links, or edges with one class each")
    tables, titles = {MODEL: _test_examples(model, fitted)}, {}
    for question, alternatives in _questions(fitted):
        found = {title: _test_examples(scored, fitted) for title, scored in alternatives}
        tables |= found
        titles[question] = list(found)
    cluster = next(name for name in CLUSTERS if name in tables[MODEL].column_names)
    metric = METRICS[model.task]
    verdict = Verdict(
        task=model.task,
        model=ROWS[chosen_name(model.config)].title,
        metric=metric,
        examples=len(tables[MODEL]),
        sources=len(tables[MODEL].column(cluster).unique()),
        answers=_answers(tables, titles, metric),
    )
    if run is not None:
        distributed.run_on_main(lambda: _store(verdict, Path(run).expanduser()))
    return verdict


def without_ensemble(
    model: EdgeClassifier | LinkPredictor,
) -> tuple[list[str], EdgeClassifier | LinkPredictor | None]:
    """The names of the components in a model's ensemble, and the model without it, if any."""
    fitted: Fitted = model.fitted_
    if isinstance(fitted, FittedEdgeClassifier):
        if fitted.head.ensemble is None:
            return [], None
        ((_, alone),) = _edges_without_ensemble(fitted)
        return ["words", "nodes"], alone
    if fitted.ensemble is None:
        return [], None
    names = [COMPONENT_NAMES.get(each.name, each.name) for each in fitted.ensemble.components]
    return names, LinkPredictor.from_fitted(replace(fitted, ensemble=None, index_folder=None))


def _store(verdict: Verdict, run: Path) -> None:
    verdict.write(run)
    write_model_card(run / saved_model.MODEL)


def _questions(fitted: Fitted) -> Iterator[tuple[Question, Alternatives]]:
    """The questions that apply to a model, with the alternatives to compare it with."""
    if isinstance(fitted, FittedLinkPredictor):
        fitted = replace(fitted, index_folder=None)  # alternatives have vectors of their own
    settings = flatten(fitted.config.to_dict())
    uses_both = input_kind(chosen_name(fitted.config), settings) == "both"
    if isinstance(fitted, FittedEdgeClassifier):
        if uses_both:
            yield "graph", _edges_without_nodes(fitted)
            yield "text", _edges_without_texts(fitted)
        if fitted.head.ensemble is not None:
            yield "ensemble", _edges_without_ensemble(fitted)
    else:
        if uses_both:
            yield "graph", _links_without_nodes(fitted)
            yield "text", _links_without_texts(fitted)
        _, alone = without_ensemble(LinkPredictor.from_fitted(fitted))
        if alone is not None:
            yield "ensemble", iter([("the model alone", alone)])


def _edges_without_nodes(fitted: FittedEdgeClassifier) -> Alternatives:
    """Nodes hidden, nodes exchanged between test edges, and TF-IDF."""
    loader = fitted.network.loader
    for title, order in (("nodes hidden", None), ("nodes shuffled", _shuffled_test(fitted))):
        yield title, _with_loader(fitted, EdgesOfOtherNodes(**vars(loader), order=order))
    yield from _fitted_baseline("TF-IDF", Tfidf, fitted)


def _edges_without_texts(fitted: FittedEdgeClassifier) -> Alternatives:
    """Texts hidden, texts exchanged between test edges, and node ids."""
    loader = fitted.network.loader
    for title, order in (("texts hidden", None), ("texts shuffled", _shuffled_test(fitted))):
        tokens = OtherTexts(loader.tokens, order)
        yield title, _with_loader(fitted, replace(loader, tokens=tokens))
    yield from _fitted_baseline("node ids", NodeIds, fitted)


def _edges_without_ensemble(fitted: FittedEdgeClassifier) -> Alternatives:
    head = deepcopy(fitted.head)
    head.ensemble = None
    alone = replace(fitted, head=head)
    if fitted.config.edges.tune_decision:
        tune_decision(alone, torch.from_numpy(alone.encode_known(alone.network.parts["val"])))
    yield "the model alone", EdgeClassifier.from_fitted(alone)


def _links_without_nodes(fitted: FittedLinkPredictor) -> Alternatives:
    """The texts alone, as the model reads them without nodes, and text similarity."""
    head = deepcopy(fitted.head)
    head.weight = head.bias = None  # the terms of node vectors and popularity
    texts = replace(fitted, head=head, ensemble=_random_order(fitted))
    yield "nodes hidden", _with_loader(texts, EgosOfUnknownNodes(**vars(fitted.network.loader)))
    if not is_scratch(fitted.config.model.backbone):  # an untrained one cannot compare texts
        reader = {
            "backbone": fitted.config.model.backbone,
            "max_tokens": fitted.config.data.max_tokens,
        }
        yield from _fitted_baseline("text similarity", TextSimilarity, fitted, **reader)


def _random_order(fitted: FittedLinkPredictor) -> Ensemble:
    """A component that orders candidates with equal scores at random, for each source anew.

    The reciprocal of the expected rank of equal candidates is less than chance.
    """
    generator = torch.Generator().manual_seed(fitted.config.train.seed)
    nodes = len(fitted.nodes)
    query, key = (torch.randn(nodes, ORDER_WIDTH, generator=generator) for _ in range(2))
    return Ensemble(
        components=[MeanComponent(query, key)],
        weights=torch.tensor([[1.0, ORDER_WEIGHT]]).expand(GROUPS, 2),
        group=torch.zeros(nodes),
    )


def _links_without_texts(fitted: FittedLinkPredictor) -> Alternatives:
    """Texts hidden, with the weights of the model and with weights chosen without texts."""
    loader = fitted.network.loader
    hidden = _with_loader(fitted, replace(loader, tokens=OtherTexts(loader.tokens)))
    yield "texts hidden", hidden
    if fitted.config.links.ensemble:
        alone = replace(hidden.fitted_, ensemble=None)
        refitted = replace(alone, ensemble=fit_ensemble(alone))
        yield "the ensemble without texts", LinkPredictor.from_fitted(refitted)


def _with_loader(fitted: Any, loader: EdgeLoader | EgoLoader) -> Any:
    """The estimator of a model that reads its network through another loader."""
    kind = EdgeClassifier if isinstance(loader, EdgeLoader) else LinkPredictor
    network = replace(fitted.network, loader=loader).remembered()
    return kind.from_fitted(replace(fitted, attached=network))


def _fitted_baseline(
    title: str, baseline: Callable[..., Any], fitted: Fitted, **options: Any
) -> Alternatives:
    """A baseline fitted on the training part, unless no text has words.

    Then the other alternatives have to do.
    """
    network = fitted.network
    try:
        yield title, baseline(**options).fit(network.graph, network.split)
    except NoWordsError:
        return


def _test_examples(scored: Any, fitted: Fitted) -> pa.Table:
    """The test examples with the predictions of a model or baseline."""
    network, seed = fitted.network, fitted.config.train.seed
    only: Any = {"parts": ("test",), "protocols": ("full",)}
    return score(scored, network.graph, network.split, seed=seed, **only).examples


def _shuffled_test(fitted: FittedEdgeClassifier) -> Ids:
    """The edges [E], with those of the test part exchanged at random."""
    network = fitted.network
    order, test = np.arange(network.graph.num_edges), network.parts["test"]
    order[test] = np.random.default_rng(fitted.config.train.seed).permutation(test)
    return order


def _answers(
    tables: Mapping[str, pa.Table], titles: Mapping[Question, list[str]], metric: str
) -> list[Answer]:
    """The answer to each question, corrected for their number."""
    rows = RowComparison({row: [table] for row, table in tables.items()})

    def compare(title: str, level: float = 1 - ALPHA) -> Difference:
        difference = rows.compare([MODEL], [title], "test", metric, level=level)
        assert difference is not None
        return difference

    decisive = [_decisive({title: compare(title) for title in own}) for own in titles.values()]
    p_values = [p_value for _, _, p_value in decisive]
    steps = zip(titles.items(), decisive, holm(p_values), holm_levels(p_values), strict=True)
    answers = []
    for (question, own), (title, tests, _), p_value, level in steps:
        found = compare(title, 1 - (1 - level) / tests)
        answers.append(
            Answer(
                question=question,
                finding=_finding(found.value, p_value),
                alternative=title,
                gain=found.value,
                low=found.low,
                high=found.high,
                p_value=p_value,
                gains={each: compare(each).value for each in own},
            )
        )
    return answers


def _decisive(differences: Mapping[str, Difference]) -> tuple[str, int, float]:
    """The alternative that decides, the number of tests it was chosen from, and the p-value.

    A gain must be shown over every alternative, so the least certain one decides. For a loss, one
    alternative suffices, so the p-value is corrected for their number.
    """
    losses = [title for title, difference in differences.items() if difference.value <= 0]
    if not losses:
        title = max(differences, key=lambda each: differences[each].p_value)
        return title, 1, differences[title].p_value
    title = min(losses, key=lambda each: differences[each].p_value)
    tests = len(differences)
    return title, tests, min(1.0, tests * differences[title].p_value)


def _finding(gain: float, p_value: float) -> Finding:
    if p_value < ALPHA:
        return "helps" if gain > 0 else "hurts"
    return "unclear" if gain > 0 else "no"


@dataclass(frozen=True, kw_only=True)
class EdgesOfOtherNodes(EdgeLoader):
    """Loads edges with the nodes of other edges, `order` [E], or with unknown nodes."""

    order: Ids | None

    def edges(self, edge_ids: Ids) -> EdgeBatch:
        return self._with_other_nodes(super().edges(edge_ids), edge_ids)

    def untruncated(self, edge_ids: Ids) -> EdgeBatch:
        return self._with_other_nodes(super().untruncated(edge_ids), edge_ids)

    def _with_other_nodes(self, batch: EdgeBatch, edge_ids: Ids) -> EdgeBatch:
        if self.order is None:
            unknown = torch.full_like(batch.src, UNKNOWN)
            return replace(batch, src=unknown, dst=unknown)
        others = self.order[edge_ids]
        ends = (self.graph.src[others], self.graph.dst[others])
        src, dst = (torch.from_numpy(nodes.astype(np.int64)) for nodes in ends)
        return replace(batch, src=src, dst=dst)


class EgosOfUnknownNodes(EgoLoader):
    """Loads ego graphs whose center and neighbors are unknown nodes."""

    def pack(self, *samples: Neighborhoods) -> EgoBatch:
        batch = super().pack(*samples)
        center, neighbor = (
            torch.full_like(nodes, UNKNOWN) for nodes in (batch.center, batch.neighbor)
        )
        return replace(batch, center=center, neighbor=neighbor)


class OtherTexts(TokenStore):
    """The texts of other edges, `order` [E]; without it, empty texts: special tokens only."""

    def __init__(self, tokens: TokenStore, order: Ids | None = None) -> None:
        super().__init__(tokens.folder, tokens.meta, tokens.part)
        self.order = order

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        lengths = np.diff(self.offsets).astype(np.int32) + np.int32(self.num_special)
        return (
            np.full_like(lengths, self.num_special) if self.order is None else lengths[self.order]
        )

    def take(self, text_ids: ArrayLike, max_tokens: int) -> Encoded:
        texts = np.asarray(text_ids, np.int64)
        if self.order is None:
            return super().take(texts, self.num_special)
        return super().take(self.order[texts], max_tokens)
