"""Save a trained model as one folder: weights, tokenizer, nodes, settings and a model card.

Nothing in the folder is executed when it is loaded: weights are safetensors, settings are JSON.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from edgeformers import __version__
from edgeformers.aliases import current_model, current_tensors
from edgeformers.data.metadata import METADATA, check_replaceable
from edgeformers.data.storage import fingerprint
from edgeformers.errors import FormatError, InputError, suggest
from edgeformers.files import atomic_folder, check_no_foreign_files
from edgeformers.inference.model_card import model_card
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.bag_of_words import BagConfig, BagOfWords
from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.nn.no_text import NoText, NoTextConfig
from edgeformers.registry import MODELS, ModelEntry, find_entry, model_name

FORMAT = "edgeformers-model"
SCHEMA_VERSION = 1
CONFIG, WEIGHTS, HEAD = "config.json", "model.safetensors", "head.safetensors"
TOKENIZER, NODES, CARD = "tokenizer.json", "nodes.parquet", "README.md"
NETWORK = "network"  # the folder of the network, if it is saved with the model
FILES = {CONFIG, WEIGHTS, HEAD, TOKENIZER, NODES, CARD}
REMEDY = "save the model again, or download the folder again"

AnyEncoderConfig = EncoderConfig | BagConfig | NoTextConfig

_NODE_SCHEMA = pa.schema([("name", pa.string()), ("side", pa.string())])
_REQUIRED = ("model", "model_config", "encoder_config", "label_names", "extra", "files")


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A saved model in evaluation mode.

    Nodes are numbered as in the model's node table; `node_sides` is "source" or "target", or null
    with one node type. `head` has the tensors on top of the model, such as a classifier.
    `network` is the folder of the network that was saved with the model, if any.
    """

    name: str
    model: nn.Module
    tokenizer: Tokenizer
    node_names: pa.ChunkedArray
    node_sides: pa.ChunkedArray
    label_names: list[str]
    head: dict[str, Tensor]
    extra: dict[str, Any]
    network: Path | None = None


