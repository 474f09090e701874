"""Bags of words: against scikit-learn, and by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from edgeformers.errors import ConfigError
from edgeformers.nn.bag_of_words import BagConfig, BagOfWords
from edgeformers.nn.packed import PackedText

VOCABULARY = 12
texts_of_tokens = st.lists(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9), min_size=1, max_size=6
)


def make_bag(texts, words=100, width=5):
    """The bag of texts given as lists of tokens."""
    counts = [sum(token in text for text in texts) for token in range(VOCABULARY)]
    return BagOfWords.from_counts(counts, len(texts), words=words, width=width).double()


@given(texts_of_tokens, texts_of_tokens)
def test_a_text_is_read_as_a_linear_map_of_what_scikit_learn_makes_of_it(seen, asked):
    bag = make_bag(seen)
    words = torch.argsort(bag.column)[-int((bag.column >= 0).sum()) :].tolist()
    places = {word: place for place, word in enumerate(words)}
    plain = {"analyzer": lambda text: text, "lowercase": False}  # texts are tokens already
    reference = TfidfVectorizer(**plain, vocabulary=places).fit(seen)
    vectors = torch.from_numpy(reference.transform(asked).toarray())
    torch.nn.init.normal_(bag.bias)
    bag.idf[:] = torch.from_numpy(reference.idf_)  # ours are made in single precision
    expected = vectors @ bag.table + bag.bias
    torch.testing.assert_close(bag.encode(PackedText.from_lists(asked)), expected)


@given(texts_of_tokens)
def test_words_weigh_as_scikit_learn_weighs_them(seen):
    bag = make_bag(seen)
    reference = TfidfVectorizer(analyzer=lambda text: text, lowercase=False).fit(seen)
    assert set(reference.vocabulary_) == set((bag.column >= 0).nonzero().flatten().tolist())
    for word, place in reference.vocabulary_.items():
        assert float(bag.idf[bag.column[word]]) == pytest.approx(reference.idf_[place], rel=1e-6)


def test_the_most_frequent_words_are_in_the_bag_the_first_of_equals():
    bag = BagOfWords.from_counts([0, 3, 7, 3, 0, 9, 3], 9, words=4, width=2)
    assert bag.column.tolist() == [-1, 2, 1, 3, -1, 0, -1]
    assert bag.idf.tolist() == pytest.approx([1 + np.log(10 / (1 + n)) for n in (9, 7, 3, 3)])
    assert bag.config == BagConfig(vocab_size=7, words=4, width=2)


def test_a_text_of_other_words_is_the_bias_alone_and_no_text_is_nothing():
    bag = make_bag([[1, 2], [2, 3]])
    torch.nn.init.normal_(bag.bias)
    found = bag.encode(PackedText.from_lists([[7, 8, 7], [2]]))
    assert torch.equal(found[0], bag.bias)
    torch.testing.assert_close(found[1], bag.table[bag.column[2]] + bag.bias)
    nothing = bag.encode(PackedText.from_lists([]))
    assert nothing.shape == (0, 5)
    nothing.sum().backward()


def test_only_the_words_of_a_text_learn_from_it():
    bag = make_bag([[1, 2, 3], [4, 5]])
    bag.encode(PackedText.from_lists([[2, 4, 2, 9]])).sum().backward()
    learned = bag.table.grad.any(1).nonzero().flatten()
    assert sorted(learned.tolist()) == sorted(bag.column[[2, 4]].tolist())


def test_a_bag_without_any_word_can_be_made_and_one_without_width_not():
    bag = BagOfWords.from_counts(np.zeros(4, int), 3, width=2)
    assert torch.equal(bag.encode(PackedText.from_lists([[1, 2]])), bag.bias[None])
    with pytest.raises(ConfigError, match="width"):
        BagOfWords.from_counts([1, 2], 3, width=0)
    with pytest.raises(ConfigError, match="words"):
        BagConfig(vocab_size=3, words=0)
