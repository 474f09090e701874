"""Frozen text vectors: what a pretrained encoder makes of each text, once per network."""

import hashlib
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from edgeformers.data.arrays import open_array, save_array
from edgeformers.data.batch import pack_texts
from edgeformers.data.checksums import (
    fingerprint_folder,
    read_checked_record,
    verify_files,
    write_record,
)
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.tokenize import add_tokens
from edgeformers.data.tokens import TokenStore
from edgeformers.errors import FormatError, InputError
from edgeformers.files import FolderExistsError, atomic_folder, check_no_foreign_files
from edgeformers.nn.backbones import find_backbone_folder, load_backbone
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.packed import PackedText

BACKBONE = "minilm"
MAX_TOKENS = 64  # tokens read of a text, as in the paper
BATCH_TOKENS = 16_384  # tokens encoded at once, of texts of about one length

Vectors = NDArray[np.float16]


def text_vectors(
    graph: EdgeTextGraph,
    backbone: str = BACKBONE,
    *,
    max_tokens: int = MAX_TOKENS,
    show: bool = False,
) -> Vectors:
    """The mean token state of every edge's text, of length one: [E, D], memory-mapped.

    Made at the first call, on the GPU where there is one, and kept in the network's folder: all
    baselines that read text share it. A backbone of other weights has a table of its own. One
    core reads about 50 texts of 64 tokens a second with MiniLM; a million texts take 0.8 GB.
    """
    encoder, tokens = _open(graph, backbone, show)
    folder = graph.path / "vectors" / _fingerprint(encoder, tokens, max_tokens)
    with suppress(FormatError):
        if folder.exists():
            return _read(folder, graph.num_edges)
    made = _encode(encoder, tokens, max_tokens, show)
    written = atomic_folder(folder, overwrite=folder.exists(), check=_check_replaceable)
    with suppress(FolderExistsError), written as aside:
        save_array(aside / "vectors.npy", made)
        facts = {"backbone": backbone, "max_tokens": max_tokens}
        write_record(aside / "vectors.json", {**facts, "files": fingerprint_folder(aside)})
    return _read(folder, graph.num_edges)


def _check_replaceable(folder: Path) -> None:
    check_no_foreign_files(folder, lambda name: name in ("vectors.npy", "vectors.json"))


def mean_pool(hidden: Tensor, text: PackedText) -> Tensor:
    """Token states [T, D] -> their mean over each text, of length one: [texts, D]."""
    sums = hidden.new_zeros(text.num_texts, hidden.size(1)).index_add_(0, text.text_ids, hidden)
    return torch.nn.functional.normalize(sums / text.lengths[:, None], dim=1)


def _open(graph: EdgeTextGraph, backbone: str, show: bool) -> tuple[TextEncoder, TokenStore]:
    encoder = load_backbone(backbone)
    named = backbone == BACKBONE
    folder = backbone if named else str(find_backbone_folder(backbone, weights=False))
    tokens = add_tokens(graph, folder, progress=show)
    if tokens.vocab_size > encoder.config.vocab_size:
        raise InputError(
            f"the tokenizer of '{backbone}' has {tokens.vocab_size:,} tokens, the backbone knows "
            f"{encoder.config.vocab_size:,}; they do not belong together"
        )
    return encoder, tokens


def _fingerprint(encoder: TextEncoder, tokens: TokenStore, max_tokens: int) -> str:
    """Everything the vectors depend on beside the texts."""
    facts = (tokens.meta.fingerprint, max_tokens, sorted(asdict(encoder.config).items()))
    digest = hashlib.sha256(repr(facts).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()[:16]


def _read(folder: Path, num_edges: int) -> Vectors:
    record = folder / "vectors.json"
    if record.is_file():
        verify_files(folder, read_checked_record(record).get("files", {}))
    vectors = open_array(folder / "vectors.npy")
    if len(vectors) != num_edges:
        raise FormatError(f"{folder} has {len(vectors):,} vectors for {num_edges:,} edges")
    return vectors


@torch.inference_mode()
def _encode(encoder: TextEncoder, tokens: TokenStore, max_tokens: int, show: bool) -> Vectors:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder.to(device).eval()
    lengths = np.minimum(tokens.lengths, max_tokens)
    order = np.argsort(lengths, kind="stable")[::-1]
    out = np.empty((len(tokens), encoder.width), np.float16)
    with tqdm(total=len(order), desc="reading texts", unit=" texts", disable=not show) as bar:
        at = 0
        while at < len(order):
            longest = max(1, int(lengths[order[at]]))
            rows = order[at : at + max(1, BATCH_TOKENS // longest)]
            text = pack_texts(tokens, rows, max_tokens).to(device)
            out[rows] = mean_pool(encoder(text).float(), text).cpu().numpy()
            bar.update(len(rows))
            at += len(rows)
    return out