def save_model(
    model: nn.Module,
    folder: str | PathLike[str],
    *,
    tokenizer: Tokenizer | str | PathLike[str],
    node_names: Sequence[str] | pa.Array | pa.ChunkedArray,
    num_sources: int | None = None,
    label_names: Sequence[str] = (),
    head: Mapping[str, Tensor] | None = None,
    extra: Mapping[str, Any] | None = None,
    card: Mapping[str, Any] | None = None,
    network: str | PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a model to a folder, which appears only when it is complete.

    In a bipartite network the first `num_sources` nodes are sources. `extra` must consist of
    plain values. `card` has the sections of the model card (see `model_card`). `network` is a
    prepared network to copy into the folder, texts included.
    """
    out, name = Path(folder).expanduser(), model_name(model)
    config, encoder = _configs(model)
    own_tokenizer = _read_tokenizer(tokenizer)
    _check_tokenizer(own_tokenizer, encoder, "this tokenizer")
    nodes = _node_table(node_names, num_sources, config.num_nodes)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "library_version": __version__,
        "model": name,
        "model_config": config.to_dict(),
        "encoder_config": asdict(encoder),
        "label_names": list(label_names),
        "extra": dict(extra or {}),
    }
    _to_json(facts)  # raises before anything is written
    readme = model_card(out.name, facts, card or {})
    if out.exists() and not overwrite:
        raise InputError(f"{out} already exists; choose another folder, or pass overwrite=True")
    with atomic_folder(out, overwrite=overwrite, check=check_replaceable_model) as temporary:
        save_file(_on_cpu(_tensors(model)), temporary / WEIGHTS, metadata={"format": "pt"})
        if head:
            save_file(_on_cpu(head), temporary / HEAD)
        own_tokenizer.save(str(temporary / TOKENIZER))
        pq.write_table(nodes, temporary / NODES, compression="zstd")
        facts["files"] = {path.name: fingerprint(path) for path in sorted(temporary.iterdir())}
        if network is not None:
            hidden = shutil.ignore_patterns(".*")
            shutil.copytree(Path(network).expanduser(), temporary / NETWORK, ignore=hidden)
            facts["network"] = fingerprint(temporary / NETWORK / METADATA)
        (temporary / CONFIG).write_text(_to_json(facts), encoding="utf-8")
        (temporary / CARD).write_text(readme, encoding="utf-8")
    return out


def load_model(folder: str | PathLike[str]) -> SavedModel:
    """Read a folder that `save_model` wrote; a missing or damaged file is a FormatError."""
    path = Path(folder).expanduser()
    facts = _read_facts(path)
    _check_files(path, facts["files"])
    name = _current_model(path, facts)
    with _naming_file(path / CONFIG):
        entry = find_entry(name)
        config = entry.config.from_dict(facts["model_config"])
        with torch.device("meta"):  # allocates nothing before the shapes are checked
            encoder = _make_encoder(entry, facts["encoder_config"])
            model = entry.model(config, encoder)
    _load_tensors(model, path / WEIGHTS)
    with _naming_file(path / TOKENIZER):
        tokenizer = Tokenizer.from_file(str(path / TOKENIZER))
    _check_tokenizer(tokenizer, encoder.config, str(path / TOKENIZER))
    nodes = _read_nodes(path / NODES, config.num_nodes)
    return SavedModel(
        name=name,
        model=model.eval(),
        tokenizer=tokenizer,
        node_names=nodes.column("name"),
        node_sides=nodes.column("side"),
        label_names=facts["label_names"],
        head=current_tensors(_read_tensors(path / HEAD)) if HEAD in facts["files"] else {},
        extra=facts["extra"],
        network=_find_network(path, facts),
    )


def remove_model(folder: str | PathLike[str]) -> None:
    """Remove a saved model; another folder, or one with other files, is kept."""
    path = Path(folder).expanduser()
    with suppress(InputError, OSError):
        check_replaceable_model(path)
        shutil.rmtree(path)


def check_replaceable_model(folder: Path) -> None:
    """Raise an InputError if a folder is not a saved model or contains other files."""
    try:
        facts = json.loads((folder / CONFIG).read_bytes())
        is_model = facts["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        is_model = False
    if not is_model:
        raise InputError(f"{folder} is not a saved model; it is not overwritten")
    has_network = _has_own_network(folder, facts)
    if has_network:
        check_replaceable(folder / NETWORK)
    check_no_foreign_files(
        folder, lambda name: name in FILES or (has_network and name.startswith(f"{NETWORK}/"))
    )


def model_fingerprint(model: nn.Module) -> str:
    """SHA-256 over a model's name, settings and tensors."""
    config, encoder = _configs(model)
    digest = hashlib.sha256()
    facts = {"model": model_name(model), "config": config.to_dict(), "encoder": asdict(encoder)}
    digest.update(json.dumps(facts, sort_keys=True).encode())
    for name, tensor in sorted(_on_cpu(_tensors(model)).items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _configs(model: nn.Module) -> tuple[ModelConfig, AnyEncoderConfig]:
    return cast(ModelConfig, model.config), cast(TextReader, model.encoder).config


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, each once: shared modules have one name."""
    saved = model.state_dict().keys()
    unique = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor for name, tensor in unique if name in saved}


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _load_tensors(model: nn.Module, path: Path) -> None:
    tensors, expected = _read_tensors(path), _tensors(model)
    for problem, names in (
        ("lacks the tensor", expected.keys() - tensors.keys()),
        ("has the unexpected tensor", tensors.keys() - expected.keys()),
    ):
        if names:
            raise FormatError(f"{path} {problem} {min(names)}; {REMEDY}")
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise FormatError(
                f"{path}: {name} has shape {list(tensor.shape)}, but {CONFIG} implies "
                f"{list(expected[name].shape)}; {REMEDY}"
            )
    model.load_state_dict(tensors, strict=False, assign=True)  # shared tensors have more names


def _read_tensors(path: Path) -> dict[str, Tensor]:
    with _naming_file(path):
        tensors: dict[str, Tensor] = load_file(path)
    return tensors


def _read_tokenizer(tokenizer: Tokenizer | str | PathLike[str]) -> Tokenizer:
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    path = Path(tokenizer).expanduser()
    path = path / TOKENIZER if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"{path}: no such tokenizer; give a {TOKENIZER} or its folder")
    with _naming_file(path):
        return Tokenizer.from_file(str(path))


def _check_tokenizer(tokenizer: Tokenizer, encoder: AnyEncoderConfig, which: str) -> None:
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest >= encoder.vocab_size:
        raise InputError(
            f"{which} has token ids up to {highest:,}, but the backbone's vocabulary has "
            f"{encoder.vocab_size:,}; use the tokenizer of the backbone"
        )


def _node_table(
    names: Sequence[str] | pa.Array | pa.ChunkedArray, num_sources: int | None, num_nodes: int
) -> pa.Table:
    column = names if isinstance(names, pa.Array | pa.ChunkedArray) else pa.array(names)
    if len(column) != num_nodes:
        raise InputError(
            f"node_names must have one name per node of the model (got {len(column):,} names for "
            f"{num_nodes:,} nodes)"
        )
    if num_sources is None:
        sides = pa.nulls(num_nodes, pa.string())
    elif 0 <= num_sources <= num_nodes:
        parts = [pa.repeat("source", num_sources), pa.repeat("target", num_nodes - num_sources)]
        sides = pa.chunked_array(parts, pa.string())
    else:
        raise InputError(f"num_sources must be from 0 to {num_nodes:,} (got {num_sources:,})")
    return pa.table([column.cast(pa.string()), sides], schema=_NODE_SCHEMA)


def _read_nodes(path: Path, num_nodes: int) -> pa.Table:
    with _naming_file(path):
        table = pq.read_table(path, schema=_NODE_SCHEMA)
    if table.num_rows != num_nodes:
        raise FormatError(
            f"{path} has {table.num_rows:,} nodes, but the model has {num_nodes:,}; {REMEDY}"
        )
    return table


def _has_own_network(folder: Path, facts: Mapping[str, Any]) -> bool:
    """Whether the network in a model's folder is the one that was saved with it."""
    file = folder / NETWORK / METADATA
    return "network" in facts and file.is_file() and fingerprint(file) == facts["network"]


def _find_network(folder: Path, facts: Mapping[str, Any]) -> Path | None:
    """The network that was saved with a model; None if there was none or it was removed."""
    if "network" not in facts or not (folder / NETWORK).exists():
        return None
    if not _has_own_network(folder, facts):
        raise FormatError(f"{folder / NETWORK} is not the network saved with the model; {REMEDY}")
    return folder / NETWORK


def _read_facts(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of a saved model")
    if not path.is_file():
        raise FormatError(f"{folder} is not a saved model: it has no {CONFIG}")
    with _naming_file(path):
        facts = json.loads(path.read_bytes())
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise FormatError(f"{path} does not describe an edgeformers model")
    version = facts.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FormatError(
            f"{folder} has schema version {version} (written by edgeformers "
            f"{facts.get('library_version')}), but this version, {__version__}, reads "
            f"{SCHEMA_VERSION}; use the version that wrote it, or update this one"
        )
    if missing := [name for name in _REQUIRED if name not in facts]:
        raise FormatError(f"{path} is damaged: {', '.join(missing)} is missing; {REMEDY}")
    return facts


def _current_model(folder: Path, facts: Mapping[str, Any]) -> str:
    """The current name of a saved model, which may have been saved under an old one."""
    name = current_model(facts["model"], facts["model_config"], facts["encoder_config"])
    if name != facts["model"] and name not in MODELS:
        raise FormatError(
            f"{folder} contains the model '{facts['model']}' of version 0.1, which this version "
            "defines differently; train it again, or load it with edgeformers 0.1"
        )
    return name


def _check_files(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    for name in (WEIGHTS, TOKENIZER, NODES, *files):
        path = folder / Path(name).name
        if not path.is_file():
            raise FormatError(f"{path} is missing; {REMEDY}")
        if fingerprint(path) != files.get(name):
            raise FormatError(f"{path} is damaged: its checksum differs; {REMEDY}")


def _make_encoder(entry: ModelEntry, values: Mapping[str, Any]) -> TextReader:
    """The text encoder of a model, or what takes its place."""
    kinds: dict[str, type[AnyEncoderConfig]]
    kinds = {"language-model": EncoderConfig, "bag-of-words": BagConfig, "none": NoTextConfig}
    known = [setting.name for setting in fields(kinds[entry.text])]
    for name in values.keys() - set(known):
        raise InputError(f"the encoder has no setting '{name}'; {suggest(name, known)}")
    if entry.text == "bag-of-words":
        return BagOfWords(BagConfig(**values))
    if entry.text == "none":
        return NoText(NoTextConfig(**values))
    return TextEncoder(EncoderConfig(**{**values, "windows": tuple(values.get("windows", ()))}))


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Turn any error into a FormatError that names the file."""
    try:
        yield
    except Exception as error:  # safetensors, tokenizers and Arrow raise many kinds
        reason = str(error).partition("\n")[0]
        raise FormatError(f"{path} is damaged ({reason}); {REMEDY}") from error


def _to_json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(
            f"label_names and extra must be plain values: text, numbers, lists ({error})"
        ) from error
