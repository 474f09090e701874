"""Pretrained text encoders: find, load and export checkpoints of Hugging Face models."""

import re
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from edgeformers.errors import ConfigError, FormatError, InputError, suggest
from edgeformers.file_errors import writing
from edgeformers.files import atomic_file, read_json_object, save_tensors
from edgeformers.hub import download_folder, is_hub_name
from edgeformers.minilm import MINILM, check_minilm, minilm_folder
from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.nn.families import FAMILIES, Family
from edgeformers.nn.meta_device import on_meta_device

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
    if not is_hub_name(name):
        raise InputError(
            f"{name}: no such folder; use a folder with config.json and model.safetensors, "
            f"a name on the Hugging Face Hub, or '{MINILM}'"
        )
    return _download(name, weights)


def load_backbone(name: str | PathLike[str], *, dtype: torch.dtype | None = None) -> TextEncoder:
    """A pretrained encoder in evaluation mode, by folder, Hub name, or "minilm".

    Parameters are converted to `dtype`, float32 by default.
    """
    folder = find_backbone_folder(name)
    config = _read_config(folder)
    if fspath(name) == MINILM:
        check_minilm(folder)
    with on_meta_device():
        encoder = TextEncoder(config)
    tensors = _encoder_tensors(_read_tensors(folder), FAMILIES[config.family])
    state = _import_tensors(tensors, encoder, folder, dtype or torch.float32)
    encoder.load_state_dict(state, assign=True)
    return encoder.eval()


def backbone_config(name: str | PathLike[str]) -> EncoderConfig:
    """The architecture of a backbone, without loading its weights."""
    return _read_config(find_backbone_folder(name, weights=False))


def random_backbone(config: EncoderConfig, *, seed: int = 0) -> TextEncoder:
    """An encoder with random weights, in evaluation mode."""
    with on_meta_device():
        encoder = TextEncoder(config)
    encoder.to_empty(device="cpu").initialize(seed)
    return encoder.eval()


def export_backbone(encoder: TextEncoder, folder: str | PathLike[str]) -> Path:
    """Write config.json and model.safetensors for `transformers.AutoModel`."""
    if encoder.config.family not in FAMILIES:
        hint = suggest(encoder.config.family, FAMILIES)
        raise ConfigError(f"unknown family '{encoder.config.family}'; {hint}")
    family, folder = FAMILIES[encoder.config.family], Path(folder)
    published = _published_config(encoder.config.family, family.write(encoder.config), folder)
    _check_exportable(encoder.config, family.read(published, encoder.config.family))
    published.architectures = [family.architecture]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        published.save_pretrained(folder)
    with atomic_file(folder / "model.safetensors") as temporary:
        save_tensors(temporary, _export_tensors(encoder), {"format": "pt"})
    return folder


def _download(name: str, weights: bool) -> Path:
    """The cached or downloaded folder of a model on the Hub."""
    remedy = f"check the name and the network, or use '{MINILM}', which needs none"
    wanted = [*_SMALL_FILES, *(_SAFETENSORS if weights else ())]
    folder = download_folder(name, wanted, remedy=remedy)
    if weights and not any(folder.glob("model*.safetensors")):
        folder = download_folder(name, [*_SMALL_FILES, *_PICKLED], remedy=remedy)
    return folder


def _read_config(folder: Path) -> EncoderConfig:
    where = folder / "config.json"
    values = _read_json(where, "it is required in a backbone folder")
    kind = values.pop("model_type", None)
    if kind not in FAMILIES:
        raise FormatError(f"{where}: model_type is '{kind}'; supported: {', '.join(FAMILIES)}")
    if (positions := values.get("position_embedding_type") or "absolute") != "absolute":
        raise FormatError(f"{where}: position_embedding_type '{positions}' is not supported")
    if values.get("is_decoder"):
        raise FormatError(f"{where}: is_decoder is true; an encoder is required")
    return FAMILIES[kind].read(_published_config(kind, values, where), kind)


def _published_config(kind: str, values: dict[str, Any], where: Path) -> Any:
    """A config object of transformers, which has defaults for missing values."""
    from transformers import CONFIG_MAPPING

    try:
        return CONFIG_MAPPING[kind].from_dict(values)
    except Exception as error:  # of any type, from validators
        raise FormatError(f"{where}: invalid configuration of '{kind}' ({error})") from error


