"""A trained model as one folder: weights, tokenizer, nodes, settings and a model card."""

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
from edgeformers.aliases import current_tensors
from edgeformers.data.checksums import fingerprint
from edgeformers.data.metadata import METADATA
from edgeformers.data.metadata import check_replaceable as check_replaceable_network
from edgeformers.errors import FormatError, InputError, suggest
from edgeformers.files import atomic_folder, check_no_foreign_files
from edgeformers.models.base import ModelConfig
from edgeformers.nn.bag_of_words import BagConfig, BagOfWords
from edgeformers.nn.encoder import EncoderConfig, TextEncoder
from edgeformers.registry import ModelEntry, find_entry, model_name

FORMAT = "edgeformers-model"
SCHEMA_VERSION = 1
CONFIG, WEIGHTS, HEAD = "config.json", "model.safetensors", "head.safetensors"
TOKENIZER, NODES, CARD = "tokenizer.json", "nodes.parquet", "README.md"
NETWORK = "network"  # the folder of the network, where the model carries it
CARD_PARTS = ("title", "license", "data", "split", "protocol", "metrics", "settings", "notes")
_OURS = {CONFIG, WEIGHTS, HEAD, TOKENIZER, NODES, CARD}  # all that a saved model consists of
REMEDY = "save the model again, or fetch the folder again"

_NODE_SCHEMA = pa.schema([("name", pa.string()), ("side", pa.string())])


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A model as it was saved, in evaluation mode, with what is needed to use it.

    The nodes are numbered as the model's node table; `node_sides` says "source" or "target", or
    null where all nodes are of one kind. `head` holds what stands on top, such as a classifier.
    `network` is the folder of the network that was saved with it, if any was.
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
    """Write a model as one folder, which takes its name only when it is complete.

    Of a bipartite network, the first `num_sources` nodes are sources and the others targets.
    `extra` is kept as it is and must be plain values. `card` fills the model card; its parts are
    title, license, data, split, protocol, metrics, settings and notes. `network` is the folder of
    a prepared network to copy into the model's, texts included.
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
    _as_json(facts)  # refuses before anything is written
    written_card = _card(name, out.name, facts, card or {})
    _refuse_existing(out, overwrite)
    with atomic_folder(out, overwrite=overwrite, check=check_replaceable) as aside:
        save_file(_plain(_tensors(model)), aside / WEIGHTS, metadata={"format": "pt"})
        if head:
            save_file(_plain(head), aside / HEAD)
        own_tokenizer.save(str(aside / TOKENIZER))
        pq.write_table(nodes, aside / NODES, compression="zstd")
        facts["files"] = {path.name: fingerprint(path) for path in sorted(aside.iterdir())}
        if network is not None:
            hidden = shutil.ignore_patterns(".*")
            shutil.copytree(Path(network).expanduser(), aside / NETWORK, ignore=hidden)
            facts["network"] = fingerprint(aside / NETWORK / METADATA)
        (aside / CONFIG).write_text(_as_json(facts), encoding="utf-8")
        (aside / CARD).write_text(written_card, encoding="utf-8")
    return out


def remove_model(folder: str | PathLike[str]) -> None:
    """Remove a saved model; a folder that is none, or that holds other files too, stays."""
    path = Path(folder).expanduser()
    with suppress(InputError, OSError):
        check_replaceable(path)
        shutil.rmtree(path)


def load_model(folder: str | PathLike[str]) -> SavedModel:
    """Read a folder that `save_model` wrote; what is missing, damaged or foreign is named."""
    path = Path(folder).expanduser()
    facts = _read_facts(path)
    _check_files(path, facts["files"])
    with _naming_damage(path / CONFIG):
        name, entry = facts["model"], find_entry(facts["model"])
        config = entry.config.from_dict(facts["model_config"])
        with torch.device("meta"):
            encoder = _make_encoder(entry, facts["encoder_config"])
            model = entry.model(config, encoder)
    _load_tensors(model, path / WEIGHTS)
    with _naming_damage(path / TOKENIZER):
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


def model_fingerprint(model: nn.Module) -> str:
    """SHA-256 over what a model is: its name, its settings and every tensor."""
    config, encoder = _configs(model)
    digest = hashlib.sha256()
    facts = {"model": model_name(model), "config": config.to_dict(), "encoder": asdict(encoder)}
    digest.update(json.dumps(facts, sort_keys=True).encode())
    for name, tensor in sorted(_plain(_tensors(model)).items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _configs(model: nn.Module) -> tuple[ModelConfig, EncoderConfig | BagConfig]:
    return cast(ModelConfig, model.config), cast(TextEncoder | BagOfWords, model.encoder).config


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, each once: a module shared by several layers has one name here."""
    kept = model.state_dict().keys()
    unique = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor for name, tensor in unique if name in kept}


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _load_tensors(model: nn.Module, path: Path) -> None:
    tensors, wanted = _read_tensors(path), _tensors(model)
    for what, names in (
        ("lacks the tensor", wanted.keys() - tensors.keys()),
        ("has the unexpected tensor", tensors.keys() - wanted.keys()),
    ):
        if names:
            raise FormatError(f"{path} {what} {min(names)}; {REMEDY}")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise FormatError(
                f"{path}: {name} has shape {list(tensor.shape)} where {CONFIG} says "
                f"{list(wanted[name].shape)}; {REMEDY}"
            )
    model.load_state_dict(tensors, strict=False, assign=True)  # shared ones have further names


