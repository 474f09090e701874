"""Accuracy and time of a recipe at the size of Amazon-Apps, next to the best achievable.

python -m benchmarks.apps links --folder work                                  on a GPU
python -m benchmarks.apps edges --folder work --set train.batch_size=64        batches as before
python -m benchmarks.apps edges --folder work --edges 2000 --backbone scratch:2x32    anywhere

The network is simulated in FOLDER/network, the model trained in FOLDER/NAME; a stopped run resumes.
Each result is a line of FOLDER/NAME.jsonl with the seconds since the call. For links, the trained
score is evaluated alone and then with its ensemble.
"""

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import edgeformers
from edgeformers.config import Task, parse_setting
from edgeformers.data.f1 import f1_of_confusion
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.simulate import SimulationConfig
from edgeformers.data.types import Floats, Ids
from edgeformers.estimators import run_config
from edgeformers.inference.encode import choose_device
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.runs import fit_run

APPS = SimulationConfig(
    num_edges=750_000, num_sources=87_000, num_targets=13_200, mean_words=35, seed=5
)
TASKS: dict[str, Task] = {"edges": "edge-classification", "links": "link-prediction"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--name", help="of the run; the task by default")
    parser.add_argument("--edges", type=int, default=APPS.num_edges, help="nodes in proportion")
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = dict(map(parse_setting, options.settings))
    simulation = edgeformers.simulate(scaled(options.edges))
    graph = open_network(simulation, options.folder / "network", options.backbone)
    run = options.folder / (options.name or options.task)
    measure(options.task, graph, simulation, run, {"model.backbone": options.backbone, **settings})


def scaled(edges: int) -> SimulationConfig:
    """The simulation with this many edges and as many edges per node."""
    share = edges / APPS.num_edges
    sizes = {name: round(share * getattr(APPS, name)) for name in ("num_sources", "num_targets")}
    return replace(APPS, num_edges=edges, **sizes)


def open_network(simulation: Any, path: Path, backbone: str) -> EdgeTextGraph:
    if not path.is_dir():
        tokenizer = "minilm" if backbone == "minilm" else None
        edgeformers.prepare(simulation.table, path, tokenizer=tokenizer, progress=False)
    return EdgeTextGraph.open(path)


def measure(
    task: str, graph: EdgeTextGraph, simulation: Any, run: Path, settings: Mapping[str, Any]
) -> None:
    """Train, evaluate and write one line per result."""
    started = time.perf_counter()

    def write(what: str, **values: Any) -> None:
        line = {"what": what, "seconds": round(time.perf_counter() - started, 1), **values}
        print(json.dumps(line), flush=True)
        with run.with_suffix(".jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def evaluate(what: str, fitted: Any) -> None:
        for part in ("val", "test"):
            results = fitted.evaluate(part)
            numbers = {k: v for k, v in results.items() if isinstance(v, int | float)}
            write(what, part=part, **numbers)

    random_split = {"data.split": "link", "links.ensemble": False} if task == "links" else {}
    changes = {**random_split, **settings}
    device = choose_device(None)
    config = run_config(TASKS[task], "default", settings=changes, graph=graph, device=device)
    chosen = ("batch_size", "lr", "node_lr", "epochs")
    values = {name: getattr(config.train, name) for name in chosen}
    nodes = {"shrinkage": config.model.node_shrinkage, "prior": config.model.node_prior}
    write("settings", **values, **nodes)
    fitted = fit_run(graph, run, config, show=False).fitted_
    write("trained")
    edges = np.asarray(fitted.network.parts["test"])
    evaluate("alone" if task == "links" else "as shipped", fitted)
    if isinstance(fitted, FittedLinkPredictor):
        ensemble = fit_ensemble(fitted)
        names = [] if ensemble is None else [one.name for one in ensemble.components]
        write("ensemble fitted", components=names)
        evaluate("with ensemble", replace(fitted, ensemble=ensemble))
        best = simulation.best_link_scores(sample=edges, filtered=True)
        write("best achievable", mrr=best.best.mrr, popularity=best.popularity.mrr)
    else:
        write("best achievable", macro_f1=simulation.best_scores(edges).both.macro_f1)
        train = np.asarray(fitted.network.parts["train"])
        write("best learner", macro_f1=best_learner_macro_f1(simulation, train, edges))


def best_learner_macro_f1(simulation: Any, train: Ids, test: Ids) -> float:
    """Macro-F1 of somebody who knows the model but must infer the nodes from training edges.

    The style of a source has an exact posterior; its temper and the quality of targets are
    inferred together by mean-field iterations.
    """
    model, seen, asked = simulation.model, simulation.model.draw(train), simulation.model.draw(test)
    stars, words = model.stars_table, model.sentiment_table  # [a, q, k], [s, k, v]
    sources, targets = model.config.source_count, model.config.target_count
    said = np.log(np.maximum(words, 1e-12))
    phrases = said[:, seen.stars, seen.verdict] + said[:, seen.stars, seen.remark]
    style = posterior(phrases.T, seen.source, sources)
    log_stars = np.log(stars)[:, :, seen.stars]  # [a, q, edges]
    quality = np.full((targets, stars.shape[1]), 1 / stars.shape[1])
    for _ in range(20):
        temper = posterior(
            np.einsum("nq,aqn->na", quality[seen.target], log_stars), seen.source, sources
        )
        quality = posterior(
            np.einsum("na,aqn->nq", temper[seen.source], log_stars), seen.target, targets
        )
    expected = np.einsum("na,nq,aqk->nk", temper[asked.source], quality[asked.target], stars)
    likelihood = words[:, :, asked.verdict] * words[:, :, asked.remark]
    predicted = (expected * np.einsum("ns,skn->nk", style[asked.source], likelihood)).argmax(1)
    confusion = np.zeros((stars.shape[2],) * 2)
    np.add.at(confusion, (asked.stars, predicted), 1)
    return float(np.nanmean(f1_of_confusion(confusion)))


def posterior(log_likelihood: Floats, nodes: Ids, count: int) -> Floats:
    """P(level) of every node [count, L] from the log-likelihoods of its edges, uniform prior."""
    total = np.stack([np.bincount(nodes, column, count) for column in log_likelihood.T], axis=1)
    chance = np.exp(total - total.max(axis=1, keepdims=True))
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


if __name__ == "__main__":
    main()
