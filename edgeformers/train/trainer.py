"""The training loop: one readable pass over updates that can stop anywhere and go on exactly."""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from edgeformers.config import TrainSettings
from edgeformers.data.loader import Ids, Prefetch
from edgeformers.data.random import hash_keys
from edgeformers.errors import EdgeformersError, FormatError
from edgeformers.train import distributed
from edgeformers.train.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from edgeformers.train.optim import Optimizers, schedule
from edgeformers.train.runlog import RunLog, progress


class TrainingError(EdgeformersError):
    """Training cannot go on; the message says at which step and what would do."""


class Objective(Protocol):
    """What is trained: where batches come from, the loss, and how well it does."""

    modules: nn.Module  # everything that has parameters
    select: str  # the validation metric that says which epoch is best

    def batches(self, epoch: int) -> list[Ids]:
        """The examples of every batch of an epoch, in order."""
        ...

    def make(self, ids: Ids, epoch: int, micro: int | None) -> list[Any]:
        """The batch on the host, cut into pieces of at most `micro` examples."""
        ...

    def backward(self, pieces: list[Any], share: float) -> float:
        """Add the gradients of the pieces' mean loss times `share`; gives the loss."""
        ...

    def evaluate(self, part: str) -> dict[str, float]:
        """All metrics on "val" or "test"."""
        ...


@dataclass
class Progress:
    """Where a run stands; what a checkpoint needs beside tensors."""

    epoch: int = 0
    update: int = 0  # within the epoch
    step: int = 0  # over all epochs
    best: float = -math.inf
    best_epoch: int = -1
    worse: int = 0  # epochs since the best
    micro: int | None = None
    finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


