"""What the tests of several processes run in each of them: python processes.py NETWORK OUT."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from edgeformers import distributed
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.training import initialization as start
from edgeformers.training.optimizers import Optimizers

EDGES = {
    "train.epochs": 2,
    "train.batch_size": 47,
    "train.gradient_accumulation": 2,
    "edges.dropout": 0.0,
    "edges.class_balance": 1.0,
    "model.node_dropout": 0.0,
    "model.node_width": 16,
}
LINKS = {
    "train.epochs": 1,
    "train.batch_size": 47,
    "links.uniform_negatives": 7,
    "links.cached_negatives": 11,
    "links.logq": 0.3,
    "model.node_dropout": 0.0,
    "model.node_width": 16,
    "data.source_neighbors": [2],
    "data.target_neighbors": [3],
}


def train(network: str, out: Path) -> dict[str, object]:
    """Train both tasks, nothing dropped; gives what evaluation says of them."""
    none = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    start.EncoderConfig = partial(EncoderConfig, **none)  # type: ignore[misc]
    make = Optimizers.__init__

    def with_large_eps(self: Optimizers, *args: object, **more: object) -> None:
        """Adam would blow rounding up to whole steps where a gradient is zero but for it."""
        make(self, *args, **more)  # type: ignore[arg-type]
        for part in self.optimizers:
            for group in part.param_groups:
                group["eps"] = 1e-4

    Optimizers.__init__ = with_large_eps  # type: ignore[method-assign]
    edges = EdgeClassifier("scratch:2x32", settings=EDGES, show=False, device="cpu")
    edges.fit(network, run=out / "edges")
    links = LinkPredictor("scratch:2x32", settings=LINKS, show=False, device="cpu")
    links.fit(network, run=out / "links")
    Optimizers.__init__ = make  # type: ignore[method-assign]
    start.EncoderConfig = EncoderConfig  # type: ignore[misc]
    return {"edges": edges.evaluate(), "links": links.evaluate()}


class Uneven(nn.Module):
    """Parameters that get gradients everywhere, in one process, sparse in one, and nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.every, self.one, self.none = (nn.Parameter(torch.ones(3)) for _ in range(3))
        self.table = nn.Parameter(torch.ones(5, 2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def backward(self, rank: int) -> None:
        (self.every.sum() * (rank + 1)).backward()
        if rank == 1:
            self.one.sum().backward()
            rows = torch.tensor([1, 4, 1])
            nn.functional.embedding(rows, self.table, sparse=True).sum().backward()


def exchange() -> dict[str, object]:
    """What the processes find when they exchange gradients, rows and values."""
    rank = distributed.rank()
    module = Uneven()
    module.backward(rank)
    distributed.average_gradients(module)
    rows = torch.full((2 * rank + 1, 2), float(rank + 1), requires_grad=True)
    gathered = distributed.gather_rows(rows)
    (torch.cat(gathered).sum() * (rank + 1)).backward()
    parts = [np.full((i, 2), i, np.float32) for i in distributed.shard(list(range(5)))]
    return {
        "every": module.every.grad.tolist(),
        "one": module.one.grad.tolist(),
        "none": module.none.grad,
        "frozen": module.frozen.grad,
        "table_is_sparse": module.table.grad.is_sparse,
        "table": module.table.grad.to_dense().tolist(),
        "rows": [part.tolist() for part in gathered],
        "row_grads": rows.grad.tolist(),
        "sharded": [p.tolist() for p in distributed.gather_shards(parts, parts[0][:0])],
        "nothing": distributed.gather_shards([], np.empty((0, 2), np.float32)),
        "ids": distributed.shard(np.arange(7)).tolist(),
        "seed": distributed.step_seed(3, 5),
        "total": distributed.all_sum(rank + 1.5),
        "mean": distributed.all_mean(rank + 1.5),
        "from_main": distributed.broadcast({"rank": rank, "nan": float("nan")})["rank"],
    }


def main(network: str, out: Path) -> None:
    torch.set_num_threads(1)
    distributed.initialize()
    found = {"exchange": exchange(), **train(network, out)}
    (out / f"found-{distributed.rank()}.json").write_text(json.dumps(found))
    distributed.barrier()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
