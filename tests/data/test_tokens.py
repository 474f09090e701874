"""Token stores: cut as the tokenizer itself would, tokenised once, whole or not there."""

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
    """What the tokenizer's own truncation gives."""
    tokenizer.enable_truncation(max_length=max_tokens)
    encoded = [one.ids for one in tokenizer.encode_batch(texts)]
    tokenizer.no_truncation()
    return encoded


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=40), min_size=1, max_size=6), st.integers(3, 30), st.data())
def test_texts_are_cut_as_the_tokenizer_itself_cuts_them(
    tokenizer, tmp_path_factory, texts, max_tokens, data
):
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8))
    store = store_of(tmp_path_factory.mktemp("t") / "store", tokenizer, texts)
    expected = truncated(tokenizer, texts, max_tokens)
    assert rows(store.take(chosen, max_tokens)) == [expected[i] for i in chosen]
    assert store.lengths.tolist() == [len(one.ids) for one in tokenizer.encode_batch(texts)]


def test_a_tokenizer_without_special_tokens_is_cut_too(bare, tmp_path):
    store = store_of(tmp_path / "store", bare, ["a b a", "", "c"])
    assert rows(store.take([0, 1, 2], 2)) == truncated(bare, ["a b a", "", "c"], 2)
    assert rows(store.take([0], 0)) == [[]]


def test_several_special_tokens_at_either_end_are_kept(bare, tmp_path):
    bare.post_processor = processors.TemplateProcessing(
        single="[A] [B] $A [C]", special_tokens=[("[A]", 3), ("[B]", 4), ("[C]", 5)]
    )
    store = store_of(tmp_path / "store", bare, ["a b a", ""])
    assert rows(store.take([0, 1], 5)) == [[3, 4, 1, 2, 5], [3, 4, 5]]


def test_no_text_at_all_can_be_taken(bert_tokenizer, tmp_path):
    ids, offsets = store_of(tmp_path / "store", bert_tokenizer).take([], 8)
    assert ids.tolist() == []
    assert offsets.tolist() == [0]


def test_lengths_that_cannot_be_had_are_refused(bert_tokenizer, tmp_path):
    store = store_of(tmp_path / "store", bert_tokenizer, limit=6)
    assert store.take([0], 8)
    with pytest.raises(InputError, match=r"hold the 2 special tokens at least \(got 1\)"):
        store.take([0], 1)
    with pytest.raises(InputError, match=r"max_tokens is 9, but .*store keeps 6 tokens .*: 8 at"):
        store.take([0], 9)


@pytest.mark.parametrize("text_ids", [[-1], [0, 6]])
def test_a_text_that_is_not_there_is_refused(text_ids, bert_tokenizer, tmp_path):
    store = store_of(tmp_path / "store", bert_tokenizer)
    with pytest.raises(InputError, match=r"texts are numbered from 0 to 5 \(got"):
        store.take(text_ids, 8)


@pytest.mark.parametrize(("size", "dtype"), [(65_536, np.uint16), (65_537, np.int32)])
def test_the_vocabulary_decides_the_type_of_ids(size, dtype, tmp_path):
    vocab = {f"w{i}": i for i in range(size)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="w0"))
    store = store_of(tmp_path / "store", tokenizer, [f"w{size - 1}", "w1"])
    assert store.ids.dtype == dtype
    assert store.ids.tolist() == [size - 1, 1]


def test_a_vocabulary_with_holes_is_as_large_as_its_highest_id():
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
    found = []
    for ids, lengths in pieces:
        found += [piece.tolist() for piece in np.split(ids, np.cumsum(lengths))[:-1]]
    assert found == expected
    assert tokenizer.truncation is None
    assert list(encode_chunks(tokenizer, [], np.uint16, 5)) == []


def test_what_goes_wrong_in_the_other_thread_surfaces_and_leaves_nothing(tokenizer, tmp_path):
    with pytest.raises(TypeError):
        store_of(tmp_path / "store", tokenizer, ["good", 7])
    assert not list(tmp_path.iterdir())
    assert tokenizer.truncation is None


def test_what_goes_wrong_while_reading_texts_surfaces_and_leaves_nothing(tokenizer, tmp_path):
    def chunks():
        yield ["good"]
        raise FormatError("texts.parquet is damaged")

    with pytest.raises(FormatError, match=r"texts\.parquet is damaged"):
        write_tokens(tmp_path / "s", tokenizer, "x", {"edges": (chunks(), 2)}, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_store_is_written_the_same_twice(bert_tokenizer, tmp_path):
    first = store_of(tmp_path / "one", bert_tokenizer)
    second = store_of(tmp_path / "two", bert_tokenizer)
    for path in first.folder.iterdir():
        assert path.read_bytes() == (second.folder / path.name).read_bytes()
    assert first.tokenizer().encode("a good film").ids == [2, 4, 5, 6, 3]
    assert (first.name, first.vocab_size, len(first)) == ("mine", 13, 6)


def test_a_store_is_mapped_anew_in_another_process(bert_tokenizer, tmp_path):
    store = store_of(tmp_path / "store", bert_tokenizer, ["a good film"] * 5_000)
    sent = pickle.dumps(store)
    assert len(sent) < 1_000
    assert rows(pickle.loads(sent).take([4_999], 8)) == [[2, 4, 5, 6, 3]]


def test_two_writing_at_once_end_with_one_good_store(bert_tokenizer, tmp_path):
    waiting = threading.Barrier(2, timeout=20)

    def write():
        def chunks():
            yield TEXTS
            waiting.wait()  # both are half done now

        made = Tokenizer.from_str(bert_tokenizer.to_str())
        parts = {"edges": (chunks(), len(TEXTS))}
        write_tokens(tmp_path / "store", made, "mine", parts, progress=False)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(open_tokens(tmp_path / "store", verify=True)) == 6
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_parts_have_their_own_texts(bert_tokenizer, tmp_path):
    parts = {"edges": ([["a"]], 1), "nodes": ([["good", "film"]], 2)}
    write_tokens(tmp_path / "store", bert_tokenizer, "mine", parts, progress=False)
    assert rows(open_tokens(tmp_path / "store", "nodes").take([1], 8)) == [[2, 6, 3]]
    store_of(tmp_path / "other", bert_tokenizer)
    with pytest.raises(InputError, match=r"other has no tokens of nodes: the network has no texts"):
        open_tokens(tmp_path / "other", "nodes")


@pytest.mark.parametrize("name", ["edges.ids.npy", "edges.offsets.npy", "tokenizer.json"])
def test_a_damaged_file_of_a_store_is_named(name, bert_tokenizer, tmp_path):
    store_of(tmp_path / "store", bert_tokenizer)
    path = tmp_path / "store" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    open_tokens(tmp_path / "store")
    with pytest.raises(FormatError, match=rf"{name} is damaged: its checksum differs"):
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
    with pytest.raises(FormatError, match=r"tokenizer\.json is damaged .*; tokenise again"):
        store.tokenizer()


def test_what_is_no_store_is_named(bert_tokenizer, tmp_path):
    with pytest.raises(FormatError, match=r"is not a token store: it has no tokens\.json; remove"):
        open_tokens(tmp_path)
    (tmp_path / "tokens.json").write_text("{}")
    with pytest.raises(FormatError, match=r"tokens\.json is damaged: its checksum differs"):
        open_tokens(tmp_path)
    tokens.write_record(tmp_path / "tokens.json", {"meta": {"name": "x"}, "files": {}})
    with pytest.raises(FormatError, match=r"tokens\.json does not describe a token store of this"):
        open_tokens(tmp_path)
