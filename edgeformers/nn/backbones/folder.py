"""Where a backbone's files are, and the tensors in them."""

import json
import re
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from edgeformers.errors import FormatError, InputError
from edgeformers.minilm import MINILM, minilm_folder

_SMALL_FILES = (
    "config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "vocab*",
    "merges.txt",
    "*.model",
)
_SAFETENSORS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")
_PICKLED = ("pytorch_model.bin", "pytorch_model-*.bin", "pytorch_model.bin.index.json")
_HUB_TIMEOUT = 4.0  # seconds
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find_backbone_folder(name: str | PathLike[str], *, weights: bool = True) -> Path:
    """The folder of a backbone: config.json, tokenizer files and, with `weights`, its tensors.

    `name` is a folder, "minilm" (the one that comes with the extra `minilm`, no network needed),
    or a name on the Hugging Face hub, whose files are then fetched unless they are cached.
    """
    name = fspath(name)
    if name == MINILM:
        return minilm_folder()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise InputError(
            f"{name}: no such folder; give a folder with config.json and model.safetensors, "
            f"a name on the Hugging Face hub, or '{MINILM}'"
        )
    return _fetch(name, weights)


def read_config_file(folder: Path) -> dict[str, Any]:
    """What config.json says."""
    return _read_json(folder / "config.json", "a backbone's folder needs one")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, in one file or several; pickles through the safe loader only."""
    for stem, suffix in (("model", ".safetensors"), ("pytorch_model", ".bin")):
        whole, index = folder / f"{stem}{suffix}", folder / f"{stem}{suffix}.index.json"
        if whole.is_file():
            return _read_tensor_file(whole)
        if index.is_file():
            parts = _read_json(index, "it lists the parts of the checkpoint").get("weight_map", {})
            return _read_parts(folder, sorted(set(parts.values())))
    raise FormatError(f"{folder}: no weights; there should be model.safetensors")


def _fetch(name: str, weights: bool) -> Path:
    """A model's folder from the hub's cache, or fetched now.

    The hub is asked once whether it has the model: the client's own download would ask again and
    again, for half a minute, where there is no network.
    """
    import huggingface_hub as hub

    wanted = [*_SMALL_FILES, *(_SAFETENSORS if weights else ())]
    try:
        if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
            hub.get_hf_file_metadata(hub.hf_hub_url(name, "config.json"), timeout=_HUB_TIMEOUT)
        folder = Path(hub.snapshot_download(name, allow_patterns=wanted))
        if weights and not any(folder.glob("model*.safetensors")):
            wanted = [*_SMALL_FILES, *_PICKLED]
            folder = Path(hub.snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the hub's client raises many kinds, not all of one base
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"'{name}' is no folder here and could not be fetched from the Hugging Face hub "
            f"({reason}); check the name and the network, or use '{MINILM}', which needs none"
        ) from error
    return folder


def _read_json(path: Path, need: str) -> dict[str, Any]:
    if not path.is_file():
        raise FormatError(f"{path}: no such file; {need}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise FormatError(f"{path}: should hold a JSON object, not {type(values).__name__}")
    return values


def _read_parts(folder: Path, names: list[str]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name in names:
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise FormatError(f"{path}: no such file; the checkpoint's index lists it as a part")
        tensors.update(_read_tensor_file(path))
    return tensors


def _read_tensor_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            tensors: dict[str, Tensor] = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the two loaders raise many kinds, not all of one base
        reason = str(error).partition("\n")[0]
        raise FormatError(f"{path}: damaged, or not a file of tensors ({reason})") from error
    if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise FormatError(f"{path}: holds more than tensors; a checkpoint's weights are needed")
    return tensors
