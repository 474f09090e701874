"""Memory per process and bytes per step of a node table: whole, sharded, or as a DTensor.

torchrun --standalone --nproc-per-node 4 -m benchmarks.sharded_table --nodes 10000000

Every process looks up random nodes, computes a gradient and updates the rows with RowAdam (Adam for
the dense gradients of a DTensor). Bytes are those that a process receives from others; those of a
DTensor are not counted.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.nn.nodes import NodeLookup
from edgeformers.sharded_nodes import ShardedNodeLookup, rows_of
from edgeformers.training.optimizers import RowAdam


@dataclass(frozen=True)
class Nodes:
    """A batch of node numbers."""

    src: Tensor


class Traffic:
    """Counts the bytes that this process receives from others in collective operations."""

    def __init__(self) -> None:
        self.received = 0
        world = distributed.world_size()
        self._count("all_to_all_single", lambda out, *_: out.nbytes * (world - 1) // world)
        self._count("all_gather", lambda parts, *_: sum(p.nbytes for p in parts[1:]))
        self._count("all_reduce", lambda tensor, *_: 2 * tensor.nbytes * (world - 1) // world)

    def _count(self, name: str, size: Callable[..., int]) -> None:
        plain = getattr(dist, name)

        def counted(*args: Any, **more: Any) -> Any:
            self.received += size(*args)
            return plain(*args, **more)

        setattr(dist, name, counted)


def memory(name: str) -> float:
    """A line of /proc/self/status in GB: VmRSS (now) or VmHWM (the maximum)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith(name))


class DTensorLookup(nn.Module):
    """Rows divided by DTensor, whose lookup needs the nodes of all processes everywhere."""

    def __init__(self, nodes: int, width: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Shard

        super().__init__()
        world = distributed.world_size()
        self.mesh = init_device_mesh("cpu", (world,))
        own = torch.randn(nodes // world, width)
        self.table = nn.Parameter(DTensor.from_local(own, self.mesh, [Shard(0)]))

    def forward(self, nodes: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, Replicate

        parts = [torch.empty_like(nodes) for _ in range(distributed.world_size())]
        dist.all_gather(parts, nodes)
        everywhere = DTensor.from_local(torch.cat(parts), self.mesh, [Replicate()])
        z = F.embedding(everywhere, self.table).redistribute(self.mesh, [Replicate()]).to_local()
        own: Tensor = z.chunk(distributed.world_size())[distributed.rank()]
        return own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layout", choices=["whole", "sharded", "dtensor"], default="sharded")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rows", type=int, default=2_000, help="nodes per process and step")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    distributed.initialize()
    before, traffic = memory("VmRSS"), Traffic()
    lookup: nn.Module
    if options.layout == "dtensor":
        lookup = DTensorLookup(options.nodes, options.width)
        optimizer: torch.optim.Optimizer = torch.optim.Adam(lookup.parameters(), foreach=False)
    else:
        kind = ShardedNodeLookup if options.layout == "sharded" else NodeLookup
        lookup = kind(options.nodes, options.width, sparse=True)
        optimizer = RowAdam(lookup.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(distributed.rank())
    for step in range(options.steps + 1):
        if step == 1:  # the first step allocates the moments
            distributed.barrier()
            traffic.received, cpu, wall = 0, time.process_time(), time.perf_counter()
        nodes = torch.randint(options.nodes - 1, (options.rows,), generator=generator)
        optimizer.zero_grad()
        with rows_of(lookup, [Nodes(nodes)]):
            lookup(nodes).square().sum().backward()
        if options.layout != "dtensor":
            distributed.average_gradients(lookup)
        optimizer.step()
    found = {
        "layout": options.layout,
        "processes": distributed.world_size(),
        "nodes": options.nodes,
        "width": options.width,
        "rows_per_process": options.rows,
        "gb_per_process": round(memory("VmRSS") - before, 3),
        "peak_gb_per_process": round(memory("VmHWM") - before, 3),
        "kb_received_per_step": None
        if options.layout == "dtensor"
        else round(traffic.received / options.steps / 1e3, 1),
        "cpu_ms_per_step": round((time.process_time() - cpu) / options.steps * 1e3, 2),
        "wall_ms_per_step": round((time.perf_counter() - wall) / options.steps * 1e3, 2),
        "sparse_gradient": bool(getattr(next(lookup.parameters()).grad, "is_sparse", False)),
    }
    if distributed.is_main():
        print(json.dumps(found))
    distributed.barrier()


if __name__ == "__main__":
    main()
