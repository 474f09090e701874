"""The folder of a backbone on disk or on the Hugging Face Hub, and its tensors."""

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
    """A folder with config.json, tokenizer files and, with `weights`, tensors.

    `name` is a folder, "minilm" (bundled with the extra `minilm`), or a name on the Hugging Face
    Hub, from which files are downloaded unless they are cached.
    """
    name = fspath(name)
    if name == MINILM:
        return minilm_folder()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise InputError(
            f"{name}: no such folder; use a folder with config.json and model.safetensors, "
            f"a name on the Hugging Face Hub, or '{MINILM}'"
        )
    return _download(name, weights)


def read_config_file(folder: Path) -> dict[str, Any]:
    """The contents of config.json."""
    return _read_json(folder / "config.json", "it is required in a backbone folder")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, in one or several files; .bin files with weights_only=True."""
    for stem, suffix in (("model", ".safetensors"), ("pytorch_model", ".bin")):
        single, index = folder / f"{stem}{suffix}", folder / f"{stem}{suffix}.index.json"
        if single.is_file():
            return _read_tensor_file(single)
        if index.is_file():
            shards = _read_json(index, "it lists the files of the checkpoint").get("weight_map", {})
            return _read_shards(folder, sorted(set(shards.values())))
    raise FormatError(f"{folder}: no weights; model.safetensors is missing")


def _download(name: str, weights: bool) -> Path:
    """The cached or downloaded folder of a model on the Hub.

    A request with a short timeout comes first: without network, the client's download would retry
    for half a minute.
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
    except Exception as error:  # the client has no common base class of errors
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"'{name}' is not a folder and could not be downloaded from the Hugging Face Hub "
            f"({reason}); check the name and the network, or use '{MINILM}', which needs none"
        ) from error
    return folder


def _read_json(path: Path, purpose: str) -> dict[str, Any]:
    if not path.is_file():
        raise FormatError(f"{path}: no such file; {purpose}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise FormatError(f"{path}: expected a JSON object (got {type(values).__name__})")
    return values


def _read_shards(folder: Path, names: list[str]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name in names:
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise FormatError(f"{path}: no such file, but the index of the checkpoint lists it")
        tensors.update(_read_tensor_file(path))
    return tensors


def _read_tensor_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            tensors: dict[str, Tensor] = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loaders have no common base class of errors
        reason = str(error).partition("\n")[0]
        raise FormatError(f"{path}: damaged or not a tensor file ({reason})") from error
    if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise FormatError(f"{path}: contains values other than tensors")
    return tensors
