"""Trained models for other tools: sentence-transformers, ONNX Runtime and transformers."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from edgeformers.errors import InputError, suggest
from edgeformers.export.onnx_graph import write_onnx
from edgeformers.export.text_encoder import write_huggingface, write_sentence_transformers
from edgeformers.files import atomic_folder, check_no_foreign_files
from edgeformers.inference.fitted import FittedModel
from edgeformers.inference.load import open_fitted
from edgeformers.inference.model_card import CARD, GENERATED, model_card
from edgeformers.inference.saved_model import describe_model, model_folder

Format = Literal["sentence-transformers", "onnx", "huggingface"]

_WRITERS: Mapping[str, Callable[[FittedModel[Any], Path], str]] = {
    "sentence-transformers": write_sentence_transformers,
    "onnx": write_onnx,
    "huggingface": write_huggingface,
}
#: What an export may contain; another folder is not overwritten.
_FILES = {
    *(CARD, "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    *("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
    *("model.onnx", "model.onnx.data", "nodes.parquet"),
}


def export_model(
    model: Any,
    out: str | PathLike[str],
    *,
    to: Format,
    int8: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write a trained model for another tool, with a README.md that shows how to call it.

    `model` is an estimator or the folder of a run. The formats:

    - "sentence-transformers": the text encoder, which `SentenceTransformer(folder)` loads. Its
      vectors are those of `embed_texts`: texts are read without node tokens.
    - "onnx": Edgeformer-E or Edgeformer-N for ONNX Runtime, with node tokens. With `int8`, the
      weights of linear maps are 8-bit integers.
    - "huggingface": the text encoder and its tokenizer for `AutoModel` and `AutoTokenizer`.
    """
    if to not in get_args(Format):
        raise InputError(f"unknown format '{to}'; {suggest(to, get_args(Format))}")
    if int8 and to != "onnx":
        raise InputError(f"int8 weights are for ONNX only (got to='{to}')")
    run = model_folder(Path(model).expanduser()) if isinstance(model, str | PathLike) else None
    fitted, path = open_fitted(model, device="cpu", show=False), Path(out).expanduser()
    with atomic_folder(path, overwrite=overwrite, check=_check_replaceable) as temporary:
        usage = (
            write_onnx(fitted, temporary, int8=int8) if int8 else _WRITERS[to](fitted, temporary)
        )
        facts = describe_model(fitted.model, fitted.label_names, fitted.extra())
        card = model_card(run or path, facts, usage=usage, library=to)
        (temporary / CARD).write_text(card, encoding="utf-8")
    return path


def _check_replaceable(folder: Path) -> None:
    """Raise an InputError if a folder is not an export or contains other files."""
    card = folder / CARD
    if not card.is_file() or GENERATED not in card.read_text(encoding="utf-8"):
        raise InputError(f"{folder} is not an exported model; it is not overwritten")
    check_no_foreign_files(folder, _FILES.__contains__)
