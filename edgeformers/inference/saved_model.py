"""Save a trained model as one folder: weights, tokenizer, nodes, settings and a model card.

Nothing in the folder is executed when it is loaded: weights are safetensors, settings are JSON.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from edgeformers import __version__
from edgeformers.aliases import current_model, current_tensors
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.storage import METADATA, check_replaceable, fingerprint
from edgeformers.errors import FormatError, InputError, suggest
from edgeformers.files import atomic_folder, check_no_foreign_files, save_tensors
from edgeformers.inference.model_card import CARD, model_card
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.bag_of_words import BagConfig, BagOfWords
from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.nn.no_text import NoText, NoTextConfig
from edgeformers.registry import MODELS, ModelEntry, find_entry, model_name

FORMAT = "edgeformers-model"
SCHEMA_VERSION = 1
CONFIG, WEIGHTS, HEAD = "config.json", "model.safetensors", "head.safetensors"
TOKENIZER, NODES = "tokenizer.json", "nodes.parquet"
NETWORK = "network"  # the folder of the network, if it is saved with the model
FILES = {CONFIG, WEIGHTS, HEAD, TOKENIZER, NODES, CARD}
REMEDY = "save the model again, or download the folder again"

AnyEncoderConfig = EncoderConfig | BagConfig | NoTextConfig

_NODE_SCHEMA = pa.schema([("name", pa.string()), ("side", pa.string())])
_REQUIRED = ("model", "model_config", "encoder_config", "label_names", "extra", "files")


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A model as it is saved, and loaded in evaluation mode.

    Nodes are numbered as in the model's node table. `head` has the tensors on top of the model,
    such as a classifier. `extra` consists of plain values. `network` is the folder of the network
    that is saved with the model, texts included, if any.
    """

    model: nn.Module
    tokenizer: Tokenizer
    nodes: NodeIndex
    label_names: list[str] = field(default_factory=list)
    head: dict[str, Tensor] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    network: Path | None = None


def save_model(saved: SavedModel, folder: str | PathLike[str]) -> Path:
    """Write a model to a folder, which appears only when it is complete.

    It replaces a saved model, but no other folder.
    """
    out, (config, encoder) = Path(folder).expanduser(), _configs(saved.model)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "library_version": __version__,
        "model": model_name(saved.model),
        "model_config": config.to_dict(),
        "encoder_config": asdict(encoder),
        "label_names": saved.label_names,
        "extra": saved.extra,
    }
    with atomic_folder(out, overwrite=True, check=check_replaceable_model) as temporary:
        save_tensors(temporary / WEIGHTS, _on_cpu(_tensors(saved.model)), {"format": "pt"})
        if saved.head:
            save_tensors(temporary / HEAD, _on_cpu(saved.head))
        saved.tokenizer.save(str(temporary / TOKENIZER))
        pq.write_table(_node_table(saved.nodes), temporary / NODES, compression="zstd")
        facts["files"] = {path.name: fingerprint(path) for path in sorted(temporary.iterdir())}
        if saved.network is not None:
            hidden = shutil.ignore_patterns(".*")
            copied = temporary / NETWORK
            shutil.copytree(saved.network, copied, ignore=hidden, copy_function=shutil.copyfile)
            facts["network"] = fingerprint(temporary / NETWORK / METADATA)
        config_json = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False)
        (temporary / CONFIG).write_text(config_json + "\n", encoding="utf-8")
        (temporary / CARD).write_text(model_card(out, facts), encoding="utf-8")
    return out


def load_model(folder: str | PathLike[str]) -> SavedModel:
    """Read a folder that `save_model` wrote; a missing or damaged file is a FormatError."""
    path = Path(folder).expanduser()
    facts = check_model(path)
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
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest >= encoder.config.vocab_size:
        raise FormatError(
            f"{path / TOKENIZER} has token ids up to {highest:,}, but the backbone's vocabulary "
            f"has {encoder.config.vocab_size:,}; {REMEDY}"
        )
    return SavedModel(
        model=model.eval(),
        tokenizer=tokenizer,
        nodes=_read_nodes(path / NODES, config.num_nodes),
        label_names=facts["label_names"],
        head=current_tensors(_read_tensors(path / HEAD)) if HEAD in facts["files"] else {},
        extra=facts["extra"],
        network=_find_network(path, facts),
    )


def check_model(folder: Path) -> dict[str, Any]:
    """The contents of config.json, after comparing the checksums of all files."""
    facts = _read_facts(folder)
    _check_files(folder, facts["files"])
    return facts


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


def _node_table(nodes: NodeIndex) -> pa.Table:
    """Ids and sides; the sides are null with one node type."""
    sides = pa.nulls(len(nodes), pa.string())
    if (sources := nodes.num_sources) is not None:
        parts = [pa.repeat("source", sources), pa.repeat("target", len(nodes) - sources)]
        sides = pa.chunked_array(parts, pa.string())
    return pa.table([nodes.ids.cast(pa.string()), sides], schema=_NODE_SCHEMA)


def _read_nodes(path: Path, num_nodes: int) -> NodeIndex:
    with _naming_file(path):
        table = pq.read_table(path, schema=_NODE_SCHEMA)
    if table.num_rows != num_nodes:
        raise FormatError(
            f"{path} has {table.num_rows:,} nodes, but the model has {num_nodes:,}; {REMEDY}"
        )
    names, sides = table.columns
    is_bipartite = num_nodes > 0 and sides[0].is_valid
    num_sources = pc.sum(pc.equal(sides, "source")).as_py() if is_bipartite else None
    return NodeIndex(names, num_sources)


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
            f"{folder} contains the model '{facts['model']}' of version 0.1, which is defined "
            "differently now; train it again, or load it with edgeformers 0.1"
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
