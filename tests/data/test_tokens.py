"""Token stores truncate like their tokenizer, and are complete or absent."""

import pickle
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from edgeformers.data import tokens
from edgeformers.data.tokens import (
    encode_chunks,
    open_tokens,
    token_meta,
    write_tokens,
)
from edgeformers.errors import FormatError, InputError

TEXTS = ["A good film.", "", "badly! " * 30, "good books", "\u00fc \U0001f600 \x00", "film"]


@pytest.fixture(params=["bert_tokenizer", "roberta_tokenizer"])
def tokenizer(request) -> Tokenizer:
    return Tokenizer.from_str(request.getfixturevalue(request.param).to_str())


@pytest.fixture
def bare() -> Tokenizer:
    """A tokenizer of words without any special token."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def store_of(folder, tokenizer, texts=TEXTS, name="mine", **more):
    parts = {"edges": ([texts], len(texts))}
    write_tokens(folder, tokenizer, name, parts, progress=False, **more)
    return open_tokens(folder)


def rows(taken):
    ids, offsets = taken
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


def truncated(tokenizer, texts, max_tokens):
    """The token ids with the tokenizer's own truncation."""
    tokenizer.enable_truncation(max_length=max_tokens)
    encoded = [text.ids for text in tokenizer.encode_batch(texts)]
    tokenizer.no_truncation()
    return encoded


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=40), min_size=1, max_size=6), st.integers(3, 30), st.data())
def test_texts_are_truncated_like_by_the_tokenizer(
    tokenizer, tmp_path_factory, texts, max_tokens, data
):
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8))
    store = store_of(tmp_path_factory.mktemp("t") / "store", tokenizer, texts)
    expected = truncated(tokenizer, texts, max_tokens)
    assert rows(store.take(chosen, max_tokens)) == [expected[i] for i in chosen]
    assert store.lengths.tolist() == [len(text.ids) for text in tokenizer.encode_batch(texts)]


def test_a_tokenizer_without_special_tokens_works(bare, tmp_path):
    store = store_of(tmp_path / "store", bare, ["a b a", "", "c"])
    assert rows(store.take([0, 1, 2], 2)) == truncated(bare, ["a b a", "", "c"], 2)
    assert rows(store.take([0], 0)) == [[]]


def test_several_special_tokens_at_either_end_are_added(bare, tmp_path):
    bare.post_processor = processors.TemplateProcessing(
        single="[A] [B] $A [C]", special_tokens=[("[A]", 3), ("[B]", 4), ("[C]", 5)]
    )
    store = store_of(tmp_path / "store", bare, ["a b a", ""])
    assert rows(store.take([0, 1], 5)) == [[3, 4, 1, 2, 5], [3, 4, 5]]


def test_no_text_can_be_taken(bert_tokenizer, tmp_path):
    ids, offsets = store_of(tmp_path / "store", bert_tokenizer).take([], 8)
    assert ids.tolist() == []
    assert offsets.tolist() == [0]


def test_invalid_lengths_are_errors(bert_tokenizer, tmp_path):
    store = store_of(tmp_path / "store", bert_tokenizer, limit=6)
    assert store.take([0], 8)
    with pytest.raises(InputError, match="max_tokens"):
        store.take([0], 1)
    with pytest.raises(InputError, match="at most 8"):
        store.take([0], 9)


@pytest.mark.parametrize("text_ids", [[-1], [0, 6]])
def test_an_unknown_text_is_an_error(text_ids, bert_tokenizer, tmp_path):
    store = store_of(tmp_path / "store", bert_tokenizer)
    with pytest.raises(InputError, match="0 to 5"):
        store.take(text_ids, 8)


@pytest.mark.parametrize(("size", "dtype"), [(65_536, np.uint16), (65_537, np.int32)])
def test_the_vocabulary_size_determines_the_type_of_ids(size, dtype, tmp_path):
    vocab = {f"w{i}": i for i in range(size)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="w0"))
    store = store_of(tmp_path / "store", tokenizer, [f"w{size - 1}", "w1"])
    assert store.ids.dtype == dtype
    assert store.ids.tolist() == [size - 1, 1]


def test_the_vocabulary_size_is_the_highest_id_plus_one():
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 70_000}, unk_token="[UNK]"))
    meta = token_meta(tokenizer, "holes")
    assert meta.vocab_size == 70_001
    assert meta.dtype == np.int32


