"""A run whose processes are killed under torchrun: elastic.py NETWORK OUT [RANK:STEP ...].

After each restart the next of the given processes is killed, in the middle of an epoch.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from edgeformers import distributed
from edgeformers.config import make_config
from edgeformers.runs import train_run
from edgeformers.training.trainer import Trainer

SETTINGS = {
    "model.backbone": "scratch:2x32",
    "model.node_width": 16,
    "model.node_dropout": 0.1,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "links.uniform_negatives": 3,
    "links.ensemble": False,
    "train.epochs": 2,
    "train.batch_size": 40,
    "train.ema_decay": 0.9,
    "train.checkpoint_every": 3,
    "train.shard_nodes": True,
}


def kill_at(rank: int, step: int) -> None:
    """Let a process kill itself before it takes a step."""
    update = Trainer._update

    def killed(self: Trainer, *args: Any) -> Any:
        if distributed.rank() == rank and self.state.step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return update(self, *args)

    Trainer._update = killed  # type: ignore[method-assign]


def main(network: str, out: Path, kills: list[str]) -> None:
    torch.set_num_threads(1)
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if restarts < len(kills):
        rank, step = map(int, kills[restarts].split(":"))
        kill_at(rank, step)
    train_run(network, out, make_config("link-prediction", settings=SETTINGS), show=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
