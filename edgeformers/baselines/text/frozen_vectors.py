"""Text vectors of a frozen encoder, computed once per network and cached in its folder."""

import hashlib
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.baselines.base import default_device
from edgeformers.data.batch import pack_texts
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.storage import (
    check_files,
    fingerprint_folder,
    open_array,
    read_checked_record,
    write_record,
)
from edgeformers.data.tokenize import add_tokens
from edgeformers.data.tokens import TokenStore
from edgeformers.errors import FormatError, InputError
from edgeformers.files import FolderExistsError, atomic_folder, check_no_foreign_files
from edgeformers.nn.backbones import find_backbone_folder, load_backbone
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.fast.onednn_layers import CACHED_TOKENS, onednn_inference
from edgeformers.nn.packed import PackedText
from edgeformers.nn.pooling import reduce_rows
from edgeformers.progress import progress_bar

BACKBONE = "minilm"
MAX_TOKENS = 64  # per text, as in the paper
BATCH_TOKENS = 16_384  # tokens per batch of texts of similar length on a GPU

Vectors = NDArray[np.float16]


def text_vectors(
    graph: EdgeTextGraph,
    backbone: str = BACKBONE,
    *,
    max_tokens: int = MAX_TOKENS,
    show: bool = False,
) -> Vectors:
    """The mean token state of every edge's text, of unit length: [E, D], memory-mapped.

    Computed by the first call, on the GPU if there is one, and cached in the network's folder for
    all baselines, separately for each backbone. With MiniLM, one core encodes about 50 texts of 64
    tokens per second, and a million texts take 0.8 GB.
    """
    encoder, tokens = _open(graph, backbone, show)
    folder = graph.path / "vectors" / _fingerprint(encoder, tokens, max_tokens)
    with suppress(FormatError):
        if folder.exists():
            return _read(folder, graph.num_edges)
    vectors = _encode(encoder, tokens, max_tokens, show)
    written = atomic_folder(folder, overwrite=folder.exists(), check=_check_replaceable)
    with suppress(FolderExistsError), written as partial:
        np.save(partial / "vectors.npy", vectors)
        settings = {"backbone": backbone, "max_tokens": max_tokens}
        write_record(partial / "vectors.json", {**settings, "files": fingerprint_folder(partial)})
    return _read(folder, graph.num_edges)


def _check_replaceable(folder: Path) -> None:
    check_no_foreign_files(folder, lambda name: name in ("vectors.npy", "vectors.json"))


def mean_pool(hidden: Tensor, text: PackedText) -> Tensor:
    """Token states [T, D] -> their mean over each text, of unit length: [texts, D]."""
    return F.normalize(reduce_rows(hidden, text.text_ids, text.num_texts, "mean"), dim=1)


def _open(graph: EdgeTextGraph, backbone: str, show: bool) -> tuple[TextEncoder, TokenStore]:
    encoder = load_backbone(backbone)
    is_folder = backbone != BACKBONE
    name = str(find_backbone_folder(backbone, weights=False)) if is_folder else backbone
    tokens = add_tokens(graph, name, progress=show)
    if tokens.vocab_size > encoder.config.vocab_size:
        raise InputError(
            f"the tokenizer of '{backbone}' has {tokens.vocab_size:,} tokens but its encoder only "
            f"{encoder.config.vocab_size:,}; they do not belong together"
        )
    return encoder, tokens


def _fingerprint(encoder: TextEncoder, tokens: TokenStore, max_tokens: int) -> str:
    """A hash of everything the vectors depend on except the texts."""
    settings = (tokens.meta.fingerprint, max_tokens, sorted(asdict(encoder.config).items()))
    digest = hashlib.sha256(repr(settings).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()[:16]


def _read(folder: Path, num_edges: int) -> Vectors:
    record = folder / "vectors.json"
    if record.is_file():
        check_files(folder, read_checked_record(record).get("files", {}), verify="changed")
    vectors = open_array(folder / "vectors.npy")
    if len(vectors) != num_edges:
        raise FormatError(f"{folder} has {len(vectors):,} vectors for {num_edges:,} edges")
    return vectors


@torch.inference_mode()
def _encode(encoder: TextEncoder, tokens: TokenStore, max_tokens: int, show: bool) -> Vectors:
    device = default_device()
    encoder.to(device).eval()
    lengths = np.minimum(tokens.lengths, max_tokens)
    order = np.argsort(lengths, kind="stable")[::-1]
    out = np.empty((len(tokens), encoder.width), np.float16)
    on_cpu = device.type == "cpu"
    budget = CACHED_TOKENS if on_cpu else BATCH_TOKENS
    bar = progress_bar(len(order), desc="encoding texts", unit="texts", show=show)
    with bar, onednn_inference(encoder.layers if on_cpu else ()):
        start = 0
        while start < len(order):
            longest = max(1, int(lengths[order[start]]))
            rows = order[start : start + max(1, budget // longest)]
            text = pack_texts(tokens, rows, max_tokens).to(device)
            out[rows] = mean_pool(encoder(text).float(), text).cpu().numpy()
            bar.update(len(rows))
            start += len(rows)
    return out
