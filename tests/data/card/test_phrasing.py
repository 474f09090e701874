import pytest

from edgeformers.data.card.phrasing import counted, listed, percent, quoted, share_of, shorten


def test_shares_and_examples_are_short():
    shares = [0, 0.0004, 0.012, 0.0996, 0.119, 0.996, 0.9999, 1]
    words = ["0%", "under 0.1%", "1.2%", "10%", "12%", "99.6%", "over 99.9%", "100%"]
    assert [percent(share) for share in shares] == words
    assert shorten("a\n b" + "c" * 100, 10) == "a bcccccc…"
    assert shorten("some words and more", 12) == "some words…"


@pytest.mark.parametrize(
    ("words", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_words_are_listed_as_in_a_sentence(words, text):
    assert listed(words) == text


def test_counts_and_names_are_formatted_for_sentences():
    assert share_of(1204, 10_000, "edges") == "12% of the edges (1,204)"
    assert share_of(0, 0, "edges") == "0% of the edges (0)"
    assert counted(1, "label has", "labels have") == "1 label has"
    assert counted(2000, "label has", "labels have") == "2,000 labels have"
    assert quoted("a\n" + "b" * 50) == "'a " + "b" * 37 + "…'"