def test_chunks_keep_their_order_whatever_their_size(tokenizer, monkeypatch):
    monkeypatch.setattr(tokens, "CHUNK", 3)
    chunks = [[], ["good", "", "a"], [""], [], [f"{'a ' * i}" for i in range(8)], []]
    expected = [
        tokenizer.encode(text, add_special_tokens=False).ids[:5]
        for texts in chunks
        for text in texts
    ]
    pieces = list(encode_chunks(tokenizer, chunks, np.uint16, 5))
    encoded = []
    for ids, lengths in pieces:
        encoded += [piece.tolist() for piece in np.split(ids, np.cumsum(lengths))[:-1]]
    assert encoded == expected
    assert tokenizer.truncation is None
    assert list(encode_chunks(tokenizer, [], np.uint16, 5)) == []


def test_an_error_in_the_background_is_raised_and_leaves_nothing(tokenizer, tmp_path):
    with pytest.raises(TypeError):
        store_of(tmp_path / "store", tokenizer, ["good", 7])
    assert not list(tmp_path.iterdir())
    assert tokenizer.truncation is None


def test_an_error_while_reading_texts_is_raised_and_leaves_nothing(tokenizer, tmp_path):
    def chunks():
        yield ["good"]
        raise FormatError("texts.parquet is damaged")

    with pytest.raises(FormatError, match=r"texts\.parquet is damaged"):
        write_tokens(tmp_path / "s", tokenizer, "x", {"edges": (chunks(), 2)}, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_store_is_reproducible(bert_tokenizer, tmp_path):
    first = store_of(tmp_path / "one", bert_tokenizer)
    second = store_of(tmp_path / "two", bert_tokenizer)
    for path in first.folder.iterdir():
        assert path.read_bytes() == (second.folder / path.name).read_bytes()
    assert first.tokenizer().encode("a good film").ids == [2, 4, 5, 6, 3]
    assert (first.name, first.vocab_size, len(first)) == ("mine", 13, 6)


def test_a_pickled_store_maps_its_arrays_again(bert_tokenizer, tmp_path):
    store = store_of(tmp_path / "store", bert_tokenizer, ["a good film"] * 5_000)
    sent = pickle.dumps(store)
    assert len(sent) < 1_000
    assert rows(pickle.loads(sent).take([4_999], 8)) == [[2, 4, 5, 6, 3]]


def test_concurrent_writers_leave_one_valid_store(bert_tokenizer, tmp_path):
    barrier = threading.Barrier(2, timeout=20)

    def write():
        def chunks():
            yield TEXTS
            barrier.wait()  # both are writing now

        copy = Tokenizer.from_str(bert_tokenizer.to_str())
        parts = {"edges": (chunks(), len(TEXTS))}
        write_tokens(tmp_path / "store", copy, "mine", parts, progress=False)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(open_tokens(tmp_path / "store", verify=True)) == 6
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_edges_and_nodes_have_separate_tokens(bert_tokenizer, tmp_path):
    parts = {"edges": ([["a"]], 1), "nodes": ([["good", "film"]], 2)}
    write_tokens(tmp_path / "store", bert_tokenizer, "mine", parts, progress=False)
    assert rows(open_tokens(tmp_path / "store", "nodes").take([1], 8)) == [[2, 6, 3]]
    store_of(tmp_path / "other", bert_tokenizer)
    with pytest.raises(InputError, match="nodes"):
        open_tokens(tmp_path / "other", "nodes")


@pytest.mark.parametrize("name", ["edges.ids.npy", "edges.offsets.npy", "tokenizer.json"])
def test_a_damaged_file_of_a_store_is_named(name, bert_tokenizer, tmp_path):
    store_of(tmp_path / "store", bert_tokenizer)
    path = tmp_path / "store" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    open_tokens(tmp_path / "store")
    with pytest.raises(FormatError, match=rf"{name} is damaged"):
        open_tokens(tmp_path / "store", verify=True)
    path.write_bytes(content[:-1])
    with pytest.raises(FormatError, match=rf"{name} is damaged: .* bytes"):
        open_tokens(tmp_path / "store")
    path.unlink()
    with pytest.raises(FormatError, match=rf"{name} is missing"):
        open_tokens(tmp_path / "store")


def test_a_damaged_tokenizer_of_a_store_is_named(bert_tokenizer, tmp_path):
    store = store_of(tmp_path / "store", bert_tokenizer)
    (tmp_path / "store/tokenizer.json").write_text("{")
    with pytest.raises(FormatError, match=r"tokenizer\.json is damaged"):
        store.tokenizer()


def test_another_folder_is_not_a_store(bert_tokenizer, tmp_path):
    with pytest.raises(FormatError, match=r"tokens\.json"):
        open_tokens(tmp_path)
    (tmp_path / "tokens.json").write_text("{}")
    with pytest.raises(FormatError, match=r"tokens\.json is damaged"):
        open_tokens(tmp_path)
    tokens.write_record(tmp_path / "tokens.json", {"meta": {"name": "x"}, "files": {}})
    with pytest.raises(FormatError, match=r"tokens\.json does not describe"):
        open_tokens(tmp_path)
