import numpy as np
import pytest
import torch

from edgeformers.baselines.text import frozen_vectors as module
from edgeformers.baselines.text.frozen_vectors import text_vectors
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import InputError
from tests.baselines.tiny import write_backbone

TEXTS = ["a good film", "", "bad, bad, bad, bad film", "film", "good good film a a a a a"]


@pytest.fixture
def graph(make_parts):
    rows = [
        {"source": f"u{n}", "target": "x", "text": text, "split": "train"}
        for n, text in enumerate(TEXTS)
    ]
    return make_parts(rows)


@pytest.fixture
def backbone(graph, tmp_path):
    return write_backbone(tmp_path / "backbone", graph)


def test_vectors_equal_mean_token_states_of_transformers(graph, backbone):
    from transformers import AutoModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=f"{backbone}/tokenizer.json", pad_token="[PAD]"
    )
    padded = tokenizer(TEXTS, padding=True, truncation=True, max_length=6, return_tensors="pt")
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(backbone)(
            padded["input_ids"], padded["attention_mask"]
        ).last_hidden_state
    mask = padded["attention_mask"][..., None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    expected = mean / mean.norm(dim=1, keepdim=True)
    found = text_vectors(graph, backbone, max_tokens=6)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), expected, atol=1e-3)


def test_texts_are_encoded_once_and_cached_in_the_network(graph, backbone, monkeypatch):
    made = text_vectors(graph, backbone)
    monkeypatch.setattr(module, "_encode", lambda *_: pytest.fail("texts were read again"))
    again = text_vectors(EdgeTextGraph.open(graph.path), backbone)
    np.testing.assert_array_equal(made, again)


def test_other_weights_and_lengths_are_cached_separately(graph, backbone, tmp_path):
    other = write_backbone(tmp_path / "other", graph, seed=1)
    first = np.array(text_vectors(graph, backbone))
    assert np.abs(text_vectors(graph, other) - first).max() > 0.1
    assert np.abs(text_vectors(graph, backbone, max_tokens=4) - first).max() > 0.01
    np.testing.assert_array_equal(text_vectors(graph, backbone), first)
    assert len(list((graph.path / "vectors").iterdir())) == 3


def test_vectors_do_not_depend_on_the_batch_size(graph, backbone, monkeypatch):
    made = np.array(text_vectors(graph, backbone, max_tokens=6))
    monkeypatch.setattr(module, "CACHED_TOKENS", 7)
    sizes, pack = [], module.pack_texts
    monkeypatch.setattr(
        module, "pack_texts", lambda *args: (sizes.append(len(args[1])), pack(*args))[1]
    )
    (next(graph.path.glob("vectors/*")) / "vectors.npy").unlink()
    np.testing.assert_allclose(text_vectors(graph, backbone, max_tokens=6), made, atol=1e-3)
    assert sizes == [1, 1, 1, 2]  # of 6, 6, 5, 3 and 2 tokens


@pytest.mark.parametrize("rows", [2, None], ids=["fewer rows", "cut off"])
def test_a_damaged_cache_is_rebuilt(graph, backbone, rows):
    made = np.array(text_vectors(graph, backbone))
    [path] = graph.path.glob("vectors/*/vectors.npy")
    if rows:
        np.save(path, made[:rows])
    else:
        path.write_bytes(path.read_bytes()[:-9])
    np.testing.assert_array_equal(text_vectors(graph, backbone), made)


def test_a_tokenizer_of_another_backbone_is_refused(graph, backbone, make_parts, tmp_path):
    rows = [{"source": "a", "target": "b", "text": "entirely different words", "split": "train"}]
    richer = make_parts(rows, out="richer")
    write_backbone(tmp_path / "foreign", richer)
    tokenizer = (tmp_path / "foreign" / "tokenizer.json").read_bytes()
    (tmp_path / "backbone" / "tokenizer.json").write_bytes(tokenizer)
    with pytest.raises(InputError, match="tokenizer"):
        text_vectors(graph, backbone)