def _check_exportable(config: EncoderConfig, written: EncoderConfig) -> None:
    """Raise an error if the family's config.json cannot express a setting other than dropout."""
    dropouts = ("dropout", "attention_dropout", "embedding_dropout")
    written = replace(written, **{name: getattr(config, name) for name in dropouts})
    for name in (field.name for field in fields(config)):
        ours, theirs = getattr(config, name), getattr(written, name)
        if ours != theirs and (ours, theirs) != ((), (None,) * config.layers):
            raise ConfigError(
                f"a checkpoint of family '{config.family}' cannot have {name}={ours!r}, only "
                f"{theirs!r}; change the setting or the family"
            )


def _encoder_tensors(tensors: dict[str, Tensor], family: Family) -> dict[str, Tensor]:
    """The tensors of the encoder without prefix, pooler and head.

    In TensorFlow checkpoints, norms have a gamma and a beta.
    """
    prefix = family.prefix if any(name.startswith(family.prefix) for name in tensors) else ""
    kept: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        bare = re.sub(
            r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name.removeprefix(prefix))
        )
        if name.startswith(prefix) and not bare.startswith(("pooler.", "embeddings.position_ids")):
            kept[bare] = tensor
    return kept


def _import_tensors(
    tensors: dict[str, Tensor], encoder: TextEncoder, folder: Path, dtype: torch.dtype
) -> dict[str, Tensor]:
    parameters = list(FAMILIES[encoder.config.family].parameters(encoder))
    expected = {name for _, theirs in parameters for name in theirs}
    wrong = {"missing": expected - tensors.keys(), "unexpected": tensors.keys() - expected}
    for what, names in wrong.items():
        if names:
            first = ", ".join(sorted(names)[:5])
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            raise FormatError(f"{folder}: {what} tensors in the checkpoint: {first}{more}")
    shapes = {name: parameter.shape for name, parameter in encoder.named_parameters()}
    state: dict[str, Tensor] = {}
    for ours, theirs in parameters:
        sizes = [shapes[name][0] for name in ours]
        tensor = torch.cat([tensors.pop(name) for name in theirs]).to(dtype)  # always a copy
        shape = (sum(sizes), *shapes[ours[0]][1:])
        if tensor.shape != shape:
            raise FormatError(
                f"{folder}: {' and '.join(theirs)} have shape {list(tensor.shape)}, but "
                f"{list(shape)} according to config.json"
            )
        parts = tensor.split(sizes)
        state |= {name: part.clone() for name, part in zip(ours, parts, strict=True)}
    return state


def _export_tensors(encoder: TextEncoder) -> dict[str, Tensor]:
    state = encoder.state_dict()
    tensors: dict[str, Tensor] = {}
    for ours, theirs in FAMILIES[encoder.config.family].parameters(encoder):
        parts = torch.cat([state[name].cpu() for name in ours]).chunk(len(theirs))
        tensors |= {name: part.clone() for name, part in zip(theirs, parts, strict=True)}
    return tensors


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, in one or several files; .bin files with weights_only=True."""
    for stem, suffix in (("model", ".safetensors"), ("pytorch_model", ".bin")):
        single, index = folder / f"{stem}{suffix}", folder / f"{stem}{suffix}.index.json"
        if single.is_file():
            return _read_tensor_file(single)
        if index.is_file():
            listed = _read_json(index, "it lists the files of the checkpoint").get("weight_map", {})
            tensors: dict[str, Tensor] = {}
            for name in sorted(set(listed.values())):
                if Path(name).name != name or not (folder / name).is_file():
                    raise FormatError(
                        f"{folder / name}: no such file, but the index of the checkpoint lists it"
                    )
                tensors |= _read_tensor_file(folder / name)
            return tensors
    raise FormatError(f"{folder}: no weights; model.safetensors is missing")


def _read_json(path: Path, purpose: str) -> dict[str, Any]:
    if not path.is_file():
        raise FormatError(f"{path}: no such file; {purpose}")
    return read_json_object(path, "download it again")


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
