"""Table 5: milliseconds per mini-batch of nodes, all models timed in turns in one process."""

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch

from edgeformers.data.batch import EgoBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.experiments.collect import make_record
from edgeformers.experiments.model_rows import TIMED_BATCH, TIMED_NEIGHBORS
from edgeformers.experiments.plan import Plan, PlannedRun
from edgeformers.experiments.record import DIGITS, Entry, Record
from edgeformers.experiments.resources import synchronized_time
from edgeformers.experiments.runner import device_name
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.training.optimizers import Optimizers

WARM_UP = 3  # rounds that are not counted


@dataclass(frozen=True, kw_only=True)
class TimedModel:
    """A model, its optimizer, and a mini-batch for each number of neighbors on its device."""

    predictor: FittedLinkPredictor
    optimizers: Optimizers
    batches: dict[int, EgoBatch]

    def train_step(self, size: int) -> float:
        """Seconds of a forward and backward pass and an update."""
        started = synchronized_time(self.predictor.device)
        model = self.predictor.model.train()
        self.optimizers.zero_grad()
        with self.predictor.options.autocast():
            node_repr = model(self.batches[size])
        node_repr.float().square().mean().backward()
        self.optimizers.step(1.0)
        return synchronized_time(self.predictor.device) - started

    def encode(self, size: int) -> float:
        """Seconds of a forward pass without gradients."""
        started = synchronized_time(self.predictor.device)
        model = self.predictor.model.eval()
        with torch.inference_mode(), self.predictor.options.autocast():
            model(self.batches[size])
        return synchronized_time(self.predictor.device) - started


def time_models(plan: Plan, graph: EdgeTextGraph, *, rounds: int) -> Record:
    """The median time of training steps and encodings, by model and number of neighbors.

    Models and sizes alternate, so that other load on the machine affects all of them alike.
    Batches are already on the device; texts have their natural length, up to the token limit.
    """
    runs = list({run.row: run for run in reversed(plan.runs)}.values())[::-1]
    started = time.perf_counter()
    models = {run.row: _set_up(run, plan, graph) for run in runs}
    seconds: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(rounds + WARM_UP):
        for row, model in models.items():
            for size in TIMED_NEIGHBORS:
                seconds.setdefault((row, "train", size), []).append(model.train_step(size))
                seconds.setdefault((row, "inference", size), []).append(model.encode(size))
    elapsed = time.perf_counter() - started

    def milliseconds(row: str, part: str) -> dict[str, float]:
        medians = {n: median(seconds[row, part, n][WARM_UP:]) for n in TIMED_NEIGHBORS}
        return {str(n): round(1000 * value, DIGITS) for n, value in medians.items()}

    entries = [
        Entry(
            row=run.row,
            seed=run.seed,
            metrics={part: milliseconds(run.row, part) for part in ("train", "inference")},
            settings=run.settings,
            seconds=round(elapsed / len(runs), 1),
            device=device_name(models[run.row].predictor.device),
        )
        for run in runs
    ]
    return make_record(plan, entries)


def choose_centers(degrees: Any, first: int, count: int, min_degree: int) -> Ids:
    """Evenly spaced nodes from `first` on with enough training edges; repeated if too few."""
    nodes = first + np.flatnonzero(np.asarray(degrees)[first:] >= min_degree)
    if not len(nodes):
        raise InputError(
            f"no node has {min_degree} training edges, which timing {min_degree} neighbors "
            "requires; use a larger network"
        )
    places = np.linspace(0, len(nodes) - 1, count).round().astype(np.int64)
    return np.asarray(nodes[places], np.int64)


def _set_up(run: PlannedRun, plan: Plan, graph: EdgeTextGraph) -> TimedModel:
    most = max(TIMED_NEIGHBORS)
    sizes = {"data.source_neighbors": [most], "data.target_neighbors": [most]}
    config = run.to_config().with_settings({"data.strata": "none", **sizes})
    objective = LinkPredictor(config=config, device=plan.device, show=False).make_objective(graph)
    predictor, loader = objective.fitted, objective.loader
    adjacency = loader.target_sampler.adjacency
    first = graph.num_sources if graph.is_bipartite else 0
    centers = choose_centers(adjacency.degrees(), first, TIMED_BATCH, most)
    batches = {}
    for size in TIMED_NEIGHBORS:
        sampler = EgoSampler(adjacency, [size], seed=run.seed)
        sized = replace(loader, source_sampler=sampler, target_sampler=sampler)
        batches[size] = sized.nodes(centers, side="target").to(predictor.device)
    optimizers = Optimizers(objective.modules, config.train)
    return TimedModel(predictor=predictor, optimizers=optimizers, batches=batches)
