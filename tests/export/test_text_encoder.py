"""Stock transformers and sentence-transformers load the text encoder and agree with us."""

import re

import numpy as np
import pytest
import torch

from edgeformers.errors import InputError
from edgeformers.export import export_model
from edgeformers.export.text_encoder import special_tokens
from edgeformers.inference.model_card import CARD
from tests.cli.conftest import call

TEXTS = ["My tent is excellent.", "", "The boots were too small for me, and then some. " * 20]


@pytest.mark.parametrize("kind", ["classifier", "predictor"])
def test_sentence_transformers_gives_the_vectors_of_texts(kind, request, tmp_path):
    from sentence_transformers import SentenceTransformer

    estimator = request.getfixturevalue(kind)
    folder = export_model(estimator, tmp_path / "st", to="sentence-transformers")
    encoder = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
    ours, theirs = estimator.embed_texts(TEXTS), encoder.encode(TEXTS)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-4)
    assert np.abs(ours[0] - ours[2]).max() > 1e-3


def test_transformers_loads_the_encoder_without_custom_code(classifier, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    folder = export_model(classifier, tmp_path / "hf", to="huggingface")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder)
    assert type(encoder).__name__ == "BertModel"
    batch = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        vectors = encoder(**batch).last_hidden_state[:, 0]
    np.testing.assert_allclose(vectors, classifier.embed_texts(TEXTS), rtol=0, atol=1e-4)


@pytest.mark.parametrize("to", ["sentence-transformers", "huggingface"])
def test_the_call_in_the_readme_works(to, classifier, tmp_path, monkeypatch):
    folder = export_model(classifier, tmp_path / "export", to=to)
    monkeypatch.chdir(folder)
    card = (folder / CARD).read_text()
    assert f"library_name: {to}" in card
    names = {}
    exec(re.findall(r"```python\n(.*?)```", card, re.DOTALL)[0], names)
    assert names["vectors"].shape == (1, classifier.fitted_.width)


def test_the_special_tokens_of_tokenizers_are_found(bert_tokenizer, roberta_tokenizer):
    bert = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    assert special_tokens(bert_tokenizer, 0) == bert
    found = special_tokens(roberta_tokenizer, 1)
    assert (found["cls_token"], found["sep_token"], found["pad_token"]) == ("<s>", "</s>", "<pad>")


def test_an_export_replaces_only_an_export(classifier, tmp_path):
    folder = export_model(classifier, tmp_path / "export", to="huggingface")
    with pytest.raises(InputError, match="exists"):
        export_model(classifier, folder, to="huggingface")
    export_model(classifier, folder, to="sentence-transformers", overwrite=True)
    assert (folder / "modules.json").is_file()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"mine\.txt"):
        export_model(classifier, folder, to="huggingface", overwrite=True)
    assert (folder / "modules.json").is_file()


def test_the_command_exports_a_run(trained, tmp_path):
    edge_run = trained / "run-edges"
    answer = call("export", edge_run, "--to", "huggingface", "-o", tmp_path / "hf", "--json")
    assert answer.code == 0, answer.err
    assert (tmp_path / "hf" / "model.safetensors").is_file()
    answer = call("export", edge_run, "--to", "onx", "-o", tmp_path / "onnx")
    assert answer.code == 2
    assert "onnx" in answer.err
    assert not (tmp_path / "onnx").exists()
    answer = call("export", edge_run, "--to", "huggingface", "--int8", "-o", tmp_path / "x")
    assert answer.code == 2
