"""ModernBERT: pre-norm layers, rotary positions, gated FFN, local attention in most layers."""

from collections.abc import Iterator
from typing import Any

from edgeformers.errors import FormatError
from edgeformers.nn.backbones.family import (
    Family,
    ParameterMap,
    linear,
    read_settings,
    write_settings,
)
from edgeformers.nn.encoder import EncoderConfig

_LOCAL, _GLOBAL = "sliding_attention", "full_attention"
_SETTINGS = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "ffn_width": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "pad_token_id": "pad_token_id",
    "norm_eps": "norm_eps",
    "norm_bias": "norm_bias",
    "activation": "hidden_activation",
    "attention_bias": "attention_bias",
    "ffn_bias": "mlp_bias",
    "dropout": "mlp_dropout",
    "attention_dropout": "attention_dropout",
    "embedding_dropout": "embedding_dropout",
}


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
        position_kind="rotary",
        type_vocab=0,
        norm_place="pre",
        gated=True,
        windows=tuple(window if kind == _LOCAL else None for kind in published.layer_types),
        rotary_theta=published.rope_parameters[_GLOBAL]["rope_theta"],
        window_rotary_theta=published.rope_parameters[_LOCAL]["rope_theta"],
        **read_settings(published, _SETTINGS),
    )


def _write(config: EncoderConfig) -> dict[str, Any]:
    windows = [config.window(index) for index in range(config.layers)]
    local = next((window for window in windows if window is not None), 64)
    rope = {_GLOBAL: config.rotary_theta, _LOCAL: config.window_rotary_theta}
    unused = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    return {
        **write_settings(config, _SETTINGS),
        **dict.fromkeys(unused),
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
