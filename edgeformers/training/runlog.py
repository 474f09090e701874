"""The log of a run: metrics.jsonl with one event per line, and the callbacks that follow it."""

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgeformers.errors import FileError, FormatError
from edgeformers.file_errors import writing
from edgeformers.files import json_values, write_atomic
from edgeformers.training.callbacks import Callback

LOG = "metrics.jsonl"
FLUSH_SECONDS = 1.0  # between writes of training steps


class RunLog:
    """Appends events to metrics.jsonl; a resumed run drops the events after its checkpoint."""

    def __init__(
        self,
        folder: Path | None,
        *,
        resume_step: int = 0,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.path = None if folder is None else folder / LOG
        self._lines: list[str] = []
        self._flushed_at = time.monotonic()
        self.callbacks = callbacks
        if folder is None:
            return
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._drop_after(resume_step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Add an event. Events of training steps are written to disk about once a second."""
        values = json_values(values)
        for callback in self.callbacks:
            callback.on_event(kind, step, values)
        if self.path is None:
            return
        self._lines.append(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        if kind != "train" or time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all events to disk."""
        self._flushed_at = time.monotonic()
        lines, self._lines = self._lines, []
        if not lines or self.path is None:
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with writing(self.path), self.path.open("a", encoding="utf-8") as file:
                file.write("".join(lines))
        except FileError:
            with suppress(OSError):  # a later line must not continue half a line
                os.truncate(self.path, size)
            raise

    def close(self) -> None:
        self.flush()
        for callback in self.callbacks:
            callback.on_end()

    def _drop_after(self, step: int) -> None:
        """Drop events after the checkpoint, and an incomplete last line."""
        assert self.path is not None
        if not self.path.exists():
            return
        kept = [event for event in read_log(self.path) if event.get("step", 0) <= step and step > 0]
        write_atomic(self.path, "".join(json.dumps(event) + "\n" for event in kept))


def read_log(path: Path) -> list[dict[str, Any]]:
    """All events of a run; an incomplete last line is ignored."""
    events: list[dict[str, Any]] = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            event = json.loads(line)
            if not isinstance(event, dict) or not isinstance(event.get("step", 0), int):
                raise ValueError("expected an object with a step")
            events.append(event)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            raise FormatError(
                f"{path}, line {number}: not a JSON event ({error}); remove the line"
            ) from error
    return events
