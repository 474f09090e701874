"""Load checkpoints of transformers into a `TextEncoder`, and export them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from edgeformers.errors import ConfigError, FormatError, suggest
from edgeformers.minilm import MINILM, check_minilm
from edgeformers.nn.backbones.bert import BERT, ELECTRA, ROBERTA, XLM_ROBERTA
from edgeformers.nn.backbones.distilbert import DISTILBERT
from edgeformers.nn.backbones.family import Family
from edgeformers.nn.backbones.folder import find_backbone_folder, read_config_file, read_tensors
from edgeformers.nn.backbones.modernbert import MODERNBERT
from edgeformers.nn.encoder import EncoderConfig, TextEncoder

FAMILIES: Mapping[str, Family] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": XLM_ROBERTA,
    "electra": ELECTRA,
    "distilbert": DISTILBERT,
    "modernbert": MODERNBERT,
}


def load_backbone(name: str | PathLike[str], *, dtype: torch.dtype | None = None) -> TextEncoder:
    """A pretrained encoder in evaluation mode, by folder, Hub name, or "minilm".

    Parameters are converted to `dtype`, float32 by default.
    """
    folder = find_backbone_folder(name)
    config = _read_config(folder)
    if fspath(name) == MINILM:
        check_minilm(folder)
    with torch.device("meta"):
        encoder = TextEncoder(config)
    tensors = _encoder_tensors(read_tensors(folder), FAMILIES[config.family])
    state = _import_tensors(tensors, encoder, folder, dtype or torch.float32)
    encoder.load_state_dict(state, assign=True)
    return encoder.eval()


def backbone_config(name: str | PathLike[str]) -> EncoderConfig:
    """The architecture of a backbone, without loading its weights."""
    return _read_config(find_backbone_folder(name, weights=False))


def random_backbone(config: EncoderConfig, *, seed: int = 0) -> TextEncoder:
    """An encoder with random weights, in evaluation mode."""
    with torch.device("meta"):
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
    _check_exportable(encoder.config, family.read(published))
    published.architectures = [family.architecture]
    folder.mkdir(parents=True, exist_ok=True)
    published.save_pretrained(folder)
    save_file(_export_tensors(encoder), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _read_config(folder: Path) -> EncoderConfig:
    values = read_config_file(folder)
    kind = values.pop("model_type", None)
    where = folder / "config.json"
    if kind not in FAMILIES:
        raise FormatError(f"{where}: model_type is '{kind}'; supported: {', '.join(FAMILIES)}")
    if (positions := values.get("position_embedding_type") or "absolute") != "absolute":
        raise FormatError(f"{where}: position_embedding_type '{positions}' is not supported")
    if values.get("is_decoder"):
        raise FormatError(f"{where}: is_decoder is true; an encoder is required")
    return FAMILIES[kind].read(_published_config(kind, values, where))


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
    """The tensors of the encoder without prefix, pooler and head."""
    prefix = family.prefix if any(name.startswith(family.prefix) for name in tensors) else ""
    kept = {
        _current_name(name.removeprefix(prefix)): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
    extras = ("pooler.", "embeddings.position_ids")
    return {name: tensor for name, tensor in kept.items() if not name.startswith(extras)}


def _current_name(name: str) -> str:
    """The name of a tensor; in TensorFlow checkpoints, norms have a gamma and a beta."""
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{ {'gamma': 'weight', 'beta': 'bias'}.get(kind, kind) }"


def _import_tensors(
    tensors: dict[str, Tensor], encoder: TextEncoder, folder: Path, dtype: torch.dtype
) -> dict[str, Tensor]:
    parameters = list(FAMILIES[encoder.config.family].parameters(encoder.config))
    expected = {name for _, theirs in parameters for name in theirs}
    _check_no_names(folder, "missing", expected - tensors.keys())
    _check_no_names(folder, "unexpected", tensors.keys() - expected)
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
    for ours, theirs in FAMILIES[encoder.config.family].parameters(encoder.config):
        parts = torch.cat([state[name].cpu() for name in ours]).chunk(len(theirs))
        tensors |= {name: part.clone() for name, part in zip(theirs, parts, strict=True)}
    return tensors


def _check_no_names(folder: Path, what: str, names: set[str]) -> None:
    if names:
        first = ", ".join(sorted(names)[:5])
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise FormatError(f"{folder}: {what} tensors in the checkpoint: {first}{more}")
