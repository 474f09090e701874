"""The text encoder of a trained model for transformers and sentence-transformers."""

import copy
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgeformers.errors import InputError
from edgeformers.inference.fitted import FittedModel
from edgeformers.nn.backbones import export_backbone
from edgeformers.nn.encoder import TextEncoder

WITHOUT_NODES = """
The text encoder alone: texts are read without node tokens, and a vector is the state of the first
token. `edgeformers` gives the same vectors with `model.embed_texts(texts)`."""
HUGGINGFACE = """\
```python
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")  # the path of this folder
encoder = AutoModel.from_pretrained("."{no_pooler})
batch = tokenizer(["Too small for two."], padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    vectors = encoder(**batch).last_hidden_state[:, 0]
```
"""
SENTENCE_TRANSFORMERS = """\
```python
from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer(".")  # the path of this folder
vectors = encoder.encode(["Too small for two."])
```
"""
#: Families whose class in transformers has a pooler, which is not part of our models.
POOLERS = ("bert", "roberta", "xlm-roberta")
MASKS = ("[MASK]", "<mask>")


def write_huggingface(fitted: FittedModel[Any], folder: Path) -> str:
    """Write encoder and tokenizer to a folder; returns how to use them."""
    encoder = _text_encoder(fitted)
    export_backbone(encoder, folder)
    _write_tokenizer(fitted, encoder, folder)
    has_pooler = encoder.config.family in POOLERS
    no_pooler = ", add_pooling_layer=False" if has_pooler else ""
    return HUGGINGFACE.format(no_pooler=no_pooler) + WITHOUT_NODES


def write_sentence_transformers(fitted: FittedModel[Any], folder: Path) -> str:
    """Write encoder, tokenizer and the reading of the first token; returns how to use them.

    The files are written by hand in the layout that sentence-transformers has read since 2.0, so
    that the library is not needed here.
    """
    write_huggingface(fitted, folder)
    encoder, kind = _text_encoder(fitted), "sentence_transformers.models"
    transformer: dict[str, Any] = {
        "max_seq_length": fitted.config.data.max_tokens,
        "do_lower_case": False,
    }
    if encoder.config.family in POOLERS:
        transformer["model_args"] = {"add_pooling_layer": False}
    values: dict[str, Any] = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{kind}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}.Pooling"},
        ],
        "sentence_bert_config.json": transformer,
        "1_Pooling/config.json": {
            "word_embedding_dimension": encoder.width,
            "pooling_mode_cls_token": True,
            "pooling_mode_mean_tokens": False,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }
    (folder / "1_Pooling").mkdir()
    for name, content in values.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return SENTENCE_TRANSFORMERS + WITHOUT_NODES


def _text_encoder(fitted: FittedModel[Any]) -> TextEncoder:
    """The text encoder of a model, on the CPU."""
    encoder = getattr(fitted.model, "encoder", None)
    if not isinstance(encoder, TextEncoder):
        raise InputError(
            f"a {type(fitted.model).__name__} has no language model to export; export a run of "
            "a model that has one, such as Edgeformer-E"
        )
    return encoder if fitted.device.type == "cpu" else copy.deepcopy(encoder).cpu()


def _write_tokenizer(fitted: FittedModel[Any], encoder: TextEncoder, folder: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fitted.tokenizer,
        model_max_length=fitted.config.data.max_tokens,
        **special_tokens(fitted.tokenizer, encoder.config.pad_token_id),
    )
    tokenizer.save_pretrained(folder)


def special_tokens(tokenizer: Tokenizer, pad: int) -> dict[str, str]:
    """The special tokens of a tokenizer by the names that transformers has for them."""
    around = tokenizer.encode("").ids  # such as [CLS] [SEP]
    found = {
        "pad_token": tokenizer.id_to_token(pad),
        "unk_token": json.loads(tokenizer.to_str())["model"].get("unk_token"),
        "mask_token": next((m for m in MASKS if tokenizer.token_to_id(m) is not None), None),
    }
    if around:
        found["cls_token"] = tokenizer.id_to_token(around[0])
        found["sep_token"] = tokenizer.id_to_token(around[-1])
    return {name: token for name, token in found.items() if token is not None}
