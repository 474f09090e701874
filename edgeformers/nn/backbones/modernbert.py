"""ModernBERT: pre-norm layers, rotary positions, gated FFN, local attention in most layers."""

from collections.abc import Iterator
from typing import Any

from edgeformers.errors import FormatError
from edgeformers.nn.backbones.family import (
    Family,
    ParameterMap,
    linear,
    read_activation,
    write_activation,
)
from edgeformers.nn.encoder import EncoderConfig

_LOCAL, _GLOBAL = "sliding_attention", "full_attention"


def _read(published: Any) -> EncoderConfig:
    for kind, rope in published.rope_parameters.items():
        if rope["rope_type"] != "default":
            raise FormatError(
                f"config.json: unsupported rotary scaling '{rope['rope_type']}' in {kind}; "
                f"supported: 'default'"
            )
    window = published.local_attention // 2  # on either side
    return EncoderConfig(
        family="modernbert",
        vocab_size=published.vocab_size,
        width=published.hidden_size,
        heads=published.num_attention_heads,
        layers=published.num_hidden_layers,
        ffn_width=published.intermediate_size,
        max_positions=published.max_position_embeddings,
        position_kind="rotary",
        type_vocab=0,
        pad_token_id=published.pad_token_id or 0,
        norm_place="pre",
        norm_eps=published.norm_eps,
        norm_bias=published.norm_bias,
        activation=read_activation(published.hidden_activation),
        gated=True,
        attention_bias=published.attention_bias,
        ffn_bias=published.mlp_bias,
        dropout=published.mlp_dropout,
        attention_dropout=published.attention_dropout,
        embedding_dropout=published.embedding_dropout,
        windows=tuple(window if kind == _LOCAL else None for kind in published.layer_types),
        rotary_theta=published.rope_parameters[_GLOBAL]["rope_theta"],
        window_rotary_theta=published.rope_parameters[_LOCAL]["rope_theta"],
    )


def _write(config: EncoderConfig) -> dict[str, Any]:
    windows = [config.window(index) for index in range(config.layers)]
    local = next((window for window in windows if window is not None), 64)
    rope = {_GLOBAL: config.rotary_theta, _LOCAL: config.window_rotary_theta}
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers,
        "intermediate_size": config.ffn_width,
        "max_position_embeddings": config.max_positions,
        "pad_token_id": config.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": None,
        "cls_token_id": None,
        "sep_token_id": None,
        "norm_eps": config.norm_eps,
        "norm_bias": config.norm_bias,
        "hidden_activation": write_activation(config.activation),
        "attention_bias": config.attention_bias,
        "mlp_bias": config.ffn_bias,
        "mlp_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "embedding_dropout": config.embedding_dropout,
        "local_attention": 2 * local,
        "layer_types": [_GLOBAL if window is None else _LOCAL for window in windows],
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in rope.items()
        },
    }


def _parameters(config: EncoderConfig) -> Iterator[ParameterMap]:
    yield ("embeddings.tokens.weight",), ("embeddings.tok_embeddings.weight",)
    yield from linear("embeddings.norm", "embeddings.norm", config.norm_bias)
    yield from linear("final_norm", "final_norm", config.norm_bias)
    for index in range(config.layers):
        layer = f"layers.{index}"
        fused = (f"{layer}.attention.query", f"{layer}.attention.key_value")
        yield from linear(fused, f"{layer}.attn.Wqkv", config.attention_bias)
        yield from linear(f"{layer}.attention.out", f"{layer}.attn.Wo", config.attention_bias)
        if index > 0:
            yield from linear(f"{layer}.attention_norm", f"{layer}.attn_norm", config.norm_bias)
        yield from linear(f"{layer}.ffn.up", f"{layer}.mlp.Wi", config.ffn_bias)
        yield from linear(f"{layer}.ffn.down", f"{layer}.mlp.Wo", config.ffn_bias)
        yield from linear(f"{layer}.ffn_norm", f"{layer}.mlp_norm", config.norm_bias)


MODERNBERT = Family("ModernBertModel", "model.", _read, _write, _parameters)
