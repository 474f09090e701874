"""The start of training: backbones, tokens, initial node vectors and LoRA adapters."""

import math
import re
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from edgeformers.data.batch import pack_texts
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import TRAIN
from edgeformers.data.tokenize import add_tokens
from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids
from edgeformers.errors import ConfigError, InputError, require
from edgeformers.minilm import MINILM
from edgeformers.nn.backbones import find_backbone_folder, load_backbone, random_backbone
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.nn.encoder import EncoderConfig, TextEncoder

SCRATCH = "scratch:"  # prefix of untrained backbones
_SCRATCH = re.compile(r"scratch:(\d+)x(\d+)")
SCRATCH_VOCABULARY = "train:8000"


def open_backbone(
    backbone: str,
    graph: EdgeTextGraph,
    *,
    seed: int = 0,
    show: bool = True,
    tokenizer: Tokenizer | None = None,
) -> tuple[TextEncoder, TokenStore]:
    """The encoder at the start of a run, and the network's texts in its tokens.

    In addition to the names of `load_backbone`, "scratch:2x64" is an untrained encoder with 2
    layers of width 64 and a vocabulary learned from the network, which needs no download.
    `tokenizer` is that of a trained model to start from, if any.
    """
    encoder = None if is_scratch(backbone) else load_backbone(backbone)
    tokens = backbone_tokens(backbone, graph, show=show, tokenizer=tokenizer)
    if encoder is None:
        return random_backbone(_scratch_config(backbone, tokens.vocab_size), seed=seed), tokens
    if tokens.vocab_size > encoder.config.vocab_size:
        raise InputError(
            f"the tokenizer of '{backbone}' has {tokens.vocab_size:,} tokens, the backbone only "
            f"{encoder.config.vocab_size:,}; use a matching tokenizer and backbone"
        )
    return encoder, tokens


def backbone_tokens(
    backbone: str, graph: EdgeTextGraph, *, show: bool = True, tokenizer: Tokenizer | None = None
) -> TokenStore:
    """The network's texts in the tokens of a backbone, without loading its weights."""
    if tokenizer is not None:
        return add_tokens(graph, tokenizer, progress=show)
    if is_scratch(backbone):
        _scratch_config(backbone)
        return add_tokens(graph, SCRATCH_VOCABULARY, progress=show)
    folder = backbone if backbone == MINILM else str(find_backbone_folder(backbone, weights=False))
    return add_tokens(graph, folder, progress=show)


def make_bag_of_words(
    tokens: TokenStore, edge_ids: Ids, max_tokens: int, *, words: int, width: int, seed: int = 0
) -> BagOfWords:
    """An untrained bag-of-words encoder of the most frequent words in the texts of `edge_ids`."""
    counts = tokens.count_documents(edge_ids, max_tokens)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BagOfWords.from_counts(counts, len(edge_ids), words=words, width=width)


def is_scratch(backbone: str) -> bool:
    """Whether a backbone is untrained."""
    return backbone.startswith(SCRATCH.rstrip(":"))


def _scratch_config(backbone: str, vocab_size: int = 1) -> EncoderConfig:
    match = _SCRATCH.fullmatch(backbone)
    if match is None:
        raise ConfigError(f"untrained backbones have the form scratch:2x64 (got '{backbone}')")
    layers, width = int(match[1]), int(match[2])
    if layers < 2 or width % 16 or not width:
        raise ConfigError(
            f"untrained backbones need at least 2 layers and a width that is a multiple of 16 "
            f"(got '{backbone}')"
        )
    return EncoderConfig(
        vocab_size=vocab_size,
        width=width,
        heads=max(2, width // 64) if width % 32 == 0 else 1,
        layers=layers,
        ffn_width=4 * width,
    )


def factorize(graph: EdgeTextGraph, split: str, width: int, *, seed: int = 0) -> Tensor:
    """Node vectors [N, K] by truncated SVD of the training adjacency.

    The adjacency is normalized by the degrees of both ends, so that hubs do not dominate. Vectors
    are scaled by `scale_vectors`.
    """
    chosen = (graph.split(split) == TRAIN) & graph.is_positive
    src = torch.from_numpy(graph.src[chosen].astype(np.int64))
    dst = torch.from_numpy(graph.dst[chosen].astype(np.int64))
    out = torch.bincount(src, minlength=graph.num_nodes).clamp(min=1).float()
    into = torch.bincount(dst, minlength=graph.num_nodes).clamp(min=1).float()
    values = (out[src] * into[dst]).rsqrt()
    shape = (graph.num_nodes, graph.num_nodes)
    indices = torch.stack([src, dst])
    matrix = torch.sparse_coo_tensor(indices, values, shape, check_invariants=False).coalesce()
    rank = min(width, graph.num_nodes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        u, s, v = torch.svd_lowrank(matrix, q=rank, niter=4)
    vectors = (u + v) * s.sqrt()  # in bipartite networks, one of them is zero
    return scale_vectors(torch.nn.functional.pad(vectors, (0, width - rank)))


def scale_vectors(vectors: Tensor) -> Tensor:
    """Vectors [N, K] scaled to a mean square of 1 / K."""
    root_mean_square = vectors.square().mean().sqrt().clamp(min=1e-12)
    return vectors / root_mean_square / math.sqrt(vectors.size(1))


@torch.inference_mode()
def node_text_features(
    encoder: TextEncoder, tokens: TokenStore, max_tokens: int, *, device: torch.device
) -> Tensor:
    """Vectors of node texts [N, D]: mean token states of the untrained model's encoder."""
    encoder.to(device).eval()
    order = np.argsort(tokens.lengths, kind="stable")
    out = torch.zeros(len(tokens), encoder.config.width)
    for at in range(0, len(order), 256):
        rows = order[at : at + 256]
        text = pack_texts(tokens, rows, max_tokens).to(device)
        sums = torch.zeros(len(rows), encoder.config.width, device=device)
        sums.index_add_(0, text.text_ids, encoder(text).float())
        out[torch.from_numpy(rows)] = (sums / text.lengths[:, None]).cpu()
    return out


#: The linear maps of a layer that get adapters.
LORA_TARGETS = ("query", "key_value", "out", "up", "down")


def apply_lora(encoder: TextEncoder, rank: int, *, seed: int = 0) -> None:
    """Freeze the encoder and add trainable LoRA adapters to its linear maps (peft)."""
    peft: Any = require("peft", "lora")
    encoder.requires_grad_(False)
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(LORA_TARGETS))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        peft.inject_adapter_in_model(config, encoder)


def merge_lora(encoder: TextEncoder) -> None:
    """Merge LoRA adapters into the weights, leaving a plain encoder."""
    for name, module in list(encoder.named_modules()):
        if hasattr(module, "merge") and hasattr(module, "base_layer"):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(encoder.get_submodule(parent), child, module.base_layer)
    vars(encoder).pop("peft_config", None)  # set by peft
    encoder.requires_grad_(True)
