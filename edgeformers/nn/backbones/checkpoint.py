"""Checkpoints read into a TextEncoder and written back, every tensor accounted for."""

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
    """A pretrained encoder from a folder, the hub or the extra `minilm`, in evaluation mode.

    Parameters are float32 whatever the checkpoint stores, unless `dtype` says otherwise.
    """
    folder = find_backbone_folder(name)
    config = _read_config(folder)
    if fspath(name) == MINILM:
        check_minilm(folder)
    with torch.device("meta"):
        encoder = TextEncoder(config)
    tensors = _strip(read_tensors(folder), FAMILIES[config.family])
    state = _to_ours(tensors, encoder, folder, dtype or torch.float32)
    encoder.load_state_dict(state, assign=True)
    return encoder.eval()


def backbone_config(name: str | PathLike[str]) -> EncoderConfig:
    """The shape of a backbone, without its weights."""
    return _read_config(find_backbone_folder(name, weights=False))


def random_backbone(config: EncoderConfig, *, seed: int = 0) -> TextEncoder:
    """An encoder that knows nothing yet, its weights drawn from the seed, in evaluation mode."""
    with torch.device("meta"):
        encoder = TextEncoder(config)
    encoder.to_empty(device="cpu").initialize(seed)
    return encoder.eval()


def export_backbone(encoder: TextEncoder, folder: str | PathLike[str]) -> Path:
    """Write config.json and model.safetensors as `transformers.AutoModel` reads them."""
    if encoder.config.family not in FAMILIES:
        hint = suggest(encoder.config.family, FAMILIES)
        raise ConfigError(f"no family '{encoder.config.family}'; {hint}")
    family, folder = FAMILIES[encoder.config.family], Path(folder)
    published = _published_config(encoder.config.family, family.write(encoder.config), folder)
    _refuse_unlike(encoder.config, family.read(published))
    published.architectures = [family.architecture]
    folder.mkdir(parents=True, exist_ok=True)
    published.save_pretrained(folder)
    save_file(_to_theirs(encoder), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _read_config(folder: Path) -> EncoderConfig:
    values = read_config_file(folder)
    kind = values.pop("model_type", None)
    where = folder / "config.json"
    if kind not in FAMILIES:
        supported = ", ".join(FAMILIES)
        raise FormatError(f"{where}: model_type is '{kind}'; supported are {supported}")
    if (positions := values.get("position_embedding_type") or "absolute") != "absolute":
        raise FormatError(f"{where}: position_embedding_type '{positions}' is not supported")
    if values.get("is_decoder"):
        raise FormatError(f"{where}: a decoder reads left to right; an encoder is needed")
    return FAMILIES[kind].read(_published_config(kind, values, where))


def _published_config(kind: str, values: dict[str, Any], where: Path) -> Any:
    """The configuration object of transformers, which fills in what config.json leaves out."""
    from transformers import CONFIG_MAPPING

    try:
        return CONFIG_MAPPING[kind].from_dict(values)
    except Exception as error:  # its validators raise many kinds
        raise FormatError(f"{where}: not a configuration of '{kind}' ({error})") from error


def _refuse_unlike(config: EncoderConfig, written: EncoderConfig) -> None:
    """Refuse a configuration that the family's config.json cannot express."""
    training = {"dropout", "attention_dropout", "embedding_dropout"}
    same = {name: getattr(config, name) for name in training}
    written = replace(written, **same)
    for name in (field.name for field in fields(config)):
        ours, theirs = getattr(config, name), getattr(written, name)
        if ours != theirs and (ours, theirs) != ((), (None,) * config.layers):
            raise ConfigError(
                f"a checkpoint of family '{config.family}' cannot say {name}={ours!r}, only "
                f"{theirs!r}; change the setting or the family"
            )


def _strip(tensors: dict[str, Tensor], family: Family) -> dict[str, Tensor]:
    """The encoder's own tensors under its own names: no prefix, no pooler, no head."""
    prefix = family.prefix if any(name.startswith(family.prefix) for name in tensors) else ""
    kept = {
        _modern_name(name.removeprefix(prefix)): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
    extras = ("pooler.", "embeddings.position_ids")
    return {name: tensor for name, tensor in kept.items() if not name.startswith(extras)}


def _modern_name(name: str) -> str:
    """Checkpoints first written by TensorFlow call a norm's weight gamma and its bias beta."""
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{ {'gamma': 'weight', 'beta': 'bias'}.get(kind, kind) }"


def _to_ours(
    tensors: dict[str, Tensor], encoder: TextEncoder, folder: Path, dtype: torch.dtype
) -> dict[str, Tensor]:
    links = list(FAMILIES[encoder.config.family].links(encoder.config))
    expected = {name for _, theirs in links for name in theirs}
    _refuse_names(folder, "lacks", expected - tensors.keys())
    _refuse_names(folder, "has the unexpected", tensors.keys() - expected)
    shapes = {name: parameter.shape for name, parameter in encoder.named_parameters()}
    state: dict[str, Tensor] = {}
    for ours, theirs in links:
        sizes = [shapes[name][0] for name in ours]
        whole = torch.cat([tensors.pop(name) for name in theirs]).to(dtype)  # cat: always a copy
        wanted = (sum(sizes), *shapes[ours[0]][1:])
        if whole.shape != wanted:
            raise FormatError(
                f"{folder}: {' and '.join(theirs)} have shape {list(whole.shape)}, "
                f"config.json says {list(wanted)}"
            )
        parts = whole.split(sizes)
        state |= {name: part.clone() for name, part in zip(ours, parts, strict=True)}
    return state


def _to_theirs(encoder: TextEncoder) -> dict[str, Tensor]:
    state = encoder.state_dict()
    tensors: dict[str, Tensor] = {}
    for ours, theirs in FAMILIES[encoder.config.family].links(encoder.config):
        parts = torch.cat([state[name].cpu() for name in ours]).chunk(len(theirs))
        tensors |= {name: part.clone() for name, part in zip(theirs, parts, strict=True)}
    return tensors


def _refuse_names(folder: Path, what: str, names: set[str]) -> None:
    if names:
        first = ", ".join(sorted(names)[:5])
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        kind = "tensor" if len(names) == 1 else "tensors"
        raise FormatError(f"{folder}: the checkpoint {what} {kind} {first}{more}")
