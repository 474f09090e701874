"""Checkpoints of the training state: tensors in safetensors, other values in JSON."""

import json
import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from edgeformers.errors import FormatError
from edgeformers.file_errors import writing
from edgeformers.files import read_json_object, save_tensors
from edgeformers.sharded_nodes import read_own_rows

_PREFIX = "step-"


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], *, keep: int) -> Path:
    """Write `state` (nested dicts and lists of tensors and plain values) as step-000000123.

    Complete folders are renamed into place and renamed away before deletion, so a folder with the
    name of a checkpoint is complete even after a crash or power failure.
    """
    out = folder / f"{_PREFIX}{step:09d}"
    partial = folder / f".{out.name}.partial"
    try:
        with writing(out):
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob(f".{_PREFIX}*"):
                shutil.rmtree(leftover)
            _write_state(partial, state)
            if out.exists():
                _remove(out)
            partial.replace(out)
    except Exception:
        shutil.rmtree(partial, ignore_errors=True)
        with suppress(OSError):  # there are other checkpoints, or no folder
            folder.rmdir()
        raise
    for old in checkpoints(folder)[:-keep]:
        _remove(old)
    return out


def load_checkpoint(path: Path, *, rows: Collection[str] = ()) -> dict[str, Any]:
    """The saved state, with tensors on the CPU; of the tensors `rows`, this process's rows."""
    try:
        values = read_json_object(path / "state.json", "delete it")
        with safe_open(path / "state.safetensors", "pt") as file:
            tensors = {
                name: read_own_rows(file.get_slice(name)) if name in rows else file.get_tensor(name)
                for name in file.keys()  # noqa: SIM118
            }
        state: dict[str, Any] = _join(values, tensors)
    except Exception as error:
        raise FormatError(
            f"the checkpoint {path} is damaged ({error}); delete it to resume from the previous one"
        ) from error
    return state


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(folder.glob(f"{_PREFIX}*")) if folder.is_dir() else []


def remove_checkpoints(folder: Path) -> None:
    """Delete all checkpoints, and their folder if it is empty."""
    for path in (*checkpoints(folder), *folder.glob(f".{_PREFIX}*")):
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint, if any."""
    return max(checkpoints(folder), default=None)


def _write_state(folder: Path, state: dict[str, Any]) -> None:
    """Write a new folder, and wait until it is on disk."""
    folder.mkdir()
    tensors: dict[str, Tensor] = {}
    values = _split(state, "", tensors)
    save_tensors(folder / "state.safetensors", tensors)
    (folder / "state.json").write_text(json.dumps(values), encoding="utf-8")
    for file in folder.iterdir():
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())


def _remove(checkpoint: Path) -> None:
    hidden = checkpoint.with_name(f".{checkpoint.name}.old")
    checkpoint.replace(hidden)
    shutil.rmtree(hidden)


def _split(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Plain values with references to tensors, which are added to `tensors`."""
    if isinstance(value, Tensor):
        tensors[name] = _unshared(value.detach().cpu().contiguous(), tensors.values())
        return {"__tensor__": name}
    if isinstance(value, dict):
        items = [[key, _split(item, f"{name}/{key}", tensors)] for key, item in value.items()]
        return {"__dict__": items}  # pairs, since optimizer states have integer keys
    if isinstance(value, list | tuple):
        return [_split(item, f"{name}/{i}", tensors) for i, item in enumerate(value)]
    return value


def _unshared(tensor: Tensor, others: Iterable[Tensor]) -> Tensor:
    """The tensor, or a copy if it shares memory with another one, which safetensors rejects."""
    taken = {other.untyped_storage().data_ptr() for other in others}
    return tensor.clone() if tensor.untyped_storage().data_ptr() in taken else tensor


def _join(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if "__tensor__" in value:
            return tensors[value["__tensor__"]]
        return {key: _join(item, tensors) for key, item in value["__dict__"]}
    if isinstance(value, list):
        return [_join(item, tensors) for item in value]
    return value
