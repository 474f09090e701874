"""Save a trained model as one folder: weights, tokenizer, nodes, settings and a model card.

Nothing in the folder is executed when it is loaded: weights are safetensors, settings are JSON.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from edgeformers import __version__, distributed
from edgeformers.aliases import current_model, current_tensors
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.storage import METADATA, check_replaceable, fingerprint
from edgeformers.data.table import read_parquet
from edgeformers.decode import decode
from edgeformers.errors import FormatError, InputError
from edgeformers.files import (
    LARGEST_JSON,
    atomic_folder,
    check_member,
    check_no_foreign_files,
    read_json_object,
    save_tensors,
)
from edgeformers.inference.model_card import CARD, model_card
from edgeformers.models.base import ModelConfig, TextReader
from edgeformers.nn.bag_of_words import BagConfig, BagOfWords
from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.nn.meta_device import on_meta_device
from edgeformers.nn.no_text import NoText, NoTextConfig
from edgeformers.registry import MODELS, ModelEntry, find_entry, model_name
from edgeformers.sharded_nodes import gather_state, row_tensor_names

FORMAT = "edgeformers-model"
SCHEMA_VERSION = 1
CONFIG, WEIGHTS, HEAD = "config.json", "model.safetensors", "head.safetensors"
TOKENIZER, NODES = "tokenizer.json", "nodes.parquet"
NETWORK = "network"  # the folder of the network, if it is saved with the model
MODEL = "model"  # the folder of the model in that of its run
FILES = {CONFIG, WEIGHTS, HEAD, TOKENIZER, NODES, CARD}
REMEDY = "save the model again, or download the folder again"

AnyEncoderConfig = EncoderConfig | BagConfig | NoTextConfig

_NODE_SCHEMA = pa.schema([("name", pa.string()), ("side", pa.string())])
_REQUIRED: Mapping[str, Any] = {  # in config.json, with their types
    **{"model": str, "model_config": dict[str, Any], "encoder_config": dict[str, Any]},
    **{"label_names": list[str], "extra": dict[str, Any], "files": dict[str, dict[str, Any]]},
}
MORE_BYTES = 1 << 24  # of the head, the tokenizer or the node ids of a small model
NODE_BYTES = TOKEN_BYTES = 1 << 16  # more of them for each node, or token of the vocabulary


def model_folder(run: Path) -> Path:
    """The folder of a run's model; a saved model is its own."""
    return run / MODEL if (run / MODEL).is_dir() else run


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
    tensors: dict[str, Tensor] = field(default_factory=dict)  # of a sharded model, gathered


def save_model(saved: SavedModel, folder: str | PathLike[str]) -> Path:
    """Write a model to a folder, which appears only when it is complete.

    It replaces a saved model, but no other folder.
    """
    out = Path(folder).expanduser()
    facts = describe_model(saved.model, saved.label_names, saved.extra)
    with atomic_folder(out, overwrite=True, check=check_replaceable_model) as temporary:
        save_tensors(
            temporary / WEIGHTS, _on_cpu(saved.tensors or _tensors(saved.model)), {"format": "pt"}
        )
        if saved.head:
            save_tensors(temporary / HEAD, _on_cpu(saved.head))
        saved.tokenizer.save(str(temporary / TOKENIZER))
        write_nodes(saved.nodes, temporary / NODES)
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


def describe_model(
    model: nn.Module, label_names: list[str], extra: dict[str, Any]
) -> dict[str, Any]:
    """What config.json says about a model, except for its files."""
    config, encoder = _configs(model)
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "library_version": __version__,
        "model": model_name(model),
        "model_config": config.to_dict(),
        "encoder_config": asdict(encoder),
        "label_names": label_names,
        "extra": extra,
    }


