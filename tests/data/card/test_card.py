import pytest

from edgeformers.data.card.card import DataCard
from edgeformers.data.card.describe import describe
from edgeformers.errors import FormatError
from tests.data.fake_graph import six_edges


def test_a_card_survives_json():
    card = describe(six_edges())
    assert DataCard.from_json(card.to_json()) == card


def test_a_card_with_the_field_names_of_earlier_versions_is_read():
    card = describe(six_edges())
    text = card.to_json().replace("labeled", "labelled").replace('"spec"', '"made"')
    assert "labelled" in text
    assert DataCard.from_json(text).splits == card.splits


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 7}', '{"version": 2}'])
def test_a_file_that_is_not_a_card_is_refused_with_a_remedy(text):
    with pytest.raises(FormatError, match=r"data card: .*edgeformers describe"):
        DataCard.from_json(text)
