"""TokenStore: token ids of all texts of a network, as memory-mapped arrays."""

import hashlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from tokenizers import Tokenizer

from edgeformers.data.jit import jit
from edgeformers.data.numba_kernels import copy_texts
from edgeformers.data.prefetch import prefetch
from edgeformers.data.storage import (
    ArrayWriter,
    Verify,
    check_files,
    check_offsets,
    check_once,
    check_range,
    fingerprint_folder,
    open_array,
    read_checked_record,
    write_record,
)
from edgeformers.data.text_states import TextStates
from edgeformers.data.types import Ids
from edgeformers.decode import decode
from edgeformers.errors import EdgeformersError, FormatError, InputError
from edgeformers.files import FolderExistsError, atomic_folder, check_no_foreign_files
from edgeformers.progress import progress_bar

RECORD = "tokens.json"
TOKENIZER = "tokenizer.json"
TOKEN_LIMIT = 512  # tokens stored per text; batches truncate further
CHUNK = 2_048  # texts per call of the tokenizer: enough to occupy every core

Encoded = tuple[NDArray[Any], Ids]  # concatenated token ids, and lengths or offsets of texts


@dataclass(frozen=True, kw_only=True)
class TokenMeta:
    """The tokenizer of a token store, and its special tokens."""

    name: str
    fingerprint: str  # of the tokenizer's contents, whatever its name
    vocab_size: int  # the highest token id plus one
    prefix: list[int]  # special tokens before a text, such as [CLS]
    suffix: list[int]  # special tokens after a text, such as [SEP]
    limit: int = TOKEN_LIMIT  # tokens stored per text, without special tokens

    @property
    def dtype(self) -> DTypeLike:
        """The smallest type for all token ids: uint16 up to a vocabulary of 65,536."""
        return np.uint16 if self.vocab_size <= 2**16 else np.int32


