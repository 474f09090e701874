"""Optimizers with separate learning rates for backbone, node table and the rest; EMA of weights."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from edgeformers.config import TrainSettings
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.nodes import NodeLookup

LORA_PREFIX = "lora_"  # of the parameter names of peft
ROW_MOMENTS = ("exp_avg", "exp_avg_sq")  # of RowAdam, with the shape of the table
UPDATE_EVERY = 8  # steps; a large node table is expensive to average at every step


class Optimizers:
    """AdamW for dense parameters and RowAdam for node tables with sparse gradients.

    `can_disable` is required for `disable_if_nonfinite`.
    """

    def __init__(
        self, modules: nn.Module, settings: TrainSettings, *, can_disable: bool = False
    ) -> None:
        dense, sparse = _groups(modules, settings)
        on_gpu = any(p.is_cuda for group in dense for p in group["params"])
        self.optimizers: list[torch.optim.Optimizer] = []
        if dense:
            fused = on_gpu or can_disable
            adamw = torch.optim.AdamW(dense, betas=(0.9, 0.999), eps=1e-8, fused=fused)
            self.optimizers.append(adamw)
        if sparse:
            self.optimizers.append(RowAdam(sparse, lr=settings.node_lr))
        self.max_grad_norm = settings.max_grad_norm
        self._disabled: Tensor | None = None
        self._rates = [[group["lr"] for group in one.param_groups] for one in self.optimizers]

    def step(self, factor: float) -> None:
        """One update with all learning rates multiplied by `factor`."""
        for optimizer, rates in zip(self.optimizers, self._rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        if self.max_grad_norm is not None and isinstance(self.optimizers[0], torch.optim.AdamW):
            dense = [p for group in self.optimizers[0].param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(dense, self.max_grad_norm)
        for optimizer in self.optimizers:
            optimizer.step()

    def disable_if_nonfinite(self, loss: Tensor) -> None:
        """After a NaN or infinite loss, make all further steps no-ops, without synchronization."""
        is_nonfinite = (loss.detach() * 0).ne(0).float()  # 0 * nan and 0 * inf are nan
        before = self._disabled
        self._disabled = is_nonfinite if before is None else before.maximum(is_nonfinite)
        for optimizer in self.optimizers:
            if isinstance(optimizer, RowAdam):
                optimizer.disabled = self._disabled
            else:
                optimizer.found_inf = self._disabled  # type: ignore[attr-defined]  # of fused AdamW

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(state)


def lr_schedule(settings: TrainSettings, total: int) -> Callable[[int], float]:
    """The factor of all learning rates at each of `total` steps: warmup, then decay."""
    warmup = max(1, round(settings.warmup_ratio * total)) if settings.warmup_ratio else 0

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = (step - warmup) / max(1, total - warmup)
        if settings.lr_schedule == "linear":
            return max(0.0, 1 - done)
        if settings.lr_schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        return 1.0

    return factor


def freeze_layers(encoder: TextEncoder, layers: int) -> None:
    """Freeze the embeddings and the first `layers` layers; nothing if `layers` is 0."""
    if layers:
        for module in (encoder.embeddings, *list(encoder.layers)[:layers]):
            module.requires_grad_(False)


def _groups(
    modules: nn.Module, settings: TrainSettings
) -> tuple[list[dict[str, Any]], list[nn.Parameter]]:
    """Parameter groups of AdamW, and the node tables with sparse gradients."""
    backbone = {id(p) for m in _submodules(modules, TextEncoder) for p in _pretrained(m)}
    tables = {id(m.table): m.sparse for m in _submodules(modules, NodeLookup)}
    undecayed = {id(p) for m in modules.modules() for p in _undecayed(m)}
    undecayed |= set() if settings.decay_nodes else tables.keys()
    sparse: list[nn.Parameter] = []
    grouped: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in modules.parameters():
        if not parameter.requires_grad:
            continue
        if tables.get(id(parameter)):
            sparse.append(parameter)
            continue
        rate = settings.lr if id(parameter) in backbone else settings.head_lr
        rate = settings.node_lr if id(parameter) in tables else rate
        decay = 0.0 if id(parameter) in undecayed else settings.weight_decay
        grouped.setdefault((rate, decay), []).append(parameter)
    dense = [
        {"params": params, "lr": rate, "weight_decay": decay}
        for (rate, decay), params in grouped.items()
    ]
    return dense, sparse


def _pretrained(encoder: nn.Module) -> Iterator[nn.Parameter]:
    """All parameters but those of LoRA adapters, which are untrained like heads."""
    return (p for name, p in encoder.named_parameters() if f".{LORA_PREFIX}" not in name)


def _undecayed(module: nn.Module) -> Iterator[nn.Parameter]:
    """Biases, norms and other vectors, which have no weight decay."""
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias") or parameter.dim() < 2 or isinstance(module, nn.LayerNorm):
            yield parameter


def _submodules(modules: nn.Module, kind: type[Any]) -> Iterator[Any]:
    return (module for module in modules.modules() if isinstance(module, kind))


class RowAdam(torch.optim.Optimizer):
    """Adam as in torch.optim.SparseAdam: rows without a gradient do not change.

    SparseAdam waits for the GPU to coalesce the gradient. Here every entry of the gradient computes
    the update of its row, and duplicate entries compute the same update. If `disabled` is positive,
    steps change nothing.

    Shapes: n entries of the gradient, K width of the table.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        self.disabled: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, table.grad, group)

    def _update(self, table: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[table]
        if not state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(table)}
            state["exp_avg_sq"] = torch.zeros_like(table)
        state["step"] += 1
        rows, sums = sum_rows(grad._indices()[0], grad._values())  # [n], [n, K]
        (beta1, beta2), lr = group["betas"], group["lr"]
        mean = state["exp_avg"][rows].lerp(sums, 1 - beta1)
        square = state["exp_avg_sq"][rows].lerp(sums.square(), 1 - beta2)
        size = lr * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        updated = table[rows] - size * mean / (square.sqrt() + group["eps"])
        for target, value in (
            (table, updated),
            (state["exp_avg"], mean),
            (state["exp_avg_sq"], square),
        ):
            if self.disabled is not None:
                value = torch.where(self.disabled > 0, target[rows], value)
            target[rows] = value  # duplicate entries write the same value


