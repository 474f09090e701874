from dataclasses import replace

import pytest

from edgeformers.data.card.card import DataCard, NamedCount
from edgeformers.data.card.describe import describe
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.table import EdgeTable
from edgeformers.report.card import card_html, write_card
from tests.report.films import make_graph


@pytest.fixture
def card():
    return describe(make_graph())


def test_both_files_are_written_whole(tmp_path, card):
    page = write_card(make_graph(), tmp_path / "new" / "folder")
    assert page.read_text(encoding="utf-8") == card_html(card)
    assert DataCard.from_json(page.with_name("card.json").read_text(encoding="utf-8")) == card
    assert sorted(path.name for path in page.parent.iterdir()) == ["card.html", "card.json"]


def test_a_prepared_network_gets_its_card(tmp_path):
    rows = [
        {"source": "ann", "target": "jaws", "text": "good", "label": "fresh", "split": "train"},
        {"source": "bob", "target": "jaws", "text": "", "label": "rotten", "split": "train"},
        {"source": "ann", "target": "heat", "text": "good", "label": "fresh", "split": "test"},
    ]
    table = EdgeTable.from_rows(
        lambda: rows, fields=["label", "split"], origin="films.csv", bipartite=True
    )
    config = PrepareConfig(tokenizer=None, progress=False)
    graph = write_network(table, tmp_path / "films", config=config)
    page = write_card(graph, graph.path).read_text(encoding="utf-8")
    assert "3 edges with text from 2 sources to 2 targets." in page
    card = DataCard.from_json((graph.path / "card.json").read_text(encoding="utf-8"))
    (split,) = card.splits
    assert split.part("test").cold == {"sources": 0, "targets": 1}
    assert split.part("test").same_text.example == "good"
    assert card.sides[0].hubs[0] == NamedCount("ann", 2)


def test_a_failed_write_leaves_the_old_page(tmp_path, card):
    page = write_card(card, tmp_path)
    before = page.read_text(encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_card(replace(card, name="\udc80", origin="\udc80"), tmp_path)
    assert page.read_text(encoding="utf-8") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card.html", "card.json"]
