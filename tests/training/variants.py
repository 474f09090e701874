"""Trains variants of both tasks in each of several processes: variants.py NETWORK OUT [STEP].

With STEP, every training is stopped before that step; the next call resumes it, perhaps with
another number of processes. Nothing is dropped at random, since masks differ between processes.
"""

import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from edgeformers import distributed
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.sharded_nodes import find_sharded
from edgeformers.training import initialization
from edgeformers.training.trainer import Trainer

COMMON = {
    "model.backbone": "scratch:2x32",
    "model.node_width": 16,
    "model.node_dropout": 0.0,
    "train.epochs": 2,
    "train.batch_size": 23,  # the last batch has fewer examples than there are processes
    "train.patience": None,
    "train.checkpoint_every": 4,
}
EDGES = {**COMMON, "edges.dropout": 0.0, "train.ema_decay": 0.9}
LINKS = {
    **COMMON,
    "data.source_neighbors": [2],
    "data.target_neighbors": [3],
    "links.uniform_negatives": 7,
    "links.ensemble": False,
}
ACCUMULATED = {"train.gradient_accumulation": 2, "train.micro_batch_size": 5}
SPARSE = {"train.sparse_nodes": True}
SHARDED = {"train.shard_nodes": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "edges": {**EDGES, **ACCUMULATED},
    "edges-sparse": {**EDGES, **SPARSE},
    "edges-sharded": {**EDGES, **SHARDED, "train.micro_batch_size": 5, "model.node_prior": True},
    "links": {**LINKS, "train.ema_decay": 0.9},
    "links-sparse": {**LINKS, **SPARSE, **ACCUMULATED},
    "links-sharded": {**LINKS, **SHARDED, **ACCUMULATED, "train.ema_decay": 0.9},
}


class Stopped(Exception):
    """The step at which a training is stopped."""


def stop_at(step: int) -> None:
    update = Trainer._update

    def stopped(self: Trainer, *args: Any) -> Any:
        if self.state.step == step:
            raise Stopped
        return update(self, *args)

    Trainer._update = stopped  # type: ignore[method-assign]


def main(network: str, out: Path) -> None:
    torch.set_num_threads(1)
    none = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    initialization.EncoderConfig = partial(EncoderConfig, **none)  # type: ignore[misc]
    distributed.initialize()
    found = {}
    for name, settings in VARIANTS.items():
        kind = EdgeClassifier if name.startswith("edges") else LinkPredictor
        with suppress(Stopped):
            made = kind(settings=settings, show=False, device="cpu").fit(network, run=out / name)
            found[name] = made.evaluate()
            is_sharded = settings.get("train.shard_nodes", False) and distributed.world_size() > 1
            assert bool(find_sharded(made.model)) == is_sharded
        distributed.barrier()
    (out / f"found-{distributed.rank()}.json").write_text(json.dumps(found))
    distributed.barrier()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        stop_at(int(sys.argv[3]))
    main(sys.argv[1], Path(sys.argv[2]))
