"""BERT, RoBERTa, XLM-R and ELECTRA; MiniLM, BGE, E5 and GTE have the architecture of BERT."""

from collections.abc import Iterator
from functools import partial
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
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "ffn_width": "intermediate_size",
    "type_vocab": "type_vocab_size",
    "pad_token_id": "pad_token_id",
    "norm_eps": "layer_norm_eps",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}


def _read(published: Any, family: str) -> EncoderConfig:
    # The positions of RoBERTa start after its padding id.
    offset = published.pad_token_id + 1 if "roberta" in family else 0
    embedding_width = getattr(published, "embedding_size", published.hidden_size)
    return EncoderConfig(
        family=family,
        max_positions=published.max_position_embeddings - offset,
        position_offset=offset,
        embedding_width=None if embedding_width == published.hidden_size else embedding_width,
        embedding_dropout=published.hidden_dropout_prob,
        **read_settings(published, _SETTINGS),
    )


def _write(config: EncoderConfig) -> dict[str, Any]:
    written = write_settings(config, _SETTINGS)
    written["max_position_embeddings"] = config.max_positions + config.position_offset
    if config.family == "electra":
        written["embedding_size"] = config.embedding_width or config.width
    return written


def _parameters(config: EncoderConfig) -> Iterator[ParameterMap]:
    yield ("embeddings.tokens.weight",), ("embeddings.word_embeddings.weight",)
    yield ("embeddings.positions.weight",), ("embeddings.position_embeddings.weight",)
    yield ("embeddings.types.weight",), ("embeddings.token_type_embeddings.weight",)
    yield from linear("embeddings.norm", "embeddings.LayerNorm")
    if config.embedding_width is not None:
        yield from linear("embeddings.project", "embeddings_project")
    for index in range(config.layers):
        ours, theirs = f"layers.{index}", f"encoder.layer.{index}"
        heads = f"{theirs}.attention.self"
        yield from linear(f"{ours}.attention.query", f"{heads}.query")
        yield from linear(f"{ours}.attention.key_value", (f"{heads}.key", f"{heads}.value"))
        yield from linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        yield from linear(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm")
        yield from linear(f"{ours}.ffn.up", f"{theirs}.intermediate.dense")
        yield from linear(f"{ours}.ffn.down", f"{theirs}.output.dense")
        yield from linear(f"{ours}.ffn_norm", f"{theirs}.output.LayerNorm")


def _family(name: str, architecture: str, prefix: str) -> Family:
    return Family(architecture, prefix, partial(_read, family=name), _write, _parameters)


BERT = _family("bert", "BertModel", "bert.")
ROBERTA = _family("roberta", "RobertaModel", "roberta.")
XLM_ROBERTA = _family("xlm-roberta", "XLMRobertaModel", "roberta.")
ELECTRA = _family("electra", "ElectraModel", "electra.")
