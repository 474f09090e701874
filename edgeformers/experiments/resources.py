"""Estimates of what a plan needs: time per run, memory, and how many runs fit in parallel."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from edgeformers.config import RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import BATCH_SIZES
from edgeformers.errors import EdgeformersError
from edgeformers.estimators.build import find_model
from edgeformers.experiments.plan import Plan
from edgeformers.experiments.runner import free_memory, read_outcome
from edgeformers.inference.encode import choose_device
from edgeformers.nn.backbones import backbone_config
from edgeformers.report.formatting import format_duration
from edgeformers.runs import ESTIMATORS
from edgeformers.threads import available_cores
from edgeformers.training.initialization import SCRATCH
from edgeformers.training.optimizers import Optimizers

TIMED_STEPS = 3  # after one warm-up step
FORWARD_SHARE = 1 / 3  # of a training step that encoding alone takes
MAX_JOBS = 6
MEMORY_SHARE = 0.8  # of the free GPU memory that is planned for
PROCESS_BYTES = 1.5e9  # a process's own GPU memory
ACTIVATION_BYTES = 34 * 3  # per token, layer and unit of width: 34 values of 2 or 4 bytes


@dataclass(frozen=True, kw_only=True)
class TimeEstimate:
    """Expected seconds of one run per row, and of all pending runs together."""

    per_run: Mapping[str, float]
    unknown: list[str]  # rows that could not be estimated
    total: float
    stops_early: bool

    def describe(self, jobs: int) -> str:
        """One sentence for the user."""
        if not self.per_run:
            return "The run time cannot be estimated yet."
        details = f", {jobs} runs in parallel" if jobs > 1 else ""
        details += "; early stopping often ends runs sooner" if self.stops_early else ""
        details += f"; not included: {', '.join(self.unknown)}" if self.unknown else ""
        return f"Estimated time: {format_duration(self.total / jobs)}{details}"


def estimate_time(plan: Plan, graph: EdgeTextGraph) -> TimeEstimate:
    """Estimate pending runs from finished runs of the same row, or by timing a few steps."""
    pending = {run.folder: run for run in plan.pending}.values()
    trained = {run.row: run.to_config() for run in pending if run.kind != "simple"}
    per_run: dict[str, float] = {}
    for row in dict.fromkeys(run.row for run in pending):
        finished = [run for run in plan.runs if run.row == row and run.is_finished]
        seconds = [outcome["seconds"] for run in finished if (outcome := read_outcome(run))]
        if seconds:
            per_run[row] = fmean(seconds)
        elif row in trained:
            try:
                per_run[row] = measure_run(trained[row], graph, plan.device)
            except (EdgeformersError, RuntimeError):
                pass  # the run itself will report the error
            finally:
                free_memory()
    return TimeEstimate(
        per_run=per_run,
        unknown=[row for row in dict.fromkeys(run.row for run in pending) if row not in per_run],
        total=sum(per_run.get(run.row, 0.0) for run in pending),
        stops_early=any(config.train.patience is not None for config in trained.values()),
    )


def measure_run(config: RunConfig, graph: EdgeTextGraph, device: str | None = None) -> float:
    """Seconds of a run, extrapolated from a few steps: training, validation and scoring."""
    estimator = ESTIMATORS[config.task](config=config, device=device, show=False)
    objective: Any = estimator.make_objective(graph)
    train = config.train
    optimizers = Optimizers(objective.modules, train)
    batches = objective.batches(0)
    objective.modules.train()
    started = 0.0
    for number, ids in enumerate(batches[: TIMED_STEPS + 1]):
        if number == min(1, len(batches) - 1):
            started = synchronized_time(estimator.device)
        optimizers.zero_grad()
        objective.backward([objective.make(ids, 0, train.micro_batch_size)])
        optimizers.step(1.0)
    elapsed = synchronized_time(estimator.device) - started
    step = elapsed / max(1, min(TIMED_STEPS, len(batches) - 1))
    per_example = step / max(1, len(batches[0]))
    num_val, num_test = (len(objective.parts[part]) for part in ("val", "test"))
    num_encoded = train.epochs * min(num_val, train.eval_pairs or num_val) + num_val + num_test
    return len(batches) * train.epochs * step + num_encoded * per_example * FORWARD_SHARE


def synchronized_time(device: torch.device) -> float:
    """The time after the device has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def default_jobs(plan: Plan, graph: EdgeTextGraph) -> int:
    """One on a CPU; on a GPU as many as memory and cores allow, up to MAX_JOBS."""
    device = choose_device(plan.device)
    configs = [run.to_config() for run in plan.pending if run.kind != "simple"]
    if device.type != "cuda" or not configs:
        return 1
    free, _ = torch.cuda.mem_get_info(device)
    needs = [estimate_memory(config, graph.num_nodes) for config in configs]
    return max_parallel_runs(free, available_cores(), needs)


def max_parallel_runs(free: float, cores: int, needs: list[float]) -> int:
    """How many runs fit, given the largest one; each uses two cores to prepare batches."""
    fitting = int(MEMORY_SHARE * free // max(needs))
    return max(1, min(MAX_JOBS, cores // 2, fitting, len(needs)))


def estimate_memory(config: RunConfig, num_nodes: int) -> float:
    """Rough GPU bytes of a run: parameters, gradients, Adam moments and activations."""
    layers, width, vocabulary = _backbone_shape(config.model.backbone)
    parameters = 12 * layers * width**2 + vocabulary * width + num_nodes * config.model.node_width
    texts = config.train.micro_batch_size or config.train.batch_size or BATCH_SIZES[config.task][0]
    neighbors = sum(config.data.source_neighbors) + sum(config.data.target_neighbors)
    if config.task == "link-prediction":
        texts *= neighbors
    else:
        texts *= 1 + neighbors if find_model(config).context else 1
        texts *= 2 if config.edges.rdrop else 1  # R-Drop encodes each edge twice
    activations = texts * config.data.max_tokens * layers * width * ACTIVATION_BYTES
    return 16 * parameters + activations + PROCESS_BYTES


def _backbone_shape(backbone: str) -> tuple[int, int, int]:
    """Layers, width and vocabulary size of a backbone."""
    if backbone.startswith(SCRATCH):
        layers, _, width = backbone.removeprefix(SCRATCH).partition("x")
        return int(layers), int(width), 8000
    config = backbone_config(backbone)
    return config.layers, config.width, config.vocab_size
