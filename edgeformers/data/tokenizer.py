"""Where tokenizers come from: a file, a folder, the offline backbone, the hub, or the texts."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgeformers.errors import InputError, suggest
from edgeformers.minilm import MINILM, has_minilm, minilm_folder

TOKENIZER = "tokenizer.json"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # of a tokenizer trained here
HUB_TIMEOUT = 4  # seconds the hub has to answer whether it knows a name

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def load_tokenizer(name: str) -> Tokenizer:
    """A tokenizer by name: "minilm", a tokenizer.json, a folder that has one, or a hub name."""
    path = minilm_folder() if name == MINILM else Path(name).expanduser()
    try:
        if (path / TOKENIZER).is_file():
            path = path / TOKENIZER
        if path.is_dir():
            tokenizer = _converted(path)
        else:
            tokenizer = Tokenizer.from_file(str(path if path.is_file() else _from_hub(name)))
    except InputError:
        raise
    except Exception as error:  # the library raises plain Exception for a bad file
        raise InputError(
            f"no tokenizer '{name}': give '{MINILM}', a folder with {TOKENIZER}, or the name of "
            f"a model on the hub ({_first_line(error)})"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _from_hub(name: str) -> Path:
    """The tokenizer.json of a model on the hub: the cached one, or else fetched now.

    The hub is asked once whether it has the file. The client's own download would ask again and
    again, for half a minute, where there is no network.
    """
    if not _HUB_NAME.fullmatch(name):
        raise InputError(f"{name}: no such file or folder; {_remedy(name)}")
    import huggingface_hub as hub

    cached = hub.try_to_load_from_cache(name, TOKENIZER)
    if isinstance(cached, str):
        return Path(cached)
    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(name, TOKENIZER), timeout=HUB_TIMEOUT)
        return Path(hub.hf_hub_download(name, TOKENIZER))
    except Exception as error:  # the hub's client raises many kinds, not all of one base
        raise InputError(
            f"no tokenizer '{name}': it is no file or folder here, and the Hugging Face hub did "
            f"not give it ({_first_line(error)}); {_remedy(name)}"
        ) from error


def _remedy(name: str) -> str:
    """The nearest of the names that need no network, or all of them."""
    own = [*([MINILM] if has_minilm() else []), "train:8000"]
    return suggest(name, [*own, *_cached_names()])


def _cached_names() -> list[str]:
    """Models on the hub whose tokenizer has been fetched before."""
    from huggingface_hub.constants import HF_HUB_CACHE

    found = Path(HF_HUB_CACHE).glob(f"models--*/snapshots/*/{TOKENIZER}")
    names = {path.parents[2].name.removeprefix("models--").replace("--", "/") for path in found}
    return sorted(names)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _converted(folder: Path) -> Tokenizer:
    """The tokenizer of an older checkpoint, which has a vocab.txt or the like."""
    from transformers import AutoTokenizer

    tokenizer: Tokenizer = AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    return tokenizer


def train_tokenizer(texts: Iterable[str], vocab_size: int = 8_000) -> Tokenizer:
    """A word-piece tokenizer learned from the texts themselves, for work without any download.

    The same texts give the same tokenizer. The trainer numbers pieces such as "##a" in an order
    that changes from run to run, and breaks ties by these numbers; so the pieces are collected
    first, then given to it in order, as if they were special tokens.
    """
    known = list(texts)
    pieces = _train(known, vocab_size=1, special=SPECIAL)
    single = sorted(piece for piece in pieces if piece.startswith("##"))
    vocab = _train(known, vocab_size, [*SPECIAL, *single])
    tokenizer = _word_pieces(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def _train(texts: list[str], vocab_size: int, special: list[str]) -> dict[str, int]:
    tokenizer = _word_pieces(models.WordPiece(unk_token="[UNK]"))
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    vocab: dict[str, int] = tokenizer.get_vocab()
    return vocab


def _word_pieces(model: Any) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
