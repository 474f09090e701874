"""Training state on disk: tensors as safetensors, the rest as JSON, whole or not at all."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from edgeformers.errors import FormatError

_PREFIX = "step-"


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], *, keep: int) -> Path:
    """Write `state` (nested dicts and lists of tensors and plain values) as step-000123.

    It takes its name when it is complete, and an old one loses its own before it is removed: at
    whatever moment the process is killed, or the machine loses power, what is called a
    checkpoint is one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob(".step-*"):
        shutil.rmtree(left_over)
    out = folder / f"{_PREFIX}{step:09d}"
    aside = folder / f".{out.name}.partial"
    aside.mkdir()
    tensors: dict[str, Tensor] = {}
    plain = _split(state, "", tensors)
    save_file(tensors, aside / "state.safetensors")
    (aside / "state.json").write_text(json.dumps(plain), encoding="utf-8")
    for file in aside.iterdir():
        _settle(file)
    if out.exists():
        _remove(out)
    aside.replace(out)
    for old in checkpoints(folder)[:-keep]:
        _remove(old)
    return out


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was saved, tensors on the CPU."""
    try:
        plain = json.loads((path / "state.json").read_text(encoding="utf-8"))
        tensors = load_file(path / "state.safetensors")
        state: dict[str, Any] = _join(plain, tensors)
    except Exception as error:
        raise FormatError(
            f"the checkpoint {path} is damaged ({error}); remove it to go on from the one before"
        ) from error
    return state


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(folder.glob(f"{_PREFIX}*")) if folder.is_dir() else []


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints, and their folder if it then is empty."""
    for path in (*checkpoints(folder), *folder.glob(f".{_PREFIX}*")):
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint, if there is any."""
    found = checkpoints(folder)
    return found[-1] if found else None


def _settle(file: Path) -> None:
    """Wait until a file is on the disk itself."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def _remove(checkpoint: Path) -> None:
    hidden = checkpoint.with_name(f".{checkpoint.name}.old")
    checkpoint.replace(hidden)
    shutil.rmtree(hidden)


def _split(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Plain values with a reference in place of every tensor."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"__tensor__": name}
    if isinstance(value, dict):
        items = [[key, _split(one, f"{name}/{key}", tensors)] for key, one in value.items()]
        return {"__dict__": items}  # pairs: keys of optimizer states are numbers
    if isinstance(value, list | tuple):
        return [_split(one, f"{name}/{i}", tensors) for i, one in enumerate(value)]
    return value


def _join(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if "__tensor__" in value:
            return tensors[value["__tensor__"]]
        return {key: _join(one, tensors) for key, one in value["__dict__"]}
    if isinstance(value, list):
        return [_join(one, tensors) for one in value]
    return value
