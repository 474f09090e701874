"""The training loop: one readable pass over updates that can stop anywhere and go on exactly."""

import math
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from edgeformers import distributed
from edgeformers.config import TrainSettings
from edgeformers.data.loader import Prefetch
from edgeformers.data.types import Ids
from edgeformers.errors import EdgeformersError, FormatError
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.progress import print_message, progress_bar
from edgeformers.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from edgeformers.training.deferred_losses import LATE, LateLosses, Update
from edgeformers.training.ema import WeightAverage
from edgeformers.training.optimizers import Optimizers, schedule
from edgeformers.training.runlog import RunLog
from edgeformers.training.speed import faster_training

CHECKPOINT_SECONDS = 30.0  # between two checkpoints, unless they are counted in updates
LOOK_EVERY = 50  # updates between two looks at the clock
SHOW_SECONDS = 0.1  # between two losses beside the bar, which is not drawn more often


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
        """What this process has of a batch, on the host, in pieces of at most `micro` examples."""
        ...

    def backward(self, batches: list[list[Any]]) -> Tensor:
        """Add the gradients of the mean loss over the batches of an update; gives the loss.

        Both are shares of this process: the mean over all processes is what counts. The loss
        stays where it was computed, so that nobody has to wait for it.
        """
        ...

    def find_nonfinite(self, ids: Ids, epoch: int) -> Ids:
        """Those of the examples that do not give finite numbers, looked at one by one."""
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

    One process with a GPU reads losses some steps late (`lag`), so that it never waits for the
    GPU; the optimizers halt on the GPU itself where a loss is no number.
    """

    def __init__(
        self,
        objective: Objective,
        settings: TrainSettings,
        *,
        device: torch.device,
        folder: Path | None = None,
        show: bool = True,
        lag: int | None = None,
    ) -> None:
        self.objective = objective
        self.settings = settings
        self.device = device
        self.folder = folder
        self.show = show and distributed.is_main()
        usual = LATE if device.type == "cuda" else 0
        # Several processes agree on each loss, and so wait for it.
        alone = distributed.world_size() == 1
        self.losses = LateLosses((usual if lag is None else lag) if alone else 0)
        self.optimizers = Optimizers(objective.modules, settings, can_halt=self.losses.lag > 0)
        decay = settings.ema_decay
        self.average = WeightAverage(objective.modules, decay) if decay else None
        self.progress = Progress(micro=settings.micro_batch_size)
        self.best_state: dict[str, Tensor] = {}
        self._saved_at = time.perf_counter()
        self._shown_at = -math.inf
        self.per_epoch = math.ceil(len(objective.batches(0)) / settings.gradient_accumulation)

    def fit(self) -> Progress:
        """Train to the end, or from where an earlier run of this folder stopped."""
        self._resume()
        at = self.progress
        log = RunLog(self.folder if distributed.is_main() else None, resume_step=at.step)
        factor = schedule(self.settings, self.per_epoch * self.settings.epochs)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), closing(log), self._bar() as bar, self._faster():
            while not at.finished:
                self._train_epoch(log, factor, bar)
                self._end_epoch(log)
        if self.best_state:
            self.objective.modules.load_state_dict(self.best_state)
        return at

    def _faster(self) -> AbstractContextManager[None]:
        steps = self.per_epoch * self.settings.epochs
        return faster_training(
            self.objective, self.settings.cuda_graphs, device=self.device, steps=steps
        )

    def _bar(self) -> Any:
        total = self.per_epoch * self.settings.epochs
        return progress_bar(total, self.progress.step, show=self.show, desc="training")

    def _train_epoch(self, log: RunLog, factor: Callable[[int], float], bar: Any) -> None:
        at = self.progress
        self.objective.modules.train()
        started, seen = time.perf_counter(), 0
        with closing(self._updates(at.epoch, at.update)) as updates:
            for group, batches in updates:
                loss = self._update(group, batches, factor(at.step), log)
                at.step += 1
                at.update += 1
                self.losses.put(Update(at.step, at.epoch, group), loss)
                if self.average is not None:
                    self.average.update(at.step)
                seen += sum(map(len, group))
                bar.update(1)
                self._read_losses(log, bar)
                if at.update < self.per_epoch and self._is_due():  # else the epoch's end looks
                    self._read_losses(log, bar, everything=True)
                    self._save(log)
        self._read_losses(log, bar, everything=True)
        seconds = time.perf_counter() - started
        rate = seen / max(seconds, 1e-9)
        log.write("speed", at.step, examples_per_second=rate, seconds=seconds)

    def _read_losses(self, log: RunLog, bar: Any, *, everything: bool = False) -> None:
        for update, loss in self.losses.take(everything=everything):
            if not math.isfinite(loss):
                self._refuse_loss(loss, update)
            log.write("train", update.step, loss=loss, epoch=update.epoch)
            if time.perf_counter() - self._shown_at >= SHOW_SECONDS:
                self._shown_at = time.perf_counter()
                bar.set_postfix(epoch=update.epoch + 1, loss=f"{loss:.4f}", refresh=False)

    def _updates(self, epoch: int, start: int) -> Generator[tuple[list[Ids], list[list[Any]]]]:
        """Updates of an epoch from the `start`-th on: the examples of their batches, and these."""
        size, batches = self.settings.gradient_accumulation, self.objective.batches(epoch)
        groups = [batches[at : at + size] for at in range(0, len(batches), size)][start:]
        flat = [ids for group in groups for ids in group]
        with closing(iter(Prefetch(lambda ids: self._make(ids, epoch), flat))) as made:
            for group in groups:
                yield group, [next(made) for _ in group]

    def _make(self, ids: Ids, epoch: int) -> list[Any]:
        pieces = self.objective.make(ids, epoch, self.progress.micro)
        return [p.pin_memory() for p in pieces] if self.device.type == "cuda" else pieces

    def _update(
        self, group: list[Ids], batches: list[list[Any]], factor: float, log: RunLog
    ) -> Tensor:
        """One step of the optimizer; when memory ends, again with half the examples at once."""
        loss = None
        while loss is None:
            if _largest(batches) > (self.progress.micro or math.inf):  # made before memory ended
                batches = [self._make(ids, self.progress.epoch) for ids in group]
            loss = self._gradients(batches)
            if loss is None:
                self._halve(_largest(batches), log)
        if self.losses.lag:
            self.optimizers.halt_unless_finite(loss)
        elif not loss.isfinite():
            at = self.progress
            self._refuse_loss(float(loss), Update(at.step + 1, at.epoch, group))
        distributed.average_gradients(self.objective.modules)
        self.optimizers.step(factor)
        return loss

    def _gradients(self, batches: list[list[Any]]) -> Tensor | None:
        """The loss of an update, its gradients left at the parameters; None: memory ended."""
        self.optimizers.zero_grad()
        torch.manual_seed(distributed.step_seed(self.settings.seed, self.progress.step))
        try:
            loss = self.objective.backward(batches)
            if distributed.world_size() == 1:
                return loss
            return torch.tensor(distributed.all_mean(float(loss)))
        except torch.OutOfMemoryError as error:
            if distributed.world_size() > 1:  # the others wait for this one in the midst of it
                raise TrainingError(
                    f"out of memory with {_largest(batches)} examples at once in one of "
                    f"{distributed.world_size()} processes; lower train.micro_batch_size"
                ) from error
        return None

    def _halve(self, examples: int, log: RunLog) -> None:
        if examples <= 1:
            raise TrainingError(
                "out of memory with a single example; lower data.max_tokens or "
                "data.source_neighbors and data.target_neighbors, or set "
                "train.gradient_checkpointing=true"
            )
        self.progress.micro = math.ceil(examples / 2)
        self.optimizers.zero_grad()
        torch.cuda.empty_cache()
        step = self.progress.step + 1
        log.write("memory", step, micro_batch=self.progress.micro)
        print_message(
            f"out of memory with {examples} examples at once at step {step}; going on with half. "
            f"To begin so: train.micro_batch_size={self.progress.micro}",
            show=self.show,
        )

    def _refuse_loss(self, loss: float, at: Update) -> None:
        ids = np.concatenate(at.group)
        found = np.concatenate([self.objective.find_nonfinite(ids, at.epoch) for ids in at.group])
        which = "of edges" if len(found) else "though each edge is finite alone, among edges"
        named = found if len(found) else ids
        some = ", ".join(map(str, named[:8].tolist())) + (", ..." if len(named) > 8 else "")
        raise TrainingError(
            f"the loss became {loss} at step {at.step} (epoch {at.epoch + 1}), {which} {some}; "
            "lower train.lr and train.node_lr, or look at these edges"
        )

    def _end_epoch(self, log: RunLog) -> None:
        """Validate, remember the best, stop when it is no longer getting better."""
        self.objective.modules.eval()
        with nullcontext() if self.average is None else self.average.swapped():
            self._validate(log)
        at = self.progress
        at.epoch, at.update = at.epoch + 1, 0
        patience = self.settings.patience
        tired = patience is not None and at.worse >= patience
        at.finished = tired or at.epoch >= self.settings.epochs
        if at.finished or self.settings.checkpoint_every is not None or self._is_late():
            self._save(log)

    def _validate(self, log: RunLog) -> None:
        at = self.progress
        metrics = distributed.broadcast(self.objective.evaluate("val"))
        if self.objective.select not in metrics:
            raise TrainingError(
                f"there is no validation metric '{self.objective.select}' to select by; "
                f"available: {', '.join(metrics)}"
            )
        score = metrics[self.objective.select]
        score = -score if self.objective.select in SMALLER_IS_BETTER else score
        log.write("val", at.step, epoch=at.epoch, **metrics)
        at.history.append({"epoch": at.epoch, **metrics})
        if score > at.best:
            at.best, at.best_epoch, at.worse = score, at.epoch, 0
            state = self.objective.modules.state_dict()
            self.best_state = {name: value.detach().cpu().clone() for name, value in state.items()}
        else:
            at.worse += 1

    def _is_due(self) -> bool:
        """Whether a checkpoint is to be written amid an epoch."""
        every = self.settings.checkpoint_every
        if every is not None:
            return self.progress.step % every == 0
        return self.progress.step % LOOK_EVERY == 0 and self._is_late()

    def _is_late(self) -> bool:
        """Whether the last checkpoint is old, by the clock of the first process."""
        age = time.perf_counter() - self._saved_at
        return bool(distributed.broadcast(age >= CHECKPOINT_SECONDS))

    def _save(self, log: RunLog) -> None:
        log.flush()  # what is before the checkpoint will not come again
        self._saved_at = time.perf_counter()
        if self.folder is None:
            return
        folder, keep = self.folder / "checkpoints", self.settings.keep_checkpoints
        state = {
            "progress": asdict(self.progress),
            "modules": self.objective.modules.state_dict(),
            "best": self.best_state,
            "optimizers": self.optimizers.state_dict(),
            "average": {} if self.average is None else self.average.state_dict(),
        }
        step = self.progress.step
        distributed.run_on_main(lambda: save_checkpoint(folder, step, state, keep=keep))

    def _resume(self) -> None:
        path = None if self.folder is None else latest_checkpoint(self.folder / "checkpoints")
        if path is None:
            return
        state = load_checkpoint(path)
        try:
            self.objective.modules.load_state_dict(state["modules"])
            self.optimizers.load_state_dict(state["optimizers"])
            if self.average is not None:
                self.average.load_state_dict(state["average"])
            self.progress = Progress(**state["progress"])
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            why = str(error).strip().splitlines()[-1].strip()
            raise FormatError(
                f"the checkpoint {path} does not fit this run ({why}); its settings or network "
                "differ. Choose another run folder"
            ) from error
        self.best_state = state["best"]


def _largest(batches: list[list[Any]]) -> int:
    return max((len(piece) for pieces in batches for piece in pieces), default=0)
