"""The model types of transformers that a `TextEncoder` can read and write.

BERT, RoBERTa, XLM-R, ELECTRA, DistilBERT and ModernBERT; MiniLM, BGE, E5 and GTE are BERT.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgeformers.errors import FormatError
from edgeformers.nn.encoder import EncoderConfig, TextEncoder

#: Activation names of transformers and ours; of several names the first is written.
ACTIVATION_NAMES = {
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """A "model_type" of config.json: our names of settings and modules, and theirs.

    Modules joined by "+" are concatenated along dimension 0.
    """

    architecture: str  # class name of the encoder in transformers
    prefix: str  # of the encoder's tensors in checkpoints with a head
    settings: Mapping[str, str]
    modules: Mapping[str, str]
    layer: str  # prefix of the modules of a layer, with {} for its number
    layer_modules: Mapping[str, str]
    read_other: Callable[[Any, str], dict[str, Any]]  # settings that differ in more than the name
    write_other: Callable[[EncoderConfig], dict[str, Any]] = lambda config: {}

    def read(self, published: Any, name: str) -> EncoderConfig:
        """Our settings from a config object of transformers."""
        values = {ours: getattr(published, theirs) for ours, theirs in self.settings.items()}
        values["pad_token_id"] = values["pad_token_id"] or 0
        if values["activation"] not in ACTIVATION_NAMES:
            raise FormatError(
                f"config.json: unsupported activation '{values['activation']}'; "
                f"supported: {', '.join(ACTIVATION_NAMES)}"
            )
        values["activation"] = ACTIVATION_NAMES[values["activation"]]
        return EncoderConfig(family=name, **values, **self.read_other(published, name))

    def write(self, config: EncoderConfig) -> dict[str, Any]:
        """The arguments of a config object of transformers."""
        values = {theirs: getattr(config, ours) for ours, theirs in self.settings.items()}
        activations = {ours: theirs for theirs, ours in reversed(ACTIVATION_NAMES.items())}
        values[self.settings["activation"]] = activations[config.activation]
        return values | self.write_other(config)

    def parameters(self, encoder: TextEncoder) -> Iterator[tuple[list[str], list[str]]]:
        """Names of our parameters and of theirs, which have the same concatenation."""
        existing = dict(encoder.named_parameters())
        modules = [("", "", self.modules)]
        for index in range(encoder.config.layers):
            modules.append((f"layers.{index}.", self.layer.format(index), self.layer_modules))
        for own, other, names in modules:
            for ours, theirs in names.items():
                for kind in ("weight", "bias"):
                    parameters = [f"{own}{module}.{kind}" for module in ours.split("+")]
                    if parameters[0] in existing:
                        yield parameters, [f"{other}{name}.{kind}" for name in theirs.split("+")]


def _read_bert(published: Any, family: str) -> dict[str, Any]:
    # The positions of RoBERTa start after its padding id.
    offset = published.pad_token_id + 1 if "roberta" in family else 0
    embedding_width = getattr(published, "embedding_size", published.hidden_size)
    return {
        "max_positions": published.max_position_embeddings - offset,
        "position_offset": offset,
        "embedding_width": None if embedding_width == published.hidden_size else embedding_width,
        "embedding_dropout": published.hidden_dropout_prob,
    }


def _write_bert(config: EncoderConfig) -> dict[str, Any]:
    written = {"max_position_embeddings": config.max_positions + config.position_offset}
    if config.family == "electra":
        written["embedding_size"] = config.embedding_width or config.width
    return written


def _bert(architecture: str, prefix: str) -> Family:
    return Family(
        architecture=architecture,
        prefix=prefix,
        settings={
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
        },
        modules={
            "embeddings.tokens": "embeddings.word_embeddings",
            "embeddings.positions": "embeddings.position_embeddings",
            "embeddings.types": "embeddings.token_type_embeddings",
            "embeddings.norm": "embeddings.LayerNorm",
            "embeddings.project": "embeddings_project",
        },
        layer="encoder.layer.{}.",
        layer_modules={
            "attention.query": "attention.self.query",
            "attention.key_value": "attention.self.key+attention.self.value",
            "attention.out": "attention.output.dense",
            "attention_norm": "attention.output.LayerNorm",
            "ffn.up": "intermediate.dense",
            "ffn.down": "output.dense",
            "ffn_norm": "output.LayerNorm",
        },
        read_other=_read_bert,
        write_other=_write_bert,
    )


_DISTILBERT = Family(
    architecture="DistilBertModel",
    prefix="distilbert.",
    settings={
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
    },
    modules={
        "embeddings.tokens": "embeddings.word_embeddings",
        "embeddings.positions": "embeddings.position_embeddings",
        "embeddings.norm": "embeddings.LayerNorm",
    },
    layer="transformer.layer.{}.",
    layer_modules={
        "attention.query": "attention.q_lin",
        "attention.key_value": "attention.k_lin+attention.v_lin",
        "attention.out": "attention.out_lin",
        "attention_norm": "sa_layer_norm",
        "ffn.up": "ffn.lin1",
        "ffn.down": "ffn.lin2",
        "ffn_norm": "output_layer_norm",
    },
    read_other=lambda published, _: {"type_vocab": 0, "embedding_dropout": published.dropout},
)

_LOCAL, _GLOBAL = "sliding_attention", "full_attention"


def _read_modernbert(published: Any, _: str) -> dict[str, Any]:
    for kind, rope in published.rope_parameters.items():
        if rope["rope_type"] != "default":
            raise FormatError(
                f"config.json: unsupported rotary scaling '{rope['rope_type']}' in {kind}; "
                f"supported: 'default'"
            )
    window = published.local_attention // 2  # on either side
    return {
        "position_kind": "rotary",
        "type_vocab": 0,
        "norm_place": "pre",
        "gated": True,
        "windows": tuple(window if kind == _LOCAL else None for kind in published.layer_types),
        "rotary_theta": published.rope_parameters[_GLOBAL]["rope_theta"],
        "window_rotary_theta": published.rope_parameters[_LOCAL]["rope_theta"],
    }


def _write_modernbert(config: EncoderConfig) -> dict[str, Any]:
    windows = [config.window(index) for index in range(config.layers)]
    local = next((window for window in windows if window is not None), 64)
    rope = {_GLOBAL: config.rotary_theta, _LOCAL: config.window_rotary_theta}
    return {
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
        "local_attention": 2 * local,
        "layer_types": [_GLOBAL if window is None else _LOCAL for window in windows],
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in rope.items()
        },
    }


_MODERNBERT = Family(
    architecture="ModernBertModel",
    prefix="model.",
    settings={
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
    },
    modules={
        "embeddings.tokens": "embeddings.tok_embeddings",
        "embeddings.norm": "embeddings.norm",
        "final_norm": "final_norm",
    },
    layer="layers.{}.",
    layer_modules={
        "attention.query+attention.key_value": "attn.Wqkv",
        "attention.out": "attn.Wo",
        "attention_norm": "attn_norm",
        "ffn.up": "mlp.Wi",
        "ffn.down": "mlp.Wo",
        "ffn_norm": "mlp_norm",
    },
    read_other=_read_modernbert,
    write_other=_write_modernbert,
)

FAMILIES: Mapping[str, Family] = {
    "bert": _bert("BertModel", "bert."),
    "roberta": _bert("RobertaModel", "roberta."),
    "xlm-roberta": _bert("XLMRobertaModel", "roberta."),
    "electra": _bert("ElectraModel", "electra."),
    "distilbert": _DISTILBERT,
    "modernbert": _MODERNBERT,
}