def sum_rows(rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Entries [n] and [n, K] sorted by row, each with the sum over all entries of its row."""
    if not rows.numel():
        return rows, values
    ordered, order = rows.sort(stable=True)
    is_first = torch.ones_like(ordered)
    is_first[1:] = (ordered[1:] != ordered[:-1]).long()
    index = is_first.cumsum(0) - 1  # [n], among the distinct rows
    lengths = torch.zeros_like(ordered).index_add_(0, index, torch.ones_like(index))
    sums = torch.segment_reduce(values[order], "sum", lengths=lengths, unsafe=True)
    return ordered, sums[index]


class EMA:
    """Moving average of all trainable parameters, with `decay` per step.

    The decay starts lower, so that the first steps do not dominate the average. Written by hand:
    torch.optim.swa_utils.AveragedModel copies frozen parameters and buffers too, cannot be swapped
    into the trained model, and would not resume checkpoints of earlier versions.
    """

    def __init__(self, modules: nn.Module, decay: float) -> None:
        self.parameters = [p for p in modules.parameters() if p.requires_grad]
        self.decay = decay
        self.updates = 0
        self.mean = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Include the current parameters, every `UPDATE_EVERY` steps."""
        if step % UPDATE_EVERY:
            return
        self.updates += 1
        decay = min(self.decay**UPDATE_EVERY, self.updates / (self.updates + 9))
        torch._foreach_lerp_(self.mean, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averaged weights in the modules within a `with` block, after the first update."""
        if not self.updates:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state_dict(self) -> dict[str, Tensor | int]:
        state: dict[str, Tensor | int] = {"updates": self.updates}
        return state | {str(index): mean for index, mean in enumerate(self.mean)}

    def load_state_dict(self, state: dict[str, Tensor | int]) -> None:
        if len(state) != len(self.mean) + 1:
            raise ValueError(f"{len(state) - 1} averaged parameters instead of {len(self.mean)}")
        self.updates = int(state["updates"])
        for index, mean in enumerate(self.mean):
            mean.copy_(torch.as_tensor(state[str(index)]))

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, mean in zip(self.parameters, self.mean, strict=True):
            current = parameter.detach().clone()
            parameter.copy_(mean)
            mean.copy_(current)
