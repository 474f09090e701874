"""Tokenizing a network once per tokenizer; the tokens are stored in the network's folder."""

from contextlib import suppress
from difflib import get_close_matches
from itertools import chain, islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.tokenizer import load_tokenizer, train_tokenizer
from edgeformers.data.tokens import TOKEN_LIMIT, TokenStore, open_tokens, token_meta, write_tokens
from edgeformers.errors import FormatError, InputError
from edgeformers.minilm import MINILM, has_minilm

TRAIN_PREFIX = "train:"  # "train:8000" trains a tokenizer on the network's texts
TRAINING_TEXTS = 500_000  # maximum number of texts, evenly spaced, to train a tokenizer on


def add_tokens(
    graph: EdgeTextGraph,
    tokenizer: str | PathLike[str],
    *,
    limit: int = TOKEN_LIMIT,
    progress: bool = True,
) -> TokenStore:
    """The token store of a network for a tokenizer, created if necessary.

    `tokenizer` is a name for `load_tokenizer`, such as that of a backbone, or "train:8000" to
    train one on the texts. Stores are identified by the contents of the tokenizer, so its folder
    may move. A store that is incomplete, or whose limit is below `limit`, is created again; one
    whose contents changed is a FormatError.
    """
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
