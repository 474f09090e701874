"""Tokenizers are loaded from files, folders and the hub, or trained on texts."""

import json

import huggingface_hub
import pytest
from tokenizers import Tokenizer

from edgeformers.data import tokenize
from edgeformers.data.tokenize import load_tokenizer, train_tokenizer
from edgeformers.data.tokens import token_meta
from edgeformers.errors import InputError


def test_training_a_tokenizer_is_deterministic():
    texts = [f"the film {w} was {w}ly made and {w}ness is rare" for w in ("good", "bad", "odd")]
    first, second = (train_tokenizer(iter(texts), 60) for _ in range(2))
    assert first.to_str() == second.to_str()
    assert first.get_vocab_size() <= 60
    assert [first.token_to_id(word) for word in tokenize.SPECIAL] == [0, 1, 2, 3, 4]
    encoded = first.encode("the goodness")
    assert (encoded.ids[0], encoded.ids[-1]) == (2, 3)
    assert first.decode(encoded.ids).replace(" ##", "") == "the goodness"
    assert list(json.loads(first.to_str())["added_tokens"][-1].values())[1] == "[MASK]"


def test_a_tokenizer_is_loaded_from_a_file_or_folder(tokenizer_folder, bert_tokenizer):
    for name in (tokenizer_folder, tokenizer_folder / "tokenizer.json"):
        assert load_tokenizer(str(name)).to_str() == bert_tokenizer.to_str()


def test_a_folder_with_only_a_vocabulary_is_converted(tmp_path, bert_tokenizer):
    vocab = sorted(bert_tokenizer.get_vocab(), key=bert_tokenizer.token_to_id)
    (tmp_path / "vocab.txt").write_text("\n".join([*vocab, "[MASK]"]))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    ids = load_tokenizer(str(tmp_path)).encode("a good film").ids
    assert ids == bert_tokenizer.encode("a good film").ids


def test_padding_and_truncation_of_a_tokenizer_are_disabled(bert_tokenizer, tmp_path):
    copy = Tokenizer.from_str(bert_tokenizer.to_str())
    copy.enable_padding(length=128)
    copy.enable_truncation(4)
    copy.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(str(tmp_path))
    assert len(loaded.encode("a good good good film").ids) == 7
    assert token_meta(loaded, "x").fingerprint == token_meta(bert_tokenizer, "x").fingerprint


@pytest.mark.parametrize("content", [None, "{}", "\x00"])
def test_an_unusable_tokenizer_is_an_error(content, tmp_path):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match="no tokenizer"):
        load_tokenizer(str(tmp_path))


@pytest.fixture
def cache(tmp_path, monkeypatch, bert_tokenizer):
    """A cache of the hub that has the tokenizer of one model."""
    files = tmp_path / "hub" / "models--org--tiny-bert"
    (files / "snapshots" / "abc").mkdir(parents=True)
    (files / "refs").mkdir()
    (files / "refs" / "main").write_text("abc")
    bert_tokenizer.save(str(files / "snapshots" / "abc" / "tokenizer.json"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_a_cached_tokenizer_needs_no_network(cache, offline, bert_tokenizer):
    assert load_tokenizer("org/tiny-bert").to_str() == bert_tokenizer.to_str()


def test_an_unknown_name_offline_is_an_error_at_once(cache, offline, caplog, capfd):
    with pytest.raises(InputError) as refused:
        load_tokenizer("org/tinny-bert")
    message = str(refused.value)
    assert "\n" not in message
    assert "'org/tinny-bert'" in message
    assert message.endswith("did you mean 'org/tiny-bert'?")
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_an_unreachable_hub_is_asked_once(cache, monkeypatch):
    requests = []

    def fail(url, timeout):
        requests.append((url, timeout))
        raise ConnectionError("Name or service not known\nmore")

    def download(*_):
        raise AssertionError("downloaded without asking")

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", fail)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(InputError, match=r"\(Name or service not known\)"):
        load_tokenizer("bert-base-uncased")
    assert requests == [
        ("https://huggingface.co/bert-base-uncased/resolve/main/tokenizer.json", 4),
    ]


def test_a_tokenizer_is_downloaded_from_the_hub(
    monkeypatch, cache, tokenizer_folder, bert_tokenizer
):
    path = str(tokenizer_folder / "tokenizer.json")
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda url, timeout: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda name, file: path)
    assert load_tokenizer("org/new").to_str() == bert_tokenizer.to_str()


@pytest.mark.parametrize("name", ["./here", "/no/such", "a/b/c", "two words", "~/x"])
def test_a_name_that_is_invalid_on_the_hub_is_a_missing_file(name, cache, monkeypatch):
    monkeypatch.setattr(tokenize, "has_minilm", lambda: False)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", None)
    with pytest.raises(InputError, match="train:8000, org/tiny"):
        load_tokenizer(name)
