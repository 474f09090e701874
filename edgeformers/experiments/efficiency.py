"""Table 5: milliseconds per mini-batch of nodes, all models side by side in one process."""

import time
from collections.abc import Callable, Sequence
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
from edgeformers.experiments.estimate import now
from edgeformers.experiments.plan import Plan, Run
from edgeformers.experiments.record import DIGITS, Entry, Record
from edgeformers.experiments.worker import device_name
from edgeformers.training.optimizers import Optimizers

CENTERS = 25  # nodes per mini-batch, as in the paper
SIZES = (2, 3, 4, 5)  # neighbor edges per node
ROUNDS, WARM_UP = 20, 3


@dataclass(frozen=True, kw_only=True)
class _Timed:
    """A model, its optimizer, and a mini-batch of each size on its device."""

    predictor: LinkPredictor
    optimizers: Optimizers
    batches: dict[int, EgoBatch]


def time_models(plan: Plan, graph: EdgeTextGraph, *, rounds: int = ROUNDS) -> Record:
    """The median of `rounds` training steps and encodings of every model and neighbor size.

    Models and sizes take turns, so that whatever else the machine does meets all alike. A
    training step is forward, backward and update; batches are on the device already, and texts
    are as long as they are, up to the limit of tokens.
    """
    if rounds < 1:
        raise InputError(f"--rounds must be at least 1 (got {rounds})")
    runs = list({run.row: run for run in reversed(plan.runs)}.values())[::-1]
    started = time.perf_counter()
    timed = [_set_up(run, plan, graph) for run in runs]
    found: dict[tuple[int, str, int], list[float]] = {}
    for number in range(rounds + WARM_UP):
        for place, one in enumerate(timed):
            for size in SIZES:
                for part, step in (("train", _train_step), ("inference", _encode)):
                    seconds = _seconds(lambda: step(one, size), one.predictor.device)  # noqa: B023
                    if number >= WARM_UP:
                        found.setdefault((place, part, size), []).append(seconds)
    spent = (time.perf_counter() - started) / len(runs)
    entries = [
        Entry(
            row=run.row,
            seed=run.seed,
            metrics={
                part: {str(n): round(1000 * median(found[place, part, n]), DIGITS) for n in SIZES}
                for part in ("train", "inference")
            },
            settings=run.settings,
            seconds=round(spent, 1),
            device=device_name(timed[place].predictor.device),
        )
        for place, run in enumerate(runs)
    ]
    return make_record(plan, entries)


def choose_centers(degrees: Sequence[int] | Any, first: int, count: int, least: int) -> Ids:
    """Nodes from `first` on with at least so many training edges, evenly chosen; few repeat."""
    good = first + np.flatnonzero(np.asarray(degrees)[first:] >= least)
    if not len(good):
        raise InputError(
            f"no node has {least} training edges, which timing {least} neighbors needs; use a "
            "larger network"
        )
    places = np.linspace(0, len(good) - 1, count).round().astype(np.int64)
    return np.asarray(good[places], np.int64)


def _set_up(run: Run, plan: Plan, graph: EdgeTextGraph) -> _Timed:
    config = run.to_config().with_settings(
        {
            "data.strata": "none",  # neighbors are of one kind here
            "data.source_neighbors": [max(SIZES)],
            "data.target_neighbors": [max(SIZES)],
        }
    )
    predictor = LinkPredictor(config=config, device=plan.device, show=False).set_up(graph)
    loader = predictor.objective.loader
    adjacency = loader.target_sampler.adjacency
    first = graph.num_sources if graph.is_bipartite else 0
    centers = choose_centers(adjacency.degrees(), first, CENTERS, max(SIZES))
    batches = {}
    for size in SIZES:
        sampler = EgoSampler(adjacency, [size], seed=run.seed)
        wide = replace(loader, source_sampler=sampler, target_sampler=sampler)
        batches[size] = wide.nodes(centers, side="target").to(predictor.device)
    optimizers = Optimizers(predictor.objective.modules, config.train)
    return _Timed(predictor=predictor, optimizers=optimizers, batches=batches)


def _train_step(one: _Timed, size: int) -> None:
    model = one.predictor.model.train()
    one.optimizers.zero_grad()
    with one.predictor.autocast():
        node_repr = model(one.batches[size])
    node_repr.float().square().mean().backward()
    one.optimizers.step(1.0)


def _encode(one: _Timed, size: int) -> None:
    model = one.predictor.model.eval()
    with torch.inference_mode(), one.predictor.autocast():
        model(one.batches[size])


def _seconds(step: Callable[[], None], device: torch.device) -> float:
    started = now(device)
    step()
    return now(device) - started
