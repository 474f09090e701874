"""The plan for training on a CPU: how many layers are frozen, and how long it will take.

Frozen layers that read the text only are computed once (`training/state_cache.py`). The plan
depends on the network and the settings, never on the speed of the machine, so that the same
command gives the same model everywhere and an interrupted run resumes.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from edgeformers.config import RunConfig, Task
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import default_batch_size
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText
from edgeformers.registry import ModelEntry
from edgeformers.training.initialization import is_scratch

#: Settings that the plan chooses together; if one of them is given, there is no plan.
PLANNED = ("model.text_layers", "train.frozen_layers")

# Work is counted in tokens times layers, in a forward and backward pass.
BUDGET = 1.5e6  # of a run: about two minutes on two cores with MiniLM
READOUT_TOKEN = 1 / 6  # of a token in the last layer, which needs only its key and value
READOUT_TEXT = 1.5  # of a text in each layer with virtual tokens: these, and the row that is read
FORWARD = 1 / 3  # of a forward pass alone
CHARACTERS_PER_TOKEN = 4.5
SAMPLE = (16, 32)  # texts and tokens per text that the speed is measured on
ROUNDS = 4  # passes that are timed
ENSEMBLE_SECONDS = 2e-3  # per training link, to fit the ensemble of links
#: What the plan cost where it was measured (docs/scale.md).
COSTS: Mapping[Task, str] = {
    "edge-classification": "this cost 2 points of Micro-F1 on three networks of 2,300 reviews",
    "link-prediction": "this cost nothing on three networks of 2,300 reviews",
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The texts that are read in training, and the backbone that reads them."""

    layers: int  # of the backbone
    read_texts: float  # in all epochs; with R-Drop, each twice
    stored_texts: int  # of the network
    tokens: float  # per text, on average
    val_texts: float = 0.0  # read by the validations of all epochs
    final_texts: float = 0.0  # read once the training has ended, without a cache
    ensemble_links: int = 0  # that an ensemble is fitted on

    def training(self, frozen: int) -> float:
        """Work of all steps if the first layers are frozen, cached and without virtual tokens."""
        own = self.layers - frozen
        per_text = self.tokens * (own - 1 + READOUT_TOKEN) + READOUT_TEXT * min(
            own, self.layers - 1
        )
        return self.read_texts * per_text

    def inference(self, frozen: int) -> float:
        """Work of caching and evaluating, in which no layer has a backward pass."""
        validation = self.val_texts * (self.layers - frozen)
        passes = self.stored_texts * frozen + validation + self.final_texts * self.layers
        return FORWARD * self.tokens * passes

    def seconds(self, frozen: int, speed: float) -> float:
        """Estimated time of a run at `speed`, the work done per second."""
        work = self.training(frozen) + self.inference(frozen)
        return work / speed + ENSEMBLE_SECONDS * self.ensemble_links


def frozen_layers(load: Workload) -> int:
    """The fewest frozen layers with which training stays in the budget; all but one at most."""
    options = range(load.layers)
    return next((n for n in options if load.training(n) <= BUDGET), load.layers - 1)


def planned_settings(load: Workload) -> dict[str, Any]:
    """Settings with which a CPU trains in minutes, where possible; empty if it does anyway."""
    frozen = frozen_layers(load)
    return {} if not frozen else dict.fromkeys(PLANNED, frozen)


def has_plan(config: RunConfig, entry: ModelEntry) -> bool:
    """Whether a run is of the kind that is planned: an Edgeformer with a pretrained backbone."""
    is_pretrained = not is_scratch(config.model.backbone)
    has_layers = any(setting.name == "text_layers" for setting in fields(entry.config))
    return (
        config.recipe == "default" and is_pretrained and has_layers and not config.train.lora_rank
    )


def measure_workload(
    config: RunConfig, graph: EdgeTextGraph, num_train: int, layers: int
) -> Workload:
    """What training will read, from the counts of the network."""
    lengths = 2 + graph.text_lengths / CHARACTERS_PER_TOKEN
    tokens = float(np.minimum(lengths, config.data.max_tokens).mean()) if len(lengths) else 0.0
    epochs = config.train.epochs
    if config.task == "edge-classification":
        passes = 2 if config.edges.rdrop else 1
        held_out = graph.num_edges - num_train
        return Workload(
            read_texts=float(epochs * passes * num_train),
            stored_texts=graph.num_edges,
            val_texts=epochs * held_out / 3,
            final_texts=held_out,
            layers=layers,
            tokens=tokens,
        )
    source, target = sum(config.data.source_neighbors), sum(config.data.target_neighbors)
    batches = -(
        -num_train // (config.train.batch_size or default_batch_size(config.task, num_train))
    )
    negatives = batches * config.links.uniform_negatives * target
    nodes = graph.num_nodes * max(source, target)
    return Workload(
        read_texts=float(epochs * (num_train * (source + target) + negatives)),
        stored_texts=graph.num_edges,
        val_texts=nodes * epochs,
        final_texts=2 * nodes,  # for the ensemble and for the test
        ensemble_links=num_train if config.links.ensemble else 0,
        layers=layers,
        tokens=tokens,
    )


@torch.inference_mode()
def measure_speed(encoder: TextEncoder) -> float:
    """The work that this machine does per second, from the fastest of a few passes of a layer."""
    texts, tokens = SAMPLE
    text = PackedText.from_lists([[0] * tokens] * texts)
    hidden, layer, seconds = encoder.embed(text), encoder.layers[0], float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        layer(hidden, text)
        seconds = min(seconds, time.perf_counter() - started)
    return FORWARD * texts * tokens / seconds


def describe_plan(task: Task, load: Workload, frozen: int, speed: float) -> str:
    """What a user is told before training starts."""
    estimate = _duration(load.seconds(frozen, speed))
    cores = torch.get_num_threads()
    start = f"about {estimate} on {cores} {'core' if cores == 1 else 'cores'}"
    if not frozen:
        return f"{start}: all {load.layers} layers are trained"
    return (
        f"{start}: {frozen} of {load.layers} layers are frozen and read the text only, as planned "
        f"for a CPU ({COSTS[task]}); train.frozen_layers=0 trains all of them in about "
        f"{_duration(load.seconds(0, speed))}"
    )


def _duration(seconds: float) -> str:
    """40 s, 3 min or 2.5 h."""
    if seconds < 60:
        return f"{max(10, round(seconds, -1)):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
