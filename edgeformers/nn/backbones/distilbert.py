"""DistilBERT: the layers of BERT under other names, without segment embeddings."""

from collections.abc import Iterator
from typing import Any

from edgeformers.nn.backbones.family import (
    Family,
    ParameterMap,
    linear,
    read_settings,
    write_settings,
)
from edgeformers.nn.encoder import EncoderConfig

_SETTINGS = {
    "vocab_size": "vocab_size",
    "width": "dim",
    "heads": "n_heads",
    "layers": "n_layers",
    "ffn_width": "hidden_dim",
    "max_positions": "max_position_embeddings",
    "pad_token_id": "pad_token_id",
    "activation": "activation",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}


def _read(published: Any) -> EncoderConfig:
    settings = read_settings(published, _SETTINGS)
    return EncoderConfig(
        family="distilbert", type_vocab=0, embedding_dropout=published.dropout, **settings
    )


def _write(config: EncoderConfig) -> dict[str, Any]:
    return write_settings(config, _SETTINGS)


def _parameters(config: EncoderConfig) -> Iterator[ParameterMap]:
    yield ("embeddings.tokens.weight",), ("embeddings.word_embeddings.weight",)
    yield ("embeddings.positions.weight",), ("embeddings.position_embeddings.weight",)
    yield from linear("embeddings.norm", "embeddings.LayerNorm")
    for index in range(config.layers):
        ours, theirs = f"layers.{index}", f"transformer.layer.{index}"
        heads = f"{theirs}.attention"
        yield from linear(f"{ours}.attention.query", f"{heads}.q_lin")
        yield from linear(f"{ours}.attention.key_value", (f"{heads}.k_lin", f"{heads}.v_lin"))
        yield from linear(f"{ours}.attention.out", f"{heads}.out_lin")
        yield from linear(f"{ours}.attention_norm", f"{theirs}.sa_layer_norm")
        yield from linear(f"{ours}.ffn.up", f"{theirs}.ffn.lin1")
        yield from linear(f"{ours}.ffn.down", f"{theirs}.ffn.lin2")
        yield from linear(f"{ours}.ffn_norm", f"{theirs}.output_layer_norm")


DISTILBERT = Family("DistilBertModel", "distilbert.", _read, _write, _parameters)
