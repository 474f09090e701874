"""The training loop: updates, validation, checkpoints, and exact resumption."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgeformers import distributed
from edgeformers.aliases import current_training_state
from edgeformers.config import TrainSettings
from edgeformers.data.batch import tensors_of
from edgeformers.data.prefetch import prefetch
from edgeformers.data.types import Ids
from edgeformers.errors import EdgeformersError, FormatError
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.progress import print_message, progress_bar
from edgeformers.sharded_nodes import find_sharded, gather_state, row_tensor_names, rows_of
from edgeformers.threads import one_thread
from edgeformers.training.callbacks import Callback
from edgeformers.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from edgeformers.training.cuda_graphs import use_cuda_graphs
from edgeformers.training.deferred_losses import DeferredLosses, Update
from edgeformers.training.delayed_signals import DelayedSignals, Interrupted
from edgeformers.training.objective import Objective
from edgeformers.training.optimizers import EMA, ROW_MOMENTS, Optimizers, lr_schedule
from edgeformers.training.runlog import RunLog

GPU_DELAY = 8  # steps between a loss and its reading, so that the host does not wait
CHECKPOINT_SECONDS = 30.0  # between checkpoints, unless train.checkpoint_every is set
CLOCK_EVERY = 50  # updates between checks of the time since the last checkpoint
SMALL_STEP = 1 << 15  # hidden values per forward pass below which one thread is as fast as two
POSTFIX_SECONDS = 0.1  # between losses shown in the progress bar


class TrainingError(EdgeformersError):
    """Training cannot continue; the message names the step and the remedy."""


@dataclass
class TrainingState:
    """The position and history of a run; saved in checkpoints with the tensors."""

    epoch: int = 0
    update: int = 0  # within the epoch
    step: int = 0  # over all epochs
    best_score: float = -math.inf
    best_epoch: int = -1
    bad_epochs: int = 0  # since the best epoch
    micro_batch_size: int | None = None
    finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


class Trainer:
    """Trains an objective; with a folder, it writes checkpoints and resumes from them.

    Randomness depends only on the seed and the step, so a killed and resumed run gives the same
    result as an uninterrupted one. The parameters of the epoch with the best validation score
    are kept. Ctrl-C and SIGTERM stop a run with a folder after a checkpoint at the current step.

    A single process with a GPU reads losses `loss_delay` steps late, so that it never waits for the
    GPU; the optimizers disable themselves on the GPU after a NaN or infinite loss.
    """

    def __init__(
        self,
        objective: Objective,
        settings: TrainSettings,
        *,
        device: torch.device,
        folder: Path | None = None,
        show: bool = True,
        loss_delay: int | None = None,
        estimated_seconds: float | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.objective = objective
        self.settings = settings
        self.device = device
        self.folder = folder
        self.show = show and distributed.is_main()
        self.estimated_seconds = estimated_seconds  # for the log
        self.callbacks = callbacks if distributed.is_main() else ()
        if loss_delay is None:
            loss_delay = GPU_DELAY if device.type == "cuda" else 0
        # Several processes average each loss, and so wait for it anyway.
        self.losses = DeferredLosses(loss_delay if distributed.world_size() == 1 else 0)
        self.optimizers = Optimizers(objective.modules, settings, can_disable=self.losses.delay > 0)
        decay = settings.ema_decay
        self.ema = EMA(objective.modules, decay) if decay else None
        self.state = TrainingState(micro_batch_size=settings.micro_batch_size)
        self.best_modules: dict[str, Tensor] = {}
        can_stop = folder is not None and distributed.world_size() == 1
        self.signals = DelayedSignals(active=can_stop)
        self._saved_at = time.perf_counter()
        self._postfix_at = -math.inf
        batches = len(objective.batches(0))
        self.per_epoch = math.ceil(batches / settings.gradient_accumulation)
        self.num_steps = self.per_epoch * settings.epochs

    def fit(self) -> TrainingState:
        """Train to the end, resuming an earlier run in the same folder."""
        self._resume()
        state = self.state
        folder = self.folder if distributed.is_main() else None
        log = RunLog(folder, resume_step=state.step, callbacks=self.callbacks)
        for callback in self.callbacks:
            callback.on_start(self.objective.fitted.config.to_dict(), folder, state.step)
        if self.estimated_seconds is not None and not state.step:
            log.write("estimate", 0, seconds=self.estimated_seconds)
        factor = lr_schedule(self.settings, self.num_steps)
        bar = progress_bar(
            self.num_steps, done=state.step, desc="training", unit="steps", show=self.show
        )
        devices = [self.device] if self.device.type == "cuda" else []
        graphs = use_cuda_graphs(
            self.objective, self.settings.cuda_graphs, device=self.device, steps=self.num_steps
        )
        with torch.random.fork_rng(devices), closing(log), bar, graphs, self.signals:
            try:
                while not state.finished:
                    self._train_epoch(log, factor, bar)
                    self._end_epoch(log)
            except Interrupted:
                self._save(log)
        self.signals.deliver()
        if self.best_modules:
            self.objective.modules.load_state_dict(self.best_modules)
        return state

    def _train_epoch(self, log: RunLog, factor: Callable[[int], float], bar: Any) -> None:
        state = self.state
        self.objective.modules.train()
        started, examples = time.perf_counter(), 0
        with closing(self._updates(state.epoch, state.update)) as updates:
            for ids, batches in updates:
                loss = self._update(ids, batches, factor(state.step), log)
                state.step += 1
                state.update += 1
                self.losses.add(Update(state.step, state.epoch, ids), loss)
                if self.ema is not None:
                    self.ema.update(state.step)
                examples += sum(map(len, ids))
                bar.update(1)
                self._read_losses(log, bar)
                if self.signals.pending is not None:
                    self._read_losses(log, bar, drain=True)
                    raise Interrupted
                if state.update < self.per_epoch and self._is_checkpoint_due():
                    self._read_losses(log, bar, drain=True)
                    self._save(log)
        self._read_losses(log, bar, drain=True)
        seconds = time.perf_counter() - started
        rate = examples / max(seconds, 1e-9)
        if examples:  # none, if the run was interrupted before its validation
            log.write("speed", state.step, examples_per_second=rate, seconds=seconds)

    def _read_losses(self, log: RunLog, bar: Any, *, drain: bool = False) -> None:
        for update, loss in self.losses.read(drain=drain):
            if not math.isfinite(loss):
                self._raise_nonfinite(loss, update)
            log.write("train", update.step, loss=loss, epoch=update.epoch)
            if time.perf_counter() - self._postfix_at >= POSTFIX_SECONDS:
                self._postfix_at = time.perf_counter()
                bar.set_postfix(epoch=update.epoch + 1, loss=f"{loss:.4f}", refresh=False)

    def _updates(self, epoch: int, start: int) -> Generator[tuple[list[Ids], list[list[Any]]]]:
        """The updates of an epoch from number `start` on: examples and batches."""
        size, batches = self.settings.gradient_accumulation, self.objective.batches(epoch)

        def make(number: int) -> tuple[Ids, list[Any]]:
            return batches[number], self._make(batches[number], epoch)

        numbers = range(start * size, len(batches))
        with closing(prefetch(make, numbers)) as prefetched:
            while group := list(islice(prefetched, size)):
                yield [ids for ids, _ in group], [made for _, made in group]

    def _make(self, ids: Ids, epoch: int) -> list[Any]:
        pieces = self.objective.make(ids, epoch, self.state.micro_batch_size)
        return [p.pin_memory() for p in pieces] if self.device.type == "cuda" else pieces

    def _update(
        self, ids: list[Ids], batches: list[list[Any]], factor: float, log: RunLog
    ) -> Tensor:
        """One optimizer step; when out of memory, repeat it with half the micro-batch size."""
        loss, state = None, self.state
        while loss is None:
            if _largest(batches) > (state.micro_batch_size or math.inf):  # made before halving
                batches = [self._make(batch, state.epoch) for batch in ids]
            loss = self._gradients(batches)
            if loss is None:
                self._halve_micro_batch(_largest(batches), log)
        if self.losses.delay:
            self.optimizers.disable_if_nonfinite(loss)
        elif not loss.isfinite():
            self._raise_nonfinite(float(loss), Update(state.step + 1, state.epoch, ids))
        distributed.average_gradients(self.objective.modules)
        self.optimizers.step(factor)
        return loss

    def _gradients(self, batches: list[list[Any]]) -> Tensor | None:
        """Compute the gradients of an update and return its loss; None when out of memory."""
        self.optimizers.zero_grad()
        torch.manual_seed(distributed.step_seed(self.settings.seed, self.state.step))
        try:
            pieces = [piece for batch in batches for piece in batch]
            with self._threads(batches), rows_of(self.objective.modules, pieces):
                loss = self.objective.backward(batches)
            if distributed.world_size() == 1:
                return loss
            return torch.tensor(distributed.all_mean(float(loss)))
        except torch.OutOfMemoryError as error:
            if distributed.world_size() > 1:  # the other processes cannot repeat the update
                raise TrainingError(
                    f"out of memory with {_largest(batches)} examples per forward pass in one of "
                    f"{distributed.world_size()} processes; lower train.micro_batch_size"
                ) from error
        return None

    @contextmanager
    def _threads(self, batches: list[list[Any]]) -> Iterator[None]:
        """Use a single thread on a CPU if more would spend their time waiting for each other."""
        if self.device.type != "cpu":
            yield
            return
        rows = (t.size(0) for b in batches for piece in b for t in tensors_of(piece))
        is_small = max(rows, default=0) * self.objective.fitted.width < SMALL_STEP
        with one_thread() if is_small else nullcontext():
            yield

    def _halve_micro_batch(self, examples: int, log: RunLog) -> None:
        if examples <= 1:
            raise TrainingError(
                "out of memory with a single example; lower data.max_tokens or "
                "data.source_neighbors and data.target_neighbors, or set "
                "train.gradient_checkpointing=true"
            )
        size, step = math.ceil(examples / 2), self.state.step + 1
        self.state.micro_batch_size = size
        self.optimizers.zero_grad()
        torch.cuda.empty_cache()
        log.write("memory", step, micro_batch=size)
        print_message(
            f"out of memory with {examples} examples per forward pass at step {step}; continuing "
            f"with train.micro_batch_size={size}",
            show=self.show,
        )

    def _raise_nonfinite(self, loss: float, update: Update) -> None:
        """Raise an error that names the examples with a non-finite loss."""
        ids = np.concatenate(update.batches)
        found = [self.objective.find_nonfinite(batch, update.epoch) for batch in update.batches]
        nonfinite = np.concatenate(found)
        named = nonfinite if len(nonfinite) else ids
        shown = ", ".join(map(str, named[:8].tolist())) + (", ..." if len(named) > 8 else "")
        cause = "caused by edges" if len(nonfinite) else "each edge alone is finite; batch of edges"
        raise TrainingError(
            f"the loss became {loss} at step {update.step} (epoch {update.epoch + 1}), {cause} "
            f"{shown}; lower train.lr and train.node_lr, or inspect these edges"
        )

    def _end_epoch(self, log: RunLog) -> None:
        """Validate, keep the best parameters, and stop early after `patience` epochs."""
        self.objective.modules.eval()
        with nullcontext() if self.ema is None else self.ema.applied():
            self._validate(log)
        state, settings = self.state, self.settings
        state.epoch, state.update = state.epoch + 1, 0
        stops_early = settings.patience is not None and state.bad_epochs >= settings.patience
        state.finished = stops_early or state.epoch >= settings.epochs
        if state.finished or settings.checkpoint_every is not None or self._is_checkpoint_old():
            self._save(log)

    def _validate(self, log: RunLog) -> None:
        state, select = self.state, self.objective.select
        with self.signals.raising():
            metrics = distributed.broadcast(self.objective.evaluate("val"))
        if select not in metrics:
            raise TrainingError(
                f"unknown validation metric '{select}' in train.select_metric; "
                f"available: {', '.join(metrics)}"
            )
        score = -metrics[select] if select in SMALLER_IS_BETTER else metrics[select]
        log.write("val", state.step, epoch=state.epoch, **metrics)
        state.history.append({"epoch": state.epoch, **metrics})
        if score > state.best_score:
            state.best_score, state.best_epoch, state.bad_epochs = score, state.epoch, 0
            modules = self.objective.modules.state_dict()
            self.best_modules = {name: v.detach().cpu().clone() for name, v in modules.items()}
        else:
            state.bad_epochs += 1

    def _is_checkpoint_due(self) -> bool:
        """Whether to write a checkpoint within an epoch."""
        every = self.settings.checkpoint_every
        if every is not None:
            return self.state.step % every == 0
        return self.state.step % CLOCK_EVERY == 0 and self._is_checkpoint_old()

    def _is_checkpoint_old(self) -> bool:
        """Whether the last checkpoint is too old, according to the main process."""
        age = time.perf_counter() - self._saved_at
        return bool(distributed.broadcast(age >= CHECKPOINT_SECONDS))

    def _save(self, log: RunLog) -> None:
        log.flush()  # a resumed run does not repeat these events
        self._saved_at = time.perf_counter()
        if self.folder is None:
            return
        folder, keep = self.folder / "checkpoints", self.settings.keep_checkpoints
        values = {
            "progress": asdict(self.state),
            "modules": self.objective.modules.state_dict(),
            "objective": self.objective.state_dict(),
            "best": self.best_modules,
            "optimizers": self.optimizers.state_dict(),
            "average": {} if self.ema is None else self.ema.state_dict(),
        }
        step, rows = self.state.step, self._row_names()
        if rows:
            distributed.run_on_main(lambda: folder.mkdir(parents=True, exist_ok=True))
            values = gather_state(values, rows, folder)
        distributed.run_on_main(lambda: save_checkpoint(folder, step, values, keep=keep))

    def _row_names(self) -> dict[str, int]:
        """The tensors of sharded node tables in a checkpoint, and their numbers of rows."""
        names = row_tensor_names(self.objective.modules)
        rows = {f"/{part}/{name}": n for part in ("modules", "best") for name, n in names.items()}
        for lookup in find_sharded(self.objective.modules).values():
            averaged = [] if self.ema is None else self.ema.parameters
            states = [f"/average/{i}" for i, p in enumerate(averaged) if p is lookup.table]
            for number, optimizer in enumerate(self.optimizers.optimizers):
                parameters = [p for group in optimizer.param_groups for p in group["params"]]
                states += [
                    f"/optimizers/{number}/state/{i}/{moment}"
                    for i, parameter in enumerate(parameters)
                    for moment in ROW_MOMENTS
                    if parameter is lookup.table
                ]
            rows |= dict.fromkeys(states, lookup.num_rows)
        return rows

    def _resume(self) -> None:
        path = None if self.folder is None else latest_checkpoint(self.folder / "checkpoints")
        if path is None:
            return
        values = load_checkpoint(path, rows=self._row_names().keys())
        try:
            self.objective.modules.load_state_dict(values["modules"])
            self.objective.load_state_dict(values.get("objective", {}))
            self.optimizers.load_state_dict(values["optimizers"])
            if self.ema is not None:
                self.ema.load_state_dict(values["average"])
            self.state = TrainingState(**current_training_state(values["progress"]))
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise FormatError(
                f"the checkpoint {path} does not fit this run ({reason}); its settings or network "
                "differ. Use another run folder"
            ) from error
        self.best_modules = values["best"]


def _largest(batches: list[list[Any]]) -> int:
    return max((len(piece) for pieces in batches for piece in pieces), default=0)