def _read_tensors(path: Path) -> dict[str, Tensor]:
    with _naming_damage(path):
        tensors: dict[str, Tensor] = load_file(path)
    return tensors


def _read_tokenizer(tokenizer: Tokenizer | str | PathLike[str]) -> Tokenizer:
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    path = Path(tokenizer).expanduser()
    path = path / TOKENIZER if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"{path}: no such tokenizer; give a {TOKENIZER} or the folder it is in")
    with _naming_damage(path):
        return Tokenizer.from_file(str(path))


def _check_tokenizer(tokenizer: Tokenizer, encoder: EncoderConfig | BagConfig, which: str) -> None:
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest >= encoder.vocab_size:
        raise InputError(
            f"{which} gives token ids up to {highest:,}, but the backbone's vocabulary has "
            f"{encoder.vocab_size:,}; use the tokenizer that belongs to the backbone"
        )


def _node_table(
    names: Sequence[str] | pa.Array | pa.ChunkedArray, num_sources: int | None, num_nodes: int
) -> pa.Table:
    column = names if isinstance(names, pa.Array | pa.ChunkedArray) else pa.array(names)
    column = column.cast(pa.string())
    if len(column) != num_nodes:
        raise InputError(
            f"there must be one name per node of the model (got {len(column):,} names for "
            f"{num_nodes:,} nodes)"
        )
    if num_sources is None:
        sides = pa.nulls(num_nodes, pa.string())
    elif 0 <= num_sources <= num_nodes:
        kinds = [pa.repeat("source", num_sources), pa.repeat("target", num_nodes - num_sources)]
        sides = pa.chunked_array(kinds, pa.string())
    else:
        raise InputError(f"num_sources must be from 0 to {num_nodes:,} (got {num_sources:,})")
    return pa.table([column, sides], schema=_NODE_SCHEMA)


def _read_nodes(path: Path, num_nodes: int) -> pa.Table:
    with _naming_damage(path):
        table = pq.read_table(path, schema=_NODE_SCHEMA)
    if table.num_rows != num_nodes:
        raise FormatError(
            f"{path} names {table.num_rows:,} nodes, but the model has {num_nodes:,}; {REMEDY}"
        )
    return table


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that is not a saved model, or that holds other files too."""
    if _foreign(folder):
        raise InputError(f"{folder} is not a saved model; it is not overwritten")
    carried = _carries_network(folder, json.loads((folder / CONFIG).read_bytes()))
    if carried:
        check_replaceable_network(folder / NETWORK)
    check_no_foreign_files(
        folder, lambda name: name in _OURS or (carried and name.startswith(f"{NETWORK}/"))
    )


def _carries_network(folder: Path, facts: Mapping[str, Any]) -> bool:
    """Whether the network in a model's folder is the one that was saved with it."""
    file = folder / NETWORK / METADATA
    return "network" in facts and file.is_file() and fingerprint(file) == facts["network"]


def _find_network(folder: Path, facts: Mapping[str, Any]) -> Path | None:
    """The network that was saved with a model; whoever passes the model on may have removed it."""
    if "network" not in facts or not (folder / NETWORK).exists():
        return None
    if not _carries_network(folder, facts):
        raise FormatError(f"{folder / NETWORK} is not the network saved with the model; {REMEDY}")
    return folder / NETWORK


def _refuse_existing(out: Path, overwrite: bool) -> None:
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; choose another folder, or pass overwrite=True")


