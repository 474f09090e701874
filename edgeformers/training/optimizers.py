"""Optimizers: a learning rate for the backbone, one for the node table, one for the rest."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from edgeformers.config import TrainSettings
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.nodes import NodeLookup
from edgeformers.training.row_adam import RowAdam

LORA = "lora_"  # begins what peft calls its parameters


class Optimizers:
    """AdamW for dense parameters and RowAdam for node tables with sparse gradients, as one.

    With `can_halt`, updates can be stopped on the device itself (`halt_unless_finite`).
    """

    def __init__(
        self, modules: nn.Module, settings: TrainSettings, *, can_halt: bool = False
    ) -> None:
        dense, sparse = _groups(modules, settings)
        on_gpu = any(p.is_cuda for group in dense for p in group["params"])
        self.parts: list[torch.optim.Optimizer] = []
        if dense:
            self.parts.append(_adamw(dense, fused=on_gpu or can_halt))
        if sparse:
            self.parts.append(RowAdam(sparse, lr=settings.node_lr))
        self.clip = settings.max_grad_norm
        self._halted: Tensor | None = None
        self._base = [[group["lr"] for group in part.param_groups] for part in self.parts]

    def step(self, factor: float) -> None:
        """One update with every learning rate times `factor`."""
        for part, rates in zip(self.parts, self._base, strict=True):
            for group, rate in zip(part.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        if self.clip is not None and isinstance(self.parts[0], torch.optim.AdamW):
            dense = [p for group in self.parts[0].param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(dense, self.clip)
        for part in self.parts:
            part.step()

    def halt_unless_finite(self, loss: Tensor) -> None:
        """Once a loss is no number, change no parameter any more; nobody waits to find out."""
        is_broken = (loss.detach() * 0).ne(0).float()  # 0 times nan or inf is nan
        self._halted = is_broken if self._halted is None else self._halted.maximum(is_broken)
        for part in self.parts:
            if isinstance(part, RowAdam):
                part.halted = self._halted
            else:
                part.found_inf = self._halted  # type: ignore[attr-defined]  # fused AdamW reads it

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def _adamw(groups: list[dict[str, Any]], *, fused: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8, fused=fused)


def schedule(settings: TrainSettings, total: int) -> Callable[[int], float]:
    """Step -> the factor of all learning rates: warm-up, then decay to zero or none."""
    warm = max(1, round(settings.warmup_ratio * total)) if settings.warmup_ratio else 0

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        done = (step - warm) / max(1, total - warm)
        if settings.lr_schedule == "linear":
            return max(0.0, 1 - done)
        if settings.lr_schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        return 1.0

    return factor


def freeze_layers(encoder: TextEncoder, layers: int) -> None:
    """Keep the embeddings and the first layers as they are; none when `layers` is 0."""
    if layers:
        for module in (encoder.embeddings, *list(encoder.layers)[:layers]):
            module.requires_grad_(False)


def _groups(
    modules: nn.Module, settings: TrainSettings
) -> tuple[list[dict[str, Any]], list[nn.Parameter]]:
    backbone = {id(p) for m in _of(modules, TextEncoder) for p in _pretrained(m)}
    tables = {id(m.table): m.sparse for m in _of(modules, NodeLookup)}
    plain = {id(p) for m in modules.modules() for p in _undecayed(m)}
    plain |= set() if settings.decay_nodes else tables.keys()
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
        decay = 0.0 if id(parameter) in plain else settings.weight_decay
        grouped.setdefault((rate, decay), []).append(parameter)
    dense = [
        {"params": params, "lr": rate, "weight_decay": decay}
        for (rate, decay), params in grouped.items()
    ]
    return dense, sparse


def _pretrained(encoder: nn.Module) -> Iterator[nn.Parameter]:
    """The parameters an encoder came with: low-rank changes start from nothing, as heads do."""
    return (p for name, p in encoder.named_parameters() if f".{LORA}" not in name)


def _undecayed(module: nn.Module) -> Iterator[nn.Parameter]:
    """Biases, norms and other vectors are not decayed."""
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias") or parameter.dim() < 2 or isinstance(module, nn.LayerNorm):
            yield parameter


def _of(modules: nn.Module, kind: type[Any]) -> Iterator[Any]:
    return (module for module in modules.modules() if isinstance(module, kind))
