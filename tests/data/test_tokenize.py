"""Texts are tokenized once per tokenizer."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from edgeformers.data import tokenize, tokens
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.table import EdgeTable
from edgeformers.data.tokenize import add_tokens, checked_tokenizer
from edgeformers.errors import InputError
from tests.data.folders import contents

PLAIN = PrepareConfig(tokenizer=None, progress=False)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ("train:many", "train:8000"),
        ("train:0", "'train:0'"),
        ("/no/such/tokenizer", "/no/such/tokenizer: no such file"),
    ],
)
def test_an_unavailable_tokenizer_is_rejected_before_reading(tokenizer, message, tmp_path):
    def rows():
        raise AssertionError("read")

    table = EdgeTable.from_rows(rows, fields=(), origin="rows", bipartite=True)
    with pytest.raises(InputError, match=message):
        write_network(table, tmp_path / "net", config=replace(PLAIN, tokenizer=tokenizer))


def fail_to_encode(*_):
    raise AssertionError("tokenized again")


def test_texts_are_tokenized_once_per_tokenizer(reviews, tokenizer_folder, monkeypatch):
    first = add_tokens(reviews, str(tokenizer_folder), progress=False)
    ids, offsets = first.take([0, 2], 8)
    assert (ids.tolist(), offsets.tolist()) == ([2, 4, 5, 6, 12, 3, 2, 3], [0, 6, 8])
    moved = tokenizer_folder.rename(tokenizer_folder.with_name("moved"))
    before = contents(first.folder)
    trained = add_tokens(reviews, "train:50", progress=False)
    assert contents(first.folder) == before
    monkeypatch.setattr(tokens, "encode_chunks", fail_to_encode)
    monkeypatch.setattr(tokenize, "train_tokenizer", fail_to_encode)
    assert add_tokens(reviews, str(moved)).folder == first.folder
    assert add_tokens(reviews, "train:50").folder == trained.folder
    assert reviews.token_stores() == sorted([str(tokenizer_folder), "train:50"])


def test_node_texts_are_tokenized_too(make_network, make_nodes, tokenizer_folder):
    nodes = make_nodes([{"id": "alien", "side": "target", "text": "good film"}])
    name = str(tokenizer_folder)
    graph = make_network(nodes=[nodes], config=replace(PLAIN, tokenizer=name))
    store = graph.token_store(name, "nodes")
    assert len(store) == graph.num_nodes
    assert store.take([3, 0], 8)[0].tolist() == [2, 5, 6, 3, 2, 3]


def test_interrupted_tokenization_leaves_nothing(reviews, tokenizer_folder, monkeypatch):
    before = contents(reviews.path)

    def stop(*_):
        yield np.zeros(1, np.uint16), np.ones(1, np.int64)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "encode_chunks", stop)
        with pytest.raises(KeyboardInterrupt):
            add_tokens(reviews, str(tokenizer_folder), progress=False)
    assert contents(reviews.path) == before
    assert reviews.tokens is None
    leftover = reviews.path / "tokens" / ".0123.partial-killed" / "0123"
    leftover.mkdir(parents=True)
    assert reviews.token_stores() == []
    assert len(add_tokens(reviews, str(tokenizer_folder), progress=False)) == 5


@pytest.mark.parametrize("damage", ["edges.ids.npy", "tokens.json", "tokenizer.json", "all"])
def test_an_incomplete_store_is_created_again(damage, reviews, tokenizer_folder):
    store = add_tokens(reviews, str(tokenizer_folder), progress=False)
    before = contents(store.folder)
    for path in list(store.folder.iterdir()):
        if damage in (path.name, "all"):
            path.unlink()
    add_tokens(reviews, str(tokenizer_folder), progress=False)
    assert contents(store.folder) == before
    shutil.rmtree(store.folder)
    assert reviews.tokens is None


def test_a_store_with_a_lower_limit_is_created_again(reviews, tokenizer_folder):
    name = str(tokenizer_folder)
    short = add_tokens(reviews, name, limit=2, progress=False)
    assert short.lengths.tolist() == [4, 4, 2, 4, 4]
    long = add_tokens(reviews, name, limit=3, progress=False)
    assert long.lengths.tolist() == [5, 5, 2, 5, 4]
    assert add_tokens(reviews, name, limit=1, progress=False).meta.limit == 3
    assert reviews.token_stores() == [name]


@pytest.mark.parametrize(("name", "meant"), [("minlm", "minilm"), ("nnone", "none")])
def test_a_misspelled_tokenizer_is_an_error_without_network_access(name, meant, monkeypatch):
    monkeypatch.setattr(tokenize, "load_tokenizer", fail_to_encode)
    with pytest.raises(InputError, match=f"'{meant}'"):
        checked_tokenizer(name)


def test_auto_means_tokenize_later_without_minilm(monkeypatch):
    monkeypatch.setattr(tokenize, "has_minilm", lambda: False)
    assert checked_tokenizer("auto") is None
    assert checked_tokenizer(None) is None
    assert checked_tokenizer("train:50") == "train:50"
