import pytest

from edgeformers.data.card.card import DataCard
from edgeformers.data.card.describe import describe
from edgeformers.errors import FormatError
from tests.data.fake_graph import six_edges


def test_json_brings_the_card_back():
    card = describe(six_edges())
    assert DataCard.from_json(card.to_json()) == card


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "version 2 expected (got None); write it again with describe()"),
        ('{"version": 7}', "version 2 expected (got 7)"),
        ('{"version": 2}', "a field does not fit ('name')"),
    ],
)
def test_a_foreign_file_is_no_card(text, words):
    with pytest.raises(FormatError) as error:
        DataCard.from_json(text)
    assert words in str(error.value)
