"""DistilBERT: the layers of BERT under other names, without segment embeddings."""

from collections.abc import Iterator
from typing import Any

from edgeformers.nn.backbones.family import (
    Family,
    ParameterMap,
    linear,
    read_activation,
    write_activation,
)
from edgeformers.nn.encoder import EncoderConfig


def _read(published: Any) -> EncoderConfig:
    return EncoderConfig(
        family="distilbert",
        vocab_size=published.vocab_size,
        width=published.dim,
        heads=published.n_heads,
        layers=published.n_layers,
        ffn_width=published.hidden_dim,
        max_positions=published.max_position_embeddings,
        type_vocab=0,
        pad_token_id=published.pad_token_id or 0,
        activation=read_activation(published.activation),
        dropout=published.dropout,
        attention_dropout=published.attention_dropout,
        embedding_dropout=published.dropout,
    )


def _write(config: EncoderConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "dim": config.width,
        "n_heads": config.heads,
        "n_layers": config.layers,
        "hidden_dim": config.ffn_width,
        "max_position_embeddings": config.max_positions,
        "pad_token_id": config.pad_token_id,
        "activation": write_activation(config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
    }


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
