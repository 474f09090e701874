"""TokenStore: the token ids of every text, each text tokenised once, as memory-mapped arrays."""

import hashlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from tokenizers import Tokenizer
from tqdm.auto import tqdm

from edgeformers.data.arrays import ArrayWriter, open_array
from edgeformers.data.checksums import (
    check_files,
    fingerprint_folder,
    read_checked_record,
    verify_files,
    write_record,
)
from edgeformers.data.numba_kernels import lay_texts
from edgeformers.data.tokenizer import TOKENIZER
from edgeformers.errors import FormatError, InputError
from edgeformers.files import FolderExistsError, atomic_folder, check_no_foreign_files

RECORD = "tokens.json"
TOKEN_LIMIT = 512  # tokens kept of one text; a batch cuts further, so no text is tokenised again
CHUNK = 2_048  # texts per call of the tokenizer: enough for every core, little in memory

Encoded = tuple[NDArray[Any], NDArray[np.int64]]  # token ids in one row, tokens of each text


@dataclass(frozen=True, kw_only=True)
class TokenMeta:
    """What a token store was made with: enough to put [CLS] and [SEP] around a text again."""

    name: str
    fingerprint: str  # of the tokenizer itself: the same tokenizer is never run twice
    vocab_size: int  # rows a table of token embeddings needs: the highest id and one more
    prefix: list[int]  # special tokens before a text, as the tokenizer's own template has them
    suffix: list[int]
    limit: int = TOKEN_LIMIT

    @property
    def dtype(self) -> DTypeLike:
        """The smallest type that holds every id: uint16 for up to 65,536 of them."""
        return np.uint16 if self.vocab_size <= 2**16 else np.int32