def load_model(folder: str | PathLike[str]) -> SavedModel:
    """Read a folder that `save_model` wrote; a missing or damaged file is a FormatError."""
    path = Path(folder).expanduser()
    facts = _read_facts(path)
    name = _current_model(path, facts)
    shapes = _tensor_shapes(path / WEIGHTS)
    with naming_file(path / CONFIG):
        entry = find_entry(name)
        for section in ("model_config", "encoder_config"):
            _check_counts(facts[section], len(shapes))
        config = entry.config.from_dict(facts["model_config"])
        with on_meta_device():  # allocates nothing before the shapes are checked
            encoder = _make_encoder(entry, facts["encoder_config"])
            model = entry.model(config, encoder)
    vocab_size = encoder.config.vocab_size
    _check_shapes(shapes, _tensors(model), path / WEIGHTS)
    _check_size(path / HEAD, MORE_BYTES + NODE_BYTES * config.num_nodes)
    _check_size(path / TOKENIZER, MORE_BYTES + TOKEN_BYTES * vocab_size)
    _check_files(path, facts["files"])  # only now are files read that a stranger made large
    tensors = _read_tensors(path / WEIGHTS)
    with naming_file(path / WEIGHTS):
        model.load_state_dict(tensors, strict=False, assign=True)  # shared ones have more names
        if isinstance(encoder, BagOfWords):
            encoder.check()
    return SavedModel(
        model=model.eval(),
        tokenizer=_read_tokenizer(path / TOKENIZER, vocab_size),
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
    facts: dict[str, Any] = {}
    with suppress(FormatError):
        facts = read_json_object(folder / CONFIG, REMEDY)
    if facts.get("format") != FORMAT:
        raise InputError(f"{folder} is not a saved model; it is not overwritten")
    has_network = _has_own_network(folder, facts)
    if has_network:
        check_replaceable(folder / NETWORK)
    check_no_foreign_files(
        folder, lambda name: name in FILES or (has_network and name.startswith(f"{NETWORK}/"))
    )


def model_fingerprint(model: nn.Module) -> str:
    """SHA-256 over a model's name, settings and tensors; all processes get that of the main one."""
    config, encoder = _configs(model)
    digest = hashlib.sha256()
    facts = {"model": model_name(model), "config": config.to_dict(), "encoder": asdict(encoder)}
    digest.update(json.dumps(facts, sort_keys=True).encode())
    _hash_tensors(digest, gather_tensors(model) or _tensors(model))
    return str(distributed.broadcast(digest.hexdigest()))


def gather_tensors(model: nn.Module, folder: Path | None = None) -> dict[str, Tensor]:
    """The tensors of a model with a sharded node table, with all rows in the main process.

    All processes must call it. The rows are in unnamed files in `folder`, or else in the temporary
    folder. Empty for other models.
    """
    rows = {f"/{name}": num_rows for name, num_rows in row_tensor_names(model).items()}
    if not rows:
        return {}
    gathered: dict[str, Tensor] = gather_state(
        _tensors(model), rows, folder or Path(tempfile.gettempdir())
    )
    return gathered


def tensors_fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over named tensors."""
    digest = hashlib.sha256()
    _hash_tensors(digest, tensors)
    return digest.hexdigest()


def _hash_tensors(digest: "hashlib._Hash", tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in sorted(_on_cpu(tensors).items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)


def _configs(model: nn.Module) -> tuple[ModelConfig, AnyEncoderConfig]:
    return cast(ModelConfig, model.config), cast(TextReader, model.encoder).config


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, each once: shared modules have one name."""
    saved = model.state_dict().keys()
    unique = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor for name, tensor in unique if name in saved}


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _check_counts(settings: Mapping[str, Any], num_tensors: int) -> None:
    """Raise a FormatError if settings ask for more modules than there are tensors."""
    for name in ("layers", "edge_types"):
        if isinstance(count := settings.get(name), int) and count > num_tensors:
            raise FormatError(f"{name} is {count:,}, but {WEIGHTS} has {num_tensors:,} tensors")


def _tensor_shapes(path: Path) -> dict[str, tuple[str, list[int]]]:
    """The type and shape of each tensor in a file, from its header."""
    if not path.is_file():
        raise FormatError(f"{path} is missing; {REMEDY}")
    with naming_file(path):
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
        if size > LARGEST_JSON:
            raise ValueError(f"a header of {size:,} bytes")
        with safe_open(path, "pt") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            return {name: (part.get_dtype(), part.get_shape()) for name, part in slices.items()}


def _check_shapes(
    shapes: Mapping[str, tuple[str, list[int]]], expected: Mapping[str, Tensor], path: Path
) -> None:
    """Compare the header of a file with the tensors of a model."""
    for problem, names in (
        ("lacks the tensor", expected.keys() - shapes.keys()),
        ("has the unexpected tensor", shapes.keys() - expected.keys()),
    ):
        if names:
            raise FormatError(f"{path} {problem} {min(names)}; {REMEDY}")
    for name, (dtype, shape) in shapes.items():
        if shape != list(expected[name].shape):
            raise FormatError(
                f"{path}: {name} has shape {shape}, but {CONFIG} implies "
                f"{list(expected[name].shape)}; {REMEDY}"
            )
        if ("F" in dtype) != expected[name].is_floating_point():
            raise FormatError(f"{path}: {name} has type {dtype}; {REMEDY}")


def _check_size(path: Path, largest: int) -> None:
    """Raise a FormatError if a file is larger than the model allows."""
    if path.is_file() and (size := path.stat().st_size) > largest:
        raise FormatError(f"{path} has {size:,} bytes, too many for a model of this size; {REMEDY}")


