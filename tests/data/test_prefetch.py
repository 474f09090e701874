"""Values are computed in the background, in order and only a few in advance."""

import threading
import time
from itertools import islice

import pytest

from edgeformers.data.prefetch import prefetch, read_in_parallel


def test_values_are_in_order():
    assert list(prefetch(lambda i: i**2, range(20), ahead=3)) == [i**2 for i in range(20)]
    assert list(prefetch(lambda i: i, [])) == []


def test_errors_in_the_thread_are_raised_in_the_consumer():
    def compute(i):
        if i == 3:
            raise ValueError("item 3 is broken")
        return i

    values = prefetch(compute, range(9))
    assert [next(values) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="item 3"):
        next(values)


@pytest.mark.parametrize("taken", [1, 3])
def test_closing_ends_the_thread(taken):
    computed = []
    before = threading.active_count()
    values = prefetch(lambda i: computed.append(i) or 1, range(999))
    assert list(islice(values, taken)) == [1] * taken
    values.close()
    assert threading.active_count() == before
    assert len(computed) <= taken + 4


def test_few_values_are_computed_in_advance():
    computed = []
    values = prefetch(lambda i: computed.append(i) or 1, iter(range(50)))
    next(values)
    time.sleep(0.05)
    assert len(computed) <= 5
    assert sum(1 for _ in values) == 49


def counting(read, number, length, error=None):
    """A stream of (its number, 0 ... length - 1) that notes what was read."""

    def stream():
        for item in range(length):
            read.append((number, item))
            yield number, item
        if error is not None:
            raise error

    return stream


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_streams_are_read_in_order_and_only_a_little_ahead(threads):
    read = []
    streams = [counting(read, number, number * 3) for number in range(5)]
    items = read_in_parallel(streams, threads=threads, ahead=2)
    expected = [(number, item) for number in range(5) for item in range(number * 3)]
    first = next(items)
    time.sleep(0.05)
    assert len(read) <= 1 + 3 * min(threads, 5)  # two in the queue, one waiting, one taken
    assert [first, *items] == expected


def test_the_first_error_in_order_is_raised_after_the_items_before_it():
    errors = [None, ValueError("second"), ValueError("third")]
    streams = [counting([], number, 4, error) for number, error in enumerate(errors)]
    items = read_in_parallel(streams, threads=3)
    assert len(list(islice(items, 8))) == 8
    with pytest.raises(ValueError, match="second"):
        next(items)


def test_closing_stops_all_readers():
    before, read = threading.active_count(), []
    items = read_in_parallel([counting(read, n, 10**9) for n in range(4)], threads=2)
    next(items)
    items.close()
    assert threading.active_count() == before
    assert len(read) < 20
