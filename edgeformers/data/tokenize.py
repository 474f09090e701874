"""Tokenizers, and tokenizing a network once per tokenizer; the tokens are stored in its folder."""

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from itertools import chain, islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.tokens import (
    TOKEN_LIMIT,
    TOKENIZER,
    TokenStore,
    open_tokens,
    token_meta,
    write_tokens,
)
from edgeformers.errors import FormatError, InputError, suggest
from edgeformers.hub import TIMEOUT, is_hub_name
from edgeformers.minilm import MINILM, has_minilm, minilm_folder

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # of trained tokenizers
TRAIN_PREFIX = "train:"  # "train:8000" trains a tokenizer on the network's texts
TRAINING_TEXTS = 500_000  # maximum number of texts, evenly spaced, to train a tokenizer on


def add_tokens(
    graph: EdgeTextGraph,
    tokenizer: str | PathLike[str] | Tokenizer,
    *,
    limit: int = TOKEN_LIMIT,
    progress: bool = True,
) -> TokenStore:
    """The token store of a network for a tokenizer, created if necessary.

    `tokenizer` is a name for `load_tokenizer`, such as that of a backbone, "train:8000" to train
    one on the texts, or a tokenizer. Stores are identified by the contents of the tokenizer, so its
    folder may move. A store that is incomplete, or whose limit is below `limit`, is created again;
    one whose contents changed is a FormatError.
    """
    if isinstance(tokenizer, Tokenizer):
        name, loaded = "tokenizer of a model", Tokenizer.from_str(tokenizer.to_str())
    else:
        name = fspath(tokenizer)
        loaded = _trained(graph, name) if name.startswith(TRAIN_PREFIX) else load_tokenizer(name)
    folder = graph.path / "tokens" / token_meta(loaded, name).fingerprint
    is_usable = False
    with suppress(FormatError):
        is_usable = folder.exists() and open_tokens(folder).meta.limit >= limit
    if is_usable:
        return open_tokens(folder, verify="changed")
    parts: dict[str, tuple[Any, int]] = {"edges": (graph.iter_texts(), graph.num_edges)}
    if graph.meta.has_node_texts:
        parts["nodes"] = (graph.iter_node_texts(), graph.num_nodes)
    overwrite = folder.exists()
    write_tokens(folder, loaded, name, parts, limit=limit, overwrite=overwrite, progress=progress)
    return open_tokens(folder)


def checked_tokenizer(name: str | None) -> str | None:
    """The tokenizer to prepare with; an unavailable one is an error before anything is read.

    "auto" means minilm if it is installed; None, or "auto" without it, means to tokenize later.
    """
    if name == "auto":
        name = MINILM if has_minilm() else None
    if name is None:
        return None
    if name.startswith(TRAIN_PREFIX):
        _vocab_size(name)
        return name
    keywords = [MINILM, "auto", "none"]
    matches = get_close_matches(name, keywords, n=1)
    if matches and name not in keywords and not Path(name).expanduser().exists():
        raise InputError(f"no tokenizer '{name}'; did you mean '{matches[0]}'?")
    load_tokenizer(name)
    return name


def _trained(graph: EdgeTextGraph, name: str) -> Tokenizer:
    """The tokenizer trained on the network's texts, now or before."""
    size = _vocab_size(name)
    with suppress(FormatError):
        if name in graph.token_stores():
            return graph.token_store(name).tokenizer()
    step = -(-graph.num_edges // TRAINING_TEXTS)
    texts = chain.from_iterable(graph.iter_texts())
    return train_tokenizer(islice(texts, 0, None, step), size)


def _vocab_size(name: str) -> int:
    size = name.removeprefix(TRAIN_PREFIX)
    if not (size.isascii() and size.isdigit() and int(size) > 0):
        raise InputError(f"write the vocabulary size as in train:8000 (got '{name}')")
    return int(size)


def load_tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer: "minilm", a tokenizer.json, a folder with one, or a name on the hub."""
    path = minilm_folder() if name == MINILM else Path(name).expanduser()
    try:
        if (path / TOKENIZER).is_file():
            path = path / TOKENIZER
        if path.is_dir():
            tokenizer = _convert(path)
        else:
            tokenizer = Tokenizer.from_file(str(path if path.is_file() else _from_hub(name)))
    except InputError:
        raise
    except Exception as error:  # tokenizers raises plain Exception
        raise InputError(
            f"no tokenizer '{name}': use '{MINILM}', a folder with {TOKENIZER}, or the name of a "
            f"model on the Hugging Face hub ({_first_line(error)})"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _from_hub(name: str) -> Path:
    """The tokenizer.json of a model on the hub, from the local cache or downloaded.

    One request with a short timeout checks whether the file exists, because the download itself
    retries for half a minute without a network.
    """
    if not is_hub_name(name):
        raise InputError(f"{name}: no such file or folder; {_hint(name)}")
    import huggingface_hub as hub

    cached = hub.try_to_load_from_cache(name, TOKENIZER)
    if isinstance(cached, str):
        return Path(cached)
    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(name, TOKENIZER), timeout=TIMEOUT)
        return Path(hub.hf_hub_download(name, TOKENIZER))
    except Exception as error:  # huggingface_hub raises errors without a common base
        raise InputError(
            f"no tokenizer '{name}': it is not a local file or folder, and it cannot be loaded "
            f"from the Hugging Face hub ({_first_line(error)}); {_hint(name)}"
        ) from error


def _hint(name: str) -> str:
    """The closest of the names that need no network, or all of them."""
    built_in = [*([MINILM] if has_minilm() else []), "train:8000"]
    return suggest(name, [*built_in, *_cached_names()])


def _cached_names() -> list[str]:
    """Models on the hub whose tokenizer is in the local cache."""
    from huggingface_hub.constants import HF_HUB_CACHE

    paths = Path(HF_HUB_CACHE).glob(f"models--*/snapshots/*/{TOKENIZER}")
    names = {path.parents[2].name.removeprefix("models--").replace("--", "/") for path in paths}
    return sorted(names)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _convert(folder: Path) -> Tokenizer:
    """Convert the tokenizer of an older checkpoint, such as a vocab.txt."""
    from transformers import AutoTokenizer

    tokenizer: Tokenizer = AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    return tokenizer


def train_tokenizer(texts: Iterable[str], vocab_size: int = 8_000) -> Tokenizer:
    """Train a WordPiece tokenizer on texts, deterministically and without any download.

    The library numbers single-letter pieces ("##a") in an order that changes from run to run, and
    breaks ties by these numbers. Passing the sorted pieces as special tokens fixes the order.
    """
    corpus = list(texts)
    pieces = _train(corpus, vocab_size=1, special=SPECIAL)
    letters = sorted(piece for piece in pieces if piece.startswith("##"))
    vocab = _train(corpus, vocab_size, [*SPECIAL, *letters])
    tokenizer = _word_piece(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def _train(texts: list[str], vocab_size: int, special: list[str]) -> dict[str, int]:
    tokenizer = _word_piece(models.WordPiece(unk_token="[UNK]"))
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    vocab: dict[str, int] = tokenizer.get_vocab()
    return vocab


def _word_piece(model: Any) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
