"""The texts of a network as tokens: once per tokenizer, kept in the network's folder."""

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

TRAIN_PREFIX = "train:"  # of a tokenizer's name: learn it from the network's own texts
TRAINING_TEXTS = 500_000  # texts such a tokenizer is learned from at most, spread evenly


def add_tokens(
    graph: EdgeTextGraph,
    tokenizer: str | PathLike[str],
    *,
    limit: int = TOKEN_LIMIT,
    progress: bool = True,
) -> TokenStore:
    """The token store of a network for a tokenizer, made now if it is not there yet.

    `tokenizer` is a name `load_tokenizer` knows, such as a backbone's, or "train:8000" to learn
    one from the texts. A store is known by what its tokenizer does, not by its name, so a
    backbone's folder may move. One that lacks a file, or keeps fewer tokens than `limit`, is made
    again; one whose contents changed is refused.
    """
    name = fspath(tokenizer)
    made = _trained(graph, name) if name.startswith(TRAIN_PREFIX) else load_tokenizer(name)
    folder = graph.storage.token_folder(token_meta(made, name).fingerprint)
    enough = False
    with suppress(FormatError):
        enough = folder.exists() and open_tokens(folder).meta.limit >= limit
    if enough:
        return open_tokens(folder, verify="changed")
    parts: dict[str, tuple[Any, int]] = {"edges": (graph.iter_texts(), graph.num_edges)}
    if graph.meta.has_node_texts:
        parts["nodes"] = (graph.iter_node_texts(), graph.num_nodes)
    replaced = folder.exists()
    write_tokens(folder, made, name, parts, limit=limit, overwrite=replaced, progress=progress)
    return open_tokens(folder)


def _trained(graph: EdgeTextGraph, name: str) -> Tokenizer:
    """The tokenizer learned from a network's texts, now or earlier."""
    size = _vocab_size(name)
    with suppress(FormatError):
        if name in graph.token_stores():
            return graph.token_store(name).tokenizer()
    step = -(-graph.num_edges // TRAINING_TEXTS)
    texts = chain.from_iterable(graph.iter_texts())
    return train_tokenizer(islice(texts, 0, None, step), size)


def _vocab_size(tokenizer: str) -> int:
    size = tokenizer.removeprefix(TRAIN_PREFIX)
    if not (size.isascii() and size.isdigit() and int(size) > 0):
        raise InputError(f"write the size of the vocabulary as train:8000 (got '{tokenizer}')")
    return int(size)


def checked_tokenizer(name: str | None) -> str | None:
    """The tokenizer to prepare with; one that cannot be had is refused before anything is read.

    "auto" is minilm where it is installed; None, or "auto" without it, is to tokenise later.
    """
    if name == "auto":
        name = MINILM if has_minilm() else None
    if name is None:
        return None
    if name.startswith(TRAIN_PREFIX):
        _vocab_size(name)
        return name
    own = [MINILM, "auto", "none"]
    close = get_close_matches(name, own, n=1)
    if close and name not in own and not Path(name).expanduser().exists():
        raise InputError(f"there is no tokenizer '{name}'; did you mean '{close[0]}'?")
    load_tokenizer(name)
    return name
