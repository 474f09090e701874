"""Tokenizers: loaded from a file, a folder or the Hugging Face hub, or trained on texts."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgeformers.errors import InputError, suggest
from edgeformers.minilm import MINILM, has_minilm, minilm_folder

TOKENIZER = "tokenizer.json"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # of trained tokenizers
HUB_TIMEOUT = 4  # seconds

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


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
    if not _HUB_NAME.fullmatch(name):
        raise InputError(f"{name}: no such file or folder; {_hint(name)}")
    import huggingface_hub as hub

    cached = hub.try_to_load_from_cache(name, TOKENIZER)
    if isinstance(cached, str):
        return Path(cached)
    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(name, TOKENIZER), timeout=HUB_TIMEOUT)
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