def _foreign(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / CONFIG).read_bytes())["format"] != FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _read_facts(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that a model was saved to")
    if not path.is_file():
        raise FormatError(f"{folder} is not a saved model: it has no {CONFIG}")
    with _naming_damage(path):
        facts = json.loads(path.read_bytes())
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise FormatError(f"{path} does not describe a model of this library")
    version = facts.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FormatError(
            f"{folder} has schema version {version} (written by edgeformers "
            f"{facts.get('library_version')}), this library reads {SCHEMA_VERSION}; read it with "
            f"the version that wrote it, or update this one ({__version__})"
        )
    wanted = ("model", "model_config", "encoder_config", "label_names", "extra", "files")
    if missing := [name for name in wanted if name not in facts]:
        raise FormatError(f"{path} is damaged: it lacks {', '.join(missing)}; {REMEDY}")
    return facts


def _check_files(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    for name in (WEIGHTS, TOKENIZER, NODES, *files):
        path = folder / Path(name).name
        if not path.is_file():
            raise FormatError(f"{path} is missing; {REMEDY}")
        if fingerprint(path) != files.get(name):
            raise FormatError(f"{path} is damaged: its checksum differs; {REMEDY}")


def _make_encoder(entry: ModelEntry, values: Mapping[str, Any]) -> TextEncoder | BagOfWords:
    """What reads the texts of a model, as its settings say."""
    is_bag = entry.text == "bag-of-words"
    known = [one.name for one in fields(BagConfig if is_bag else EncoderConfig)]
    for name in values.keys() - set(known):
        raise InputError(f"the encoder has no setting '{name}'; {suggest(name, known)}")
    if is_bag:
        return BagOfWords(BagConfig(**values))
    windows = tuple(values.get("windows", ()))
    return TextEncoder(EncoderConfig(**{**values, "windows": windows}))


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Whatever a reader raises, the file is named."""
    try:
        yield
    except Exception as error:  # safetensors, tokenizers and Arrow each raise their own kinds
        reason = str(error).partition("\n")[0]
        raise FormatError(f"{path} is damaged ({reason}); {REMEDY}") from error


def _as_json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(
            f"label_names and extra must be plain values: text, numbers, lists ({error})"
        ) from error


def _card(name: str, title: str, facts: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """A model card: a YAML head as model hubs read it, then what is known of the model."""
    for part in card.keys() - set(CARD_PARTS):
        raise InputError(f"a model card has no part '{part}'; {suggest(part, CARD_PARTS)}")
    for part in {"metrics", "settings"} & card.keys():
        if not isinstance(card[part], Mapping):
            raise InputError(f"the card's {part} must be names and values (got {card[part]!r})")
    title = str(card.get("title", title))
    head = ["library_name: edgeformers", f"tags: [edgeformers, {name}, text-attributed-graph]"]
    if "license" in card:
        head.append(f"license: {_quoted(card['license'])}")
    shape = f"{name} with {facts['model_config']['num_nodes']:,} nodes on {_reader(facts)}."
    blocks = ["\n".join(["---", *head, "---"]), f"# {title}", shape]
    for part in ("data", "split", "protocol"):
        if part in card:
            blocks += [f"## {part.capitalize()}", str(card[part])]
    for part, columns in (("metrics", "| Metric | Value |"), ("settings", "| Setting | Value |")):
        if part in card:
            rows = [f"| {key} | {_cell(value)} |" for key, value in card[part].items()]
            blocks += [f"## {part.capitalize()}", "\n".join([columns, "|---|---|", *rows])]
    if facts["label_names"]:
        blocks += ["## Labels", ", ".join(map(str, facts["label_names"]))]
    if "notes" in card:
        blocks += ["## Notes", str(card["notes"])]
    return "\n\n".join([*blocks, "## Loading it", _LOADING]) + "\n"


_LOADING = """\
```python
from edgeformers.inference.saved_model import load_model

saved = load_model("path/to/this/folder")
saved.model, saved.tokenizer, saved.node_names, saved.label_names
```"""


def _reader(facts: Mapping[str, Any]) -> str:
    """What reads the texts, in words."""
    encoder = facts["encoder_config"]
    if "words" in encoder:
        return f"bags of {encoder['words']:,} words, {encoder['width']} wide"
    return f"a {encoder['family']} encoder of {encoder['layers']} layers, {encoder['width']} wide"


def _cell(value: Any) -> str:
    shown = f"{value:.4f}" if isinstance(value, float) and abs(value) >= 1e-3 else str(value)
    return shown.replace("|", "\\|").replace("\n", " ")


def _quoted(value: Any) -> str:
    return json.dumps(str(value), ensure_ascii=False)  # a JSON string is a YAML string