def _read_tensors(path: Path) -> dict[str, Tensor]:
    with naming_file(path):
        tensors: dict[str, Tensor] = load_file(path)
    return tensors


def max_token(tokenizer: Tokenizer) -> int:
    """The highest token id, also of the special tokens around a text."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    return max([*vocabulary.values(), *tokenizer.encode("a").ids], default=-1)


def _read_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    """The tokenizer in a file, without padding and truncation of its own."""
    with naming_file(path):
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        highest = max_token(tokenizer)
    if highest >= vocab_size:
        raise FormatError(
            f"{path} has token ids up to {highest:,}, but the backbone's vocabulary "
            f"has {vocab_size:,}; {REMEDY}"
        )
    return tokenizer


def write_nodes(nodes: NodeIndex, path: Path) -> None:
    """Write the ids and sides of nodes to Parquet, in the order of their numbers."""
    pq.write_table(_node_table(nodes), path, compression="zstd")


def _node_table(nodes: NodeIndex) -> pa.Table:
    """Ids and sides; the sides are null with one node type."""
    sides = pa.nulls(len(nodes), pa.string())
    if (sources := nodes.num_sources) is not None:
        parts = [pa.repeat("source", sources), pa.repeat("target", len(nodes) - sources)]
        sides = pa.chunked_array(parts, pa.string())
    return pa.table([nodes.ids.cast(pa.string()), sides], schema=_NODE_SCHEMA)


def _read_nodes(path: Path, num_nodes: int) -> NodeIndex:
    with naming_file(path):
        about = pq.read_metadata(path)
        groups = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    if about.num_rows != num_nodes or sum(groups) > MORE_BYTES + NODE_BYTES * num_nodes:
        raise FormatError(
            f"{path} has {about.num_rows:,} nodes of {sum(groups):,} bytes, but the model has "
            f"{num_nodes:,} nodes; {REMEDY}"
        )
    with naming_file(path):
        table = read_parquet(path).select(_NODE_SCHEMA.names).cast(_NODE_SCHEMA)
        names, sides = table.columns
        if names.null_count:
            raise ValueError("a node has no id")
    is_bipartite = num_nodes > 0 and sides[0].is_valid
    num_sources = pc.sum(pc.equal(sides, "source")).as_py() if is_bipartite else None
    index = NodeIndex(names, num_sources)
    if (not num_sources and is_bipartite) or _node_table(index).column(1) != sides:
        raise FormatError(f"{path} does not list sources first, then targets; {REMEDY}")
    return index


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
        raise FormatError(
            f"{folder} is not a saved model: it has no {CONFIG}; give the folder of a run "
            "or of a saved model"
        )
    facts = read_json_object(path, REMEDY)
    if facts.get("format") != FORMAT:
        raise FormatError(f"{path} does not describe an edgeformers model")
    version = facts.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FormatError(
            f"{folder} has schema version {version} (written by edgeformers "
            f"{facts.get('library_version')}), but this version, {__version__}, reads "
            f"{SCHEMA_VERSION}; use the version that wrote it, or update this one"
        )
    for name, kind in _REQUIRED.items():
        try:
            if name not in facts:
                raise FormatError(f"{name} is missing")
            decode(kind, facts[name], path=name)
        except FormatError as error:
            raise FormatError(f"{path} is damaged: {error}; {REMEDY}") from error
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
        path = check_member(folder, name, REMEDY)
        size = files.get(name, {}).get("bytes")
        if path.stat().st_size != size or fingerprint(path) != files[name]:
            raise FormatError(f"{path} is damaged: its checksum differs; {REMEDY}")


def _make_encoder(entry: ModelEntry, values: Mapping[str, Any]) -> TextReader:
    """The text encoder of a model, or what takes its place."""
    kinds: dict[str, type[AnyEncoderConfig]]
    kinds = {"language-model": EncoderConfig, "bag-of-words": BagConfig, "none": NoTextConfig}
    config = decode(kinds[entry.text], values)
    if isinstance(config, BagConfig):
        return BagOfWords(config)
    return NoText(config) if isinstance(config, NoTextConfig) else TextEncoder(config)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Turn any error into a FormatError that names the file."""
    try:
        yield
    except BaseException as error:  # libraries raise many kinds, those in Rust also panics
        if not isinstance(error, Exception) and "Panic" not in type(error).__name__:
            raise
        reason = str(error).strip().partition("\n")[0]
        reason = f"{reason} is missing" if isinstance(error, KeyError) else reason
        raise FormatError(f"{path} is damaged ({reason}); {REMEDY}") from error
