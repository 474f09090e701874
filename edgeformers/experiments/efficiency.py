"""Table 5: milliseconds per mini-batch of nodes, all models timed in turns in one process."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
import torch

from edgeformers.data.batch import EgoBatch
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.sampler import EgoSampler
from edgeformers.data.types import Floats, Ids
from edgeformers.errors import InputError
from edgeformers.estimators import LinkPredictor
from edgeformers.experiments.collect import make_record
from edgeformers.experiments.model_rows import TIMED_BATCH, TIMED_NEIGHBORS, TIMED_TOKENS
from edgeformers.experiments.plan import Plan, PlannedRun
from edgeformers.experiments.record import DIGITS, Comparison, Entry, Measurement, Record
from edgeformers.experiments.resources import synchronized_time
from edgeformers.experiments.runner import device_name
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.training.optimizers import Optimizers

WARM_UP = 3  # rounds that are not counted
RESAMPLES = 2000  # of rounds
PARTS = ("train", "inference")
NESTED = ("graphformers-n", "edgeformer-n")  # text and network in turns; the others are cascaded
Timed: TypeAlias = tuple[str, str, int]  # row, part, neighbors


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
    Batches are already on the device; texts have their natural length, up to 64 tokens.
    """
    runs = list({run.row: run for run in reversed(plan.runs)}.values())[::-1]
    started = time.perf_counter()
    models = {run.row: _set_up(run, plan, graph) for run in runs}
    seconds: dict[Timed, list[float]] = {}
    for _ in range(rounds + WARM_UP):
        for size in TIMED_NEIGHBORS:
            for row, model in models.items():
                seconds.setdefault((row, "train", size), []).append(model.train_step(size))
                seconds.setdefault((row, "inference", size), []).append(model.encode(size))
    counted = {timed: np.array(values[WARM_UP:]) for timed, values in seconds.items()}
    elapsed = time.perf_counter() - started
    entries = [
        Entry(
            row=run.row,
            seed=run.seed,
            metrics={part: _milliseconds(counted, run.row, part) for part in PARTS},
            settings=run.settings,
            seconds=round(elapsed / len(runs), 1),
            device=device_name(models[run.row].predictor.device),
        )
        for run in runs
    ]
    tests = [
        compare_times(counted, part, size, first, second)
        for part in PARTS
        for size in TIMED_NEIGHBORS
        for first, second in permutations(models, 2)
        if first in NESTED and (second not in NESTED or first == "edgeformer-n")
    ]
    tokens = Measurement(
        name="tokens per text",
        value=round(float(np.mean([_mean_tokens(model) for model in models.values()])), 1),
    )
    return replace(make_record(plan, entries), claim_tests=tests, measurements=[tokens])


def compare_times(
    seconds: Mapping[Timed, Floats], part: str, size: int, first: str, second: str
) -> Comparison:
    """The ratio of two models' median times minus 1, with a bootstrap interval over rounds."""
    ours, theirs = seconds[first, part, size], seconds[second, part, size]
    drawn = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
    ratios = np.median(ours[drawn], axis=1) / np.median(theirs[drawn], axis=1) - 1
    low, high = np.quantile(ratios, [0.025, 0.975])
    opposite = min((ratios <= 0).sum(), (ratios >= 0).sum())
    return Comparison(
        table=f"efficiency/{part}",
        metric=str(size),
        best=first,
        second=second,
        difference=round(float(np.median(ours) / np.median(theirs) - 1), DIGITS),
        low=round(float(low), DIGITS),
        high=round(float(high), DIGITS),
        p_value=min(1.0, 2 * (1 + float(opposite)) / (1 + RESAMPLES)),
        examples=len(ours),
    )


def _milliseconds(seconds: Mapping[Timed, Floats], row: str, part: str) -> dict[str, float]:
    """Medians by number of neighbors, and the quartiles as their spread."""
    times: dict[str, float] = {}
    for size in TIMED_NEIGHBORS:
        low, middle, high = np.quantile(1000 * seconds[row, part, size], [0.25, 0.5, 0.75])
        values = {f"{size}": middle, f"{size}/low": low, f"{size}/high": high}
        times |= {name: round(float(value), DIGITS) for name, value in values.items()}
    return times


def _mean_tokens(model: TimedModel) -> float:
    texts = [batch.text for batch in model.batches.values()]
    return sum(len(text.token_ids) for text in texts) / sum(text.num_texts for text in texts)


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
    fixed = {"data.strata": "none", "data.max_tokens": TIMED_TOKENS}
    config = run.to_config().with_settings({**fixed, **sizes})
    objective = LinkPredictor(config=config, device=plan.device, show=False).make_objective(graph)
    predictor, loader = objective.fitted, objective.loader
    adjacency = loader.target_sampler.adjacency
    first = graph.nodes_on("target").start
    centers = choose_centers(adjacency.degrees(), first, TIMED_BATCH, most)
    batches = {}
    for size in TIMED_NEIGHBORS:
        sampler = EgoSampler(adjacency, [size], seed=run.seed)
        sized = replace(loader, source_sampler=sampler, target_sampler=sampler)
        batches[size] = sized.nodes(centers, side="target").to(predictor.device)
    optimizers = Optimizers(objective.modules, config.train)
    return TimedModel(predictor=predictor, optimizers=optimizers, batches=batches)
