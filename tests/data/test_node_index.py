"""Node ids to node numbers and back, on one side or both."""

import pyarrow as pa
import pytest

from edgeformers.data.node_index import NodeIndex
from edgeformers.errors import FormatError, InputError, UnknownNodeError


@pytest.fixture
def index():
    """Three sources and three targets; "ann" is on both sides, 7 is written as a number."""
    chunks = [["ann", "bob"], ["7", "alien", "brazil"], ["ann"]]
    return NodeIndex(pa.chunked_array(chunks), num_sources=3)


def test_ids_are_found_per_side(index):
    assert index.numbers(["ann", "bob", 7, "alien"], "source").tolist() == [0, 1, 2, -1]
    assert index.numbers(["ann", "alien", "bob"], "target").tolist() == [5, 3, -1]
    assert index.numbers(["ann", "alien"]).tolist() == [0, 3]
    assert index.numbers([], "target").tolist() == []
    assert index.ids_of([5, 0, 3]) == ["ann", "ann", "alien"]
    assert len(index) == 6


def test_later_lookups_find_the_same_as_the_first_ones(index):
    for _ in range(6):  # from some time on in a table
        assert index.numbers(["bob", "ann", "bob", "alien"], "source").tolist() == [1, 0, 1, -1]
    index.make_tables()
    assert index.numbers(["ann", "alien"], "target").tolist() == [5, 3]


def test_with_one_node_type_the_side_makes_no_difference(index):
    one_type = NodeIndex(index.ids.slice(0, 5))
    assert one_type.numbers(["alien", "bob"], "source").tolist() == [3, 1]
    assert one_type.numbers(["alien", "bob"], "target").tolist() == [3, 1]
    assert (index.count_shared_ids(), one_type.count_shared_ids()) == (1, 0)


def test_an_unknown_id_or_number_is_an_error(index):
    with pytest.raises(InputError, match="'alien'"):
        index.known_numbers(["ann", "alein"])
    with pytest.raises(InputError, match="source 'brazil'"):
        index.known_numbers(["brazil"], "source")
    for number in (-1, 6):
        with pytest.raises(InputError, match=f"got {number}"):
            index.ids_of([number])


@pytest.mark.parametrize("unknown", ["uSer-012345", "user-12345", "user-01234"])
def test_an_unknown_id_of_a_large_network_is_compared_with_those_that_begin_or_end_alike(unknown):
    index = NodeIndex(pa.chunked_array([[f"user-{i:06d}" for i in range(20_000)]]))
    with pytest.raises(UnknownNodeError, match="similar ids are 'user-01234"):
        index.known_numbers([unknown])
    with pytest.raises(UnknownNodeError, match="an example is"):
        index.known_numbers(["§"])


def test_ids_that_occur_twice_on_a_side_are_refused():
    with pytest.raises(FormatError, match="same id"):
        NodeIndex(pa.chunked_array([["ann", "ann"]])).numbers(["ann"])
    with pytest.raises(FormatError, match="same id"):
        NodeIndex(pa.chunked_array([["ann", "ann"]])).make_tables()


def test_a_network_has_an_index(reviews):
    assert reviews.node_names([3, 0, 5]) == ["alien", "ann", "ann"]
    assert reviews.node_number("ann") == reviews.node_number("ann", "source") == 0
    assert reviews.node_number("ann", "target") == 5
