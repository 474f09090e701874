"""Strings are numbered in order of first appearance, whatever the size of the table."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.id_table import IdTable

WORDS = st.lists(st.text(max_size=4) | st.sampled_from(["", "a", "\x00", "a\x00"]), max_size=30)


@given(st.lists(WORDS, max_size=4), WORDS)
def test_numbers_follow_first_appearance(batches, others):
    table, seen = IdTable(), {}
    for batch in batches:
        padded = pa.array(["padding", *batch, "padding"], pa.string())
        numbers = table.add(padded.slice(1, len(batch)))
        assert numbers.tolist() == [seen.setdefault(word, len(seen)) for word in batch]
    assert len(table) == len(seen)
    assert table.strings(0, len(table)).to_pylist() == list(seen)
    assert table.find(pa.array(others, pa.string())).tolist() == [seen.get(w, -1) for w in others]


def test_a_growing_table_keeps_its_numbers():
    table = IdTable()
    for start in range(0, 20_000, 4_000):
        words = [f"id {i}" for i in range(start, start + 4_000)]
        assert table.add(pa.array(words)).tolist() == list(range(start, start + 4_000))
    assert table.find(pa.array(["id 19999", "id 0", "id", "id 20000"])).tolist() == [
        19_999,
        0,
        -1,
        -1,
    ]
    assert table.strings(7, 9).to_pylist() == ["id 7", "id 8"]