class TokenStore:
    """Concatenated token ids of many texts, without padding and special tokens.

    `ids[offsets[i] : offsets[i + 1]]` are the tokens of text i. `take` truncates texts and adds
    special tokens, so one store serves every maximum length.
    """

    states: TextStates | None = None  # of the frozen layers of the model in training

    def __init__(self, folder: Path, meta: TokenMeta, part: str = "edges") -> None:
        self.folder = folder
        self.meta = meta
        self.part = part
        self.ids = open_array(folder / f"{part}.ids.npy", "iu")
        self._path = folder / f"{part}.offsets.npy"
        self._stored = open_array(self._path, "iu")
        self._num_ids = max(meta.vocab_size, 1 + max(meta.prefix + meta.suffix, default=0))
        if self.ids.ndim != 1 or self._stored.ndim != 1 or not len(self._stored):
            raise FormatError(f"{folder} is damaged; remove it and tokenize again")

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenStore, (self.folder, self.meta, self.part)  # map again, do not copy

    @property
    def name(self) -> str:
        return self.meta.name

    @property
    def vocab_size(self) -> int:
        return self.meta.vocab_size

    @cached_property
    def offsets(self) -> Ids:
        """Where the tokens of each text begin [texts + 1]."""
        return check_once(check_offsets, self._stored, len(self.ids), path=self._path)

    def __len__(self) -> int:
        return len(self._stored) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The number of stored tokens of each text, with special tokens."""
        return self.lengths_of(np.arange(len(self)))

    def lengths_of(self, text_ids: Ids) -> NDArray[np.int32]:
        """The number of stored tokens of some texts, with special tokens."""
        lengths = self.offsets[text_ids + 1] - self.offsets[text_ids]
        return np.asarray(lengths, np.int32) + np.int32(self.num_special)

    @property
    def num_special(self) -> int:
        """The number of special tokens around a text."""
        return len(self.meta.prefix) + len(self.meta.suffix)

    @property
    def max_tokens(self) -> int:
        """The maximum number of tokens of a text, with special tokens."""
        return self.meta.limit + self.num_special

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the store."""
        try:
            return Tokenizer.from_file(str(self.folder / TOKENIZER))
        except Exception as error:  # tokenizers raises plain Exception
            path = self.folder / TOKENIZER
            raise FormatError(f"{path} is damaged ({error}); tokenize again") from error

    def take(self, text_ids: ArrayLike, max_tokens: int) -> Encoded:
        """(token ids, offsets) of some texts, with special tokens, truncated to `max_tokens`."""
        texts = np.asarray(text_ids, np.int64)
        if len(texts) and not 0 <= texts.min() <= texts.max() < len(self):
            raise InputError(
                f"texts are numbered from 0 to {len(self) - 1:,} "
                f"(got {texts.min():,} to {texts.max():,})"
            )
        if max_tokens < self.num_special:
            raise InputError(
                f"max_tokens must be at least {self.num_special}, the number of special tokens "
                f"(got {max_tokens})"
            )
        if max_tokens > self.max_tokens:
            raise InputError(
                f"max_tokens can be at most {self.max_tokens:,} for {self.folder} "
                f"(got {max_tokens:,}); tokenize again with a higher limit"
            )
        stored = np.asarray(self.offsets)  # indexing a plain array is faster than a memmap
        starts = stored[texts]
        lengths = np.minimum(stored[texts + 1] - starts + self.num_special, max_tokens)
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        out = np.empty(offsets[-1], self.ids.dtype)
        special = (np.array(tokens, np.int64) for tokens in (self.meta.prefix, self.meta.suffix))
        copy = jit(copy_texts, len(texts) + len(out) // 10)
        copy(np.asarray(self.ids), starts, offsets, *special, out)
        check_range(out, 0, self._num_ids, self.folder / f"{self.part}.ids.npy")
        return out, offsets

    def count_documents(self, text_ids: Ids, max_tokens: int, *, chunk: int = 65_536) -> Ids:
        """The number of texts, truncated as in a batch, that contain each token [vocabulary].

        Special tokens, which every text has, count as 0.
        """
        counts = np.zeros(self.vocab_size, np.int64)
        for start in range(0, len(text_ids), chunk):
            ids, offsets = self.take(text_ids[start : start + chunk], max_tokens)
            text = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            cells = np.unique(text * self.vocab_size + ids)
            counts += np.bincount(cells % self.vocab_size, minlength=self.vocab_size)
        counts[[*self.meta.prefix, *self.meta.suffix]] = 0
        return counts


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
    """Tokenize the texts of each part (chunks of texts, and their number) into `folder`.

    Without `overwrite`, a store that another process wrote in the meantime is kept.
    """
    meta = token_meta(tokenizer, name, limit)
    output = atomic_folder(folder, overwrite=overwrite, check=_check_replaceable)
    with suppress(FolderExistsError), output as temporary:
        tokenizer.save(str(temporary / TOKENIZER))
        for part, (chunks, count) in parts.items():
            encoded = encode_chunks(tokenizer, chunks, meta.dtype, limit)
            bar = progress_bar(count, desc=f"tokenizing {part}", unit="texts", show=progress)
            with bar, closing(encoded):
                _write_part(temporary, part, encoded, meta.dtype, bar)
        record = {"meta": asdict(meta), "files": fingerprint_folder(temporary)}
        write_record(temporary / RECORD, record)
    return meta


def _check_replaceable(folder: Path) -> None:
    arrays = {f"{part}.{name}.npy" for part in ("edges", "nodes") for name in ("ids", "offsets")}
    check_no_foreign_files(folder, lambda name: name in {RECORD, TOKENIZER, *arrays})


def _write_part(
    folder: Path, part: str, encoded: Iterator[Encoded], dtype: DTypeLike, bar: Any
) -> None:
    end = 0
    with (
        ArrayWriter(folder / f"{part}.ids.npy", dtype) as ids,
        ArrayWriter(folder / f"{part}.offsets.npy", np.int64) as offsets,
    ):
        offsets.append(np.zeros(1, np.int64))
        for piece, lengths in encoded:
            ids.append(piece)
            offsets.append(end + np.cumsum(lengths))
            end += len(piece)
            bar.update(len(lengths))


def encode_chunks(
    tokenizer: Tokenizer, chunks: Iterable[list[str]], dtype: Any, limit: int
) -> Generator[Encoded, None, None]:
    """Yield (token ids, tokens per text) of pieces, encoding the next piece in the background."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    pieces = (texts[i : i + CHUNK] for texts in chunks for i in range(0, len(texts), CHUNK))

    def encode(texts: list[str]) -> list[Any]:
        return list(tokenizer.encode_batch_fast(texts, add_special_tokens=False))

    try:
        with closing(prefetch(encode, pieces, ahead=2)) as encoded:
            for piece in encoded:
                rows = [text.ids for text in piece]
                lengths = np.fromiter(map(len, rows), np.int64, len(rows))
                yield np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum())), lengths
    finally:
        tokenizer.no_truncation()


def open_tokens(folder: Path, part: str = "edges", *, verify: Verify = False) -> TokenStore:
    """Open the token store in a folder; its files are checked for presence and size.

    `verify` also compares the checksums of all files, or of those that changed.
    """
    if not (folder / RECORD).is_file():
        raise FormatError(
            f"{folder} is not a token store: it has no {RECORD}; remove it and tokenize again"
        )
    record = read_checked_record(folder / RECORD)
    try:
        meta = decode(TokenMeta, record.get("meta"))
        files = decode(dict[str, dict[str, Any]], record.get("files"))
        if min(meta.limit, meta.vocab_size, *meta.prefix, *meta.suffix) < 0:
            raise FormatError("a size or a special token is negative")
    except EdgeformersError as error:
        raise FormatError(
            f"{folder / RECORD} does not describe a token store ({error}); "
            "remove the folder and tokenize again"
        ) from error
    check_files(folder, files, verify=verify)
    if meta.vocab_size > files.get(TOKENIZER, {"bytes": 0})["bytes"]:  # tokens are at least a byte
        raise FormatError(
            f"{folder / TOKENIZER} is too small for {meta.vocab_size:,} tokens; remove the folder "
            "and tokenize again"
        )
    if f"{part}.ids.npy" not in files:
        raise InputError(f"{folder} has no tokens of {part}: the network has no such texts")
    return TokenStore(folder, meta, part)


def token_meta(tokenizer: Tokenizer, name: str, limit: int = TOKEN_LIMIT) -> TokenMeta:
    """The fingerprint, vocabulary size and special tokens of a tokenizer."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    example = tokenizer.encode("a")
    is_special = np.array(example.special_tokens_mask, bool)
    body = np.flatnonzero(~is_special)
    start, stop = (body[0], body[-1] + 1) if len(body) else (len(is_special), len(is_special))
    digest = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    return TokenMeta(
        name=name,
        fingerprint=digest[:16],
        vocab_size=1 + max(tokenizer.get_vocab().values(), default=0),
        prefix=list(example.ids[:start]),
        suffix=list(example.ids[stop:]),
        limit=limit,
    )
