"""How many runs fit a device side by side, by a rule of thumb."""

import os

import torch

from edgeformers.config import RunConfig
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import USUAL_BATCHES
from edgeformers.estimators.settings import find_model
from edgeformers.experiments.plan import Plan
from edgeformers.nn.backbones import backbone_config
from edgeformers.training.initialization import SCRATCH, choose_device

MOST_JOBS = 6
SHARE = 0.8  # of the free memory that is planned for
OWN = 1.5e9  # bytes a process keeps on the device whatever it does
KEPT = 34 * 3  # bytes kept per token, layer and unit of width: 34 numbers of two or four bytes


def default_jobs(plan: Plan, graph: EdgeTextGraph) -> int:
    """One on a CPU; on a GPU as many as memory and cores allow, at most six."""
    device = choose_device(plan.device)
    waiting = [run.to_config() for run in plan.waiting if run.kind != "simple"]
    if device.type != "cuda" or not waiting:
        return 1
    free, _ = torch.cuda.mem_get_info(device)
    return jobs_that_fit(free, cores(), [memory_of(one, graph.num_nodes) for one in waiting])


def jobs_that_fit(free: float, cores: int, needs: list[float]) -> int:
    """By the largest of the runs; each wants two cores, to make batches while it computes."""
    return max(1, min(MOST_JOBS, cores // 2, int(SHARE * free // max(needs)), len(needs)))


def memory_of(config: RunConfig, num_nodes: int) -> float:
    """Bytes a run takes, roughly: parameters with gradients and moments, and states kept."""
    layers, width, vocabulary = _shape(config.model.backbone)
    parameters = 12 * layers * width**2 + vocabulary * width + num_nodes * config.model.node_width
    texts = config.train.micro_batch_size or config.train.batch_size or USUAL_BATCHES[0]
    around = sum(config.data.source_neighbors) + sum(config.data.target_neighbors)
    if config.task == "link-prediction":
        texts *= around
    else:
        texts *= 1 + around if find_model(config).context else 1
        texts *= 2 if config.edges.rdrop else 1  # each edge is then encoded twice
    return 16 * parameters + texts * config.data.max_tokens * layers * width * KEPT + OWN


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shape(backbone: str) -> tuple[int, int, int]:
    """Layers, width and vocabulary of a backbone."""
    if backbone.startswith(SCRATCH):
        layers, _, width = backbone.removeprefix(SCRATCH).partition("x")
        return int(layers), int(width), 8000
    config = backbone_config(backbone)
    return config.layers, config.width, config.vocab_size