class TokenStore:
    """Token ids of many texts in one row, without padding and without special tokens.

    `ids[offsets[i] : offsets[i + 1]]` are the tokens of text i. Special tokens are added when a
    batch is cut to length, so one store serves every maximal length.
    """

    def __init__(self, folder: Path, meta: TokenMeta, part: str = "edges") -> None:
        self.folder = folder
        self.meta = meta
        self.part = part
        self.ids = open_array(folder / f"{part}.ids.npy")
        self.offsets = open_array(folder / f"{part}.offsets.npy")

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenStore, (self.folder, self.meta, self.part)  # mapped anew, never copied

    @property
    def name(self) -> str:
        return self.meta.name

    @property
    def vocab_size(self) -> int:
        return self.meta.vocab_size

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each text with its special tokens, cut at the store's limit only."""
        return np.diff(self.offsets).astype(np.int32) + np.int32(self.num_special)

    @cached_property
    def _special(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Special tokens before and after a text."""
        return np.array(self.meta.prefix, np.int64), np.array(self.meta.suffix, np.int64)

    @property
    def most_tokens(self) -> int:
        """The most tokens that are kept of a text, special ones included."""
        return self.meta.limit + self.num_special

    @property
    def num_special(self) -> int:
        """Special tokens around a text."""
        return len(self.meta.prefix) + len(self.meta.suffix)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer the store was made with."""
        try:
            return Tokenizer.from_file(str(self.folder / TOKENIZER))
        except Exception as error:  # the library raises plain Exception for a bad file
            path = self.folder / TOKENIZER
            raise FormatError(f"{path} is damaged ({error}); tokenise again") from error

    def take(self, text_ids: ArrayLike, max_tokens: int) -> Encoded:
        """(token ids, offsets) of chosen texts with special tokens, cut to `max_tokens`."""
        chosen, room = self._checked(text_ids), self._room(max_tokens)
        stored = np.asarray(self.offsets)  # a plain array is asked faster than a mapped one
        starts = stored[chosen]
        kept = np.minimum(stored[chosen + 1] - starts, room)
        offsets = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(kept + self.num_special, out=offsets[1:])
        out = np.empty(offsets[-1], self.ids.dtype)
        lay_texts(np.asarray(self.ids), starts, offsets, *self._special, out)
        return out, offsets

    def _room(self, max_tokens: int) -> int:
        """Tokens left for the text itself."""
        room = max_tokens - self.num_special
        if room < 0:
            raise InputError(
                f"max_tokens must hold the {self.num_special} special tokens at least "
                f"(got {max_tokens})"
            )
        if room > self.meta.limit:
            raise InputError(
                f"max_tokens is {max_tokens:,}, but {self.folder} keeps {self.meta.limit:,} tokens "
                f"of a text: {self.most_tokens:,} at most, or tokenise again "
                "with a higher limit"
            )
        return room

    def _checked(self, text_ids: ArrayLike) -> NDArray[np.int64]:
        chosen = np.asarray(text_ids, np.int64)
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < len(self):
            raise InputError(
                f"texts are numbered from 0 to {len(self) - 1:,} "
                f"(got {chosen.min():,} to {chosen.max():,})"
            )
        return chosen


def write_tokens(
    folder: Path,
    tokenizer: Tokenizer,
    name: str,
    parts: dict[str, tuple[Iterable[list[str]], int]],
    *,
    limit: int = TOKEN_LIMIT,
    overwrite: bool = False,
    progress: bool = True,
) -> TokenMeta:
    """Tokenise the texts of each part (chunks of texts, how many) into `folder`.

    With `overwrite` a store that is there is replaced; without, one that another process made
    meanwhile is left alone.
    """
    meta = token_meta(tokenizer, name, limit)
    written = atomic_folder(folder, overwrite=overwrite, check=_check_replaceable)
    with suppress(FolderExistsError), written as aside:
        tokenizer.save(str(aside / TOKENIZER))
        for part, (chunks, count) in parts.items():
            encoded = encode_chunks(tokenizer, chunks, meta.dtype, limit)
            bar = tqdm(total=count, desc=f"tokenising {part}", unit=" texts", disable=not progress)
            with bar, closing(encoded):
                _write_part(aside, part, encoded, meta, bar)
        record = {"meta": asdict(meta), "files": fingerprint_folder(aside)}
        write_record(aside / RECORD, record)
    return meta


def _check_replaceable(folder: Path) -> None:
    arrays = {f"{part}.{name}.npy" for part in ("edges", "nodes") for name in ("ids", "offsets")}
    check_no_foreign_files(folder, lambda name: name in {RECORD, TOKENIZER, *arrays})


def _write_part(
    folder: Path, part: str, encoded: Iterator[Encoded], meta: TokenMeta, bar: Any
) -> None:
    with (
        ArrayWriter(folder / f"{part}.ids.npy", meta.dtype) as ids,
        ArrayWriter(folder / f"{part}.offsets.npy", np.int64) as offsets,
    ):
        offsets.append(np.zeros(1, np.int64))
        for tokens, lengths in encoded:
            offsets.append(ids.length + np.cumsum(lengths))
            ids.append(tokens)
            bar.update(len(lengths))


def encode_chunks(
    tokenizer: Tokenizer, chunks: Iterable[list[str]], dtype: Any, limit: int
) -> Generator[Encoded, None, None]:
    """(token ids in one row, tokens per text), piece by piece; the next is encoded meanwhile."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    pieces = (texts[i : i + CHUNK] for texts in chunks for i in range(0, len(texts), CHUNK))

    def encode(texts: list[str]) -> list[Any]:
        return list(tokenizer.encode_batch_fast(texts, add_special_tokens=False))

    try:
        with ThreadPoolExecutor(1) as ahead:
            waiting: deque[Future[list[Any]]] = deque()
            for piece in pieces:
                waiting.append(ahead.submit(encode, piece))
                if len(waiting) > 1:
                    yield _as_arrays(waiting.popleft().result(), dtype)
            while waiting:
                yield _as_arrays(waiting.popleft().result(), dtype)
    finally:
        tokenizer.no_truncation()


def _as_arrays(encoded: list[Any], dtype: Any) -> Encoded:
    rows = [one.ids for one in encoded]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum())), lengths


def open_tokens(
    folder: Path, part: str = "edges", *, verify: bool | Literal["changed"] = False
) -> TokenStore:
    """The token store in a folder, its files checked for presence and size.

    With `verify`, checksums are compared too, those of all files or of those that changed.
    """
    if not (folder / RECORD).is_file():
        raise FormatError(
            f"{folder} is not a token store: it has no {RECORD}; remove it and tokenise again"
        )
    record = read_checked_record(folder / RECORD)
    try:
        meta = TokenMeta(**record["meta"])
        files = dict(record["files"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{folder / RECORD} does not describe a token store of this library ({error}); "
            "remove the folder and tokenise again"
        ) from error
    if verify == "changed":
        verify_files(folder, files)
    else:
        check_files(folder, files, checksums=verify)
    if f"{part}.ids.npy" not in files:
        raise InputError(f"{folder} has no tokens of {part}: the network has no texts for them")
    return TokenStore(folder, meta, part)


def token_meta(tokenizer: Tokenizer, name: str, limit: int = TOKEN_LIMIT) -> TokenMeta:
    """Special tokens and fingerprint of a tokenizer."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    probe = tokenizer.encode("a")
    special = np.array(probe.special_tokens_mask, bool)
    body = np.flatnonzero(~special)
    start, stop = (body[0], body[-1] + 1) if len(body) else (len(special), len(special))
    digest = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    return TokenMeta(
        name=name,
        fingerprint=digest[:16],
        vocab_size=1 + max(tokenizer.get_vocab().values(), default=0),
        prefix=list(probe.ids[:start]),
        suffix=list(probe.ids[stop:]),
        limit=limit,
    )
