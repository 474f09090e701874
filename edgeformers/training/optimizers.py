"""Optimizers with separate learning rates for the backbone, the node table and the rest."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from edgeformers.config import TrainSettings
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.nodes import NodeLookup
from edgeformers.training.row_adam import RowAdam

LORA_PREFIX = "lora_"  # of the parameter names of peft


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
