"""Modules without memory, whose weights are assigned later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Create modules without allocating or initializing their weights.

    On the meta device, drawing initial weights would import torch's compiler, which takes as long
    as importing torch itself.
    """
    with torch.device("meta"), _NoInitialization():
        yield


class _NoInitialization(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        is_initialization = getattr(func, "__module__", None) == "torch.nn.init"
        if is_initialization or func in (torch.Tensor.normal_, torch.Tensor.uniform_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
