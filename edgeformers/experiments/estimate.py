"""How long a plan will take, estimated from finished runs or from a few steps of each model."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from edgeformers.config import RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import EdgeformersError
from edgeformers.experiments.plan import Plan, Run
from edgeformers.experiments.worker import free_memory, read_outcome
from edgeformers.runs import ESTIMATORS
from edgeformers.training.optimizers import Optimizers

STEPS = 3  # that are timed, after one that is not
FORWARD = 1 / 3  # of a training step: encoding the same without learning


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds per run of each row, where they are known; and of all runs that are waiting."""

    per_run: Mapping[str, float]
    unknown: list[str] = field(default_factory=list)
    total: float = 0.0
    stops_early: bool = False

    def sentence(self, jobs: int) -> str:
        """What to expect, in words."""
        if not self.per_run:
            return "How long it takes cannot be told yet."
        share = f", {jobs} runs side by side" if jobs > 1 else ""
        more = f"; not counted: {', '.join(self.unknown)}" if self.unknown else ""
        least = "; runs stop when validation gets no better, often earlier" * self.stops_early
        return f"It will take about {duration(self.total / jobs)}{share} (an estimate{least}{more})"


def estimate(
    plan: Plan,
    graph: EdgeTextGraph,
    measure: Callable[[RunConfig, EdgeTextGraph, str | None], float] | None = None,
) -> Estimate:
    """From the finished runs of a row, else from a few steps of its model, else unknown."""
    waiting = {run.folder: run for run in plan.waiting}.values()
    per_run: dict[str, float] = {}
    for run in waiting:
        if run.row in per_run:
            continue
        seconds = _from_finished(plan, run)
        if seconds is None and run.kind != "simple":
            seconds = _measured(run, graph, plan.device, measure or measure_run)
        if seconds is not None:
            per_run[run.row] = seconds
    configs = [run.to_config() for run in waiting if run.kind != "simple"]
    return Estimate(
        per_run=per_run,
        unknown=list(dict.fromkeys(run.row for run in waiting if run.row not in per_run)),
        total=sum(per_run.get(run.row, 0.0) for run in waiting),
        stops_early=any(config.train.patience is not None for config in configs),
    )


def measure_run(config: RunConfig, graph: EdgeTextGraph, device: str | None = None) -> float:
    """Seconds a run would take: its steps, and encoding for validation and the two scores."""
    made = ESTIMATORS[config.task](config=config, device=device, show=False).set_up(graph)
    objective: Any = made.objective
    train = config.train
    optimizers = Optimizers(objective.modules, train)
    batches = objective.batches(0)
    objective.modules.train()
    started = 0.0
    for number, ids in enumerate(batches[: STEPS + 1]):
        if number == min(1, len(batches) - 1):
            started = now(made.device)
        optimizers.zero_grad()
        objective.backward([objective.make(ids, 0, train.micro_batch_size)])
        optimizers.step(1.0)
    step = (now(made.device) - started) / max(1, min(STEPS, len(batches) - 1))
    per_example = step / max(1, len(batches[0]))
    scored = {part: len(objective.parts[part]) for part in ("val", "test")}
    checked = min(scored["val"], train.eval_pairs or scored["val"])
    encoded = train.epochs * checked + sum(scored.values())
    return len(batches) * train.epochs * step + encoded * per_example * FORWARD


def duration(seconds: float) -> str:
    """3 h 20 min, 12 min or 40 s."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def now(device: torch.device) -> float:
    """The time once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _from_finished(plan: Plan, run: Run) -> float | None:
    found = [
        float(outcome["seconds"])
        for other in plan.runs
        if other.row == run.row and other.is_finished and (outcome := read_outcome(other))
    ]
    return sum(found) / len(found) if found else None


def _measured(
    run: Run,
    graph: EdgeTextGraph,
    device: str | None,
    measure: Callable[[RunConfig, EdgeTextGraph, str | None], float],
) -> float | None:
    try:
        return measure(run.to_config(), graph, device)
    except (EdgeformersError, RuntimeError):  # the run itself will say what is wrong
        return None
    finally:
        free_memory()
