"""What a trainer needs of the task that it trains."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from edgeformers.data.loader import EpochBatches, default_batch_size
from edgeformers.data.types import Ids
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import FittedLinkPredictor


class Objective(ABC):
    """What is trained: modules, batches, loss and validation metrics."""

    def __init__(self, fitted: FittedEdgeClassifier | FittedLinkPredictor) -> None:
        train = fitted.config.train
        self.fitted, self.device, self.autocast = fitted, fitted.device, fitted.options.autocast
        self.model, self.head = fitted.model, fitted.head
        self.loader, self.parts = fitted.network.loader, fitted.network.parts
        self.modules: nn.Module = nn.ModuleDict({"model": self.model, "head": self.head})
        self.read: Callable[[Any], Tensor] = self.model  # or a faster way to call it
        self.examples = self.parts["train"]  # to train on; a warm start takes fewer
        count = len(self.examples)
        self.batch_size = train.batch_size or default_batch_size(fitted.config.task, count)
        self.seed = train.seed
        self.select = fitted.select_metric  # the validation metric that selects the best epoch

    def batches(self, epoch: int) -> Sequence[Ids]:
        """The training examples of every batch of an epoch."""
        return EpochBatches(self.examples, self.batch_size, seed=self.seed, epoch=epoch)

    @abstractmethod
    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[Any]:
        """The batch of this process on the host, in pieces of at most `micro` examples."""

    @abstractmethod
    def backward(self, batches: list[list[Any]]) -> Tensor:
        """Add the gradients of the mean loss over the batches of an update, and return the loss.

        The mean over all processes is the actual loss and gradient. The loss stays on its device.
        """

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps next to the modules."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; empty for a checkpoint of an earlier version."""
        if state:
            raise ValueError(f"unexpected state of the objective: {', '.join(state)}")

    @abstractmethod
    def find_nonfinite(self, ids: Ids, epoch: int) -> Ids:
        """The examples that give NaN or infinity on their own."""

    @abstractmethod
    def evaluate(self, part: str) -> dict[str, float]:
        """All metrics on "val" or "test"."""