class Trainer:
    """Fits an objective; with a folder it checkpoints there and resumes from there.

    What is random depends on (seed, step) alone, so a run that is killed and resumed equals one
    that was not. Validation after each epoch selects the parameters that are kept.
    """

    def __init__(
        self,
        objective: Objective,
        settings: TrainSettings,
        *,
        device: torch.device,
        folder: Path | None = None,
        show: bool = True,
    ) -> None:
        self.objective = objective
        self.settings = settings
        self.device = device
        self.folder = folder
        self.show = show and distributed.is_main()
        self.optimizers = Optimizers(objective.modules, settings)
        self.progress = Progress(micro=settings.micro_batch)
        self.best_state: dict[str, Tensor] = {}

    def fit(self) -> Progress:
        """Train to the end, or from where an earlier run of this folder stopped."""
        self._resume()
        at = self.progress
        log = RunLog(self.folder if distributed.is_main() else None, resume_step=at.step)
        per_epoch = math.ceil(len(self.objective.batches(0)) / self.settings.accumulate)
        total = per_epoch * self.settings.epochs
        factor = schedule(self.settings, total)
        devices = [self.device] if self.device.type == "cuda" else []
        with (
            torch.random.fork_rng(devices),
            progress(total, at.step, show=self.show, desc="training") as bar,
        ):
            while not at.finished:
                self._train_epoch(log, factor, bar)
                self._end_epoch(log)
        log.close()
        if self.best_state:
            self.objective.modules.load_state_dict(self.best_state)
        return at

    def _train_epoch(self, log: RunLog, factor: Any, bar: Any) -> None:
        at, every = self.progress, self.settings.checkpoint_every
        self.objective.modules.train()
        started, seen = time.perf_counter(), 0
        for group, pieces in self._updates(at.epoch, at.update):
            torch.manual_seed(int(hash_keys(self.settings.seed, 0x57E9, at.step)) >> 1)
            loss = self._update(group, pieces, factor(at.step))
            at.step += 1
            at.update += 1
            seen += sum(map(len, group))
            bar.update(1)
            bar.set_postfix(epoch=at.epoch + 1, loss=f"{loss:.4f}", refresh=False)
            log.write("train", at.step, loss=loss, epoch=at.epoch)
            if at.step % every == 0:
                self._save()
        seconds = time.perf_counter() - started
        log.write("speed", at.step, examples_per_second=seen / max(seconds, 1e-9))

    def _updates(self, epoch: int, start: int) -> Iterator[tuple[list[Ids], list[list[Any]]]]:
        """Updates of an epoch from the `start`-th on: the examples of their batches, and these."""
        size = self.settings.accumulate
        batches = [distributed.shard(ids) for ids in self.objective.batches(epoch)]
        groups = [batches[at : at + size] for at in range(0, len(batches), size)][start:]
        flat = [ids for group in groups for ids in group]
        made = iter(Prefetch(lambda ids: self._make(ids, epoch), flat))
        for group in groups:
            yield group, [next(made) for _ in group]

    def _make(self, ids: Ids, epoch: int) -> list[Any]:
        pieces = self.objective.make(ids, epoch, self.progress.micro)
        return [p.pin_memory() for p in pieces] if self.device.type == "cuda" else pieces

    def _update(self, group: list[Ids], batches: list[list[Any]], factor: float) -> float:
        """One step of the optimizer; when memory ends, again with half the examples at once."""
        while True:
            try:
                self.optimizers.zero_grad()
                share = 1 / len(batches)
                loss = sum(self.objective.backward(pieces, share) for pieces in batches) * share
                break
            except torch.OutOfMemoryError as error:
                self._halve(max(map(len, group)), error)
                batches = [self._make(ids, self.progress.epoch) for ids in group]
        if not math.isfinite(loss):
            first = ", ".join(map(str, group[0][:8].tolist()))
            raise TrainingError(
                f"the loss became {loss} at step {self.progress.step + 1} (epoch "
                f"{self.progress.epoch + 1}, edges {first}, ...); lower train.lr and "
                "train.node_lr, or look at these edges"
            )
        distributed.average_gradients(self.objective.modules)
        self.optimizers.step(factor)
        return loss

    def _halve(self, examples: int, error: Exception) -> None:
        now = min(self.progress.micro or examples, examples)
        if now == 1:
            raise TrainingError(
                "out of memory with a single example; lower data.max_tokens or "
                "data.source_neighbors and data.target_neighbors, or set "
                "train.gradient_checkpointing=true"
            ) from error
        self.progress.micro = math.ceil(now / 2)
        self.optimizers.zero_grad()
        torch.cuda.empty_cache()

    def _end_epoch(self, log: RunLog) -> None:
        """Validate, remember the best, stop when it is no longer getting better."""
        at = self.progress
        self.objective.modules.eval()
        metrics = self.objective.evaluate("val")
        if self.objective.select not in metrics:
            raise TrainingError(
                f"there is no validation metric '{self.objective.select}' to select by; "
                f"there is: {', '.join(metrics)}"
            )
        score = metrics[self.objective.select]
        log.write("val", at.step, epoch=at.epoch, **metrics)
        at.history.append({"epoch": at.epoch, **metrics})
        if score > at.best:
            at.best, at.best_epoch, at.worse = score, at.epoch, 0
            state = self.objective.modules.state_dict()
            self.best_state = {name: value.detach().cpu().clone() for name, value in state.items()}
        else:
            at.worse += 1
        at.epoch, at.update = at.epoch + 1, 0
        patience = self.settings.patience
        tired = patience is not None and at.worse >= patience
        at.finished = tired or at.epoch >= self.settings.epochs
        self._save()

    def _save(self) -> None:
        if self.folder is not None and distributed.is_main():
            state = {
                "progress": asdict(self.progress),
                "modules": self.objective.modules.state_dict(),
                "best": self.best_state,
                "optimizers": self.optimizers.state_dict(),
            }
            keep = self.settings.keep_checkpoints
            save_checkpoint(self.folder / "checkpoints", self.progress.step, state, keep=keep)
        distributed.barrier()

    def _resume(self) -> None:
        path = None if self.folder is None else latest_checkpoint(self.folder / "checkpoints")
        if path is None:
            return
        state = load_checkpoint(path)
        try:
            self.objective.modules.load_state_dict(state["modules"])
            self.optimizers.load_state_dict(state["optimizers"])
            self.progress = Progress(**state["progress"])
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"the checkpoint {path} does not fit this run ({error}); its settings or network "
                "differ. Choose another run folder"
            ) from error
        self.best_state = state["best"]
