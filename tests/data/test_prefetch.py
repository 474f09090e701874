"""Values are computed in the background, in order and only a few in advance."""

import threading
import time
from itertools import islice

import pytest

from edgeformers.data.prefetch import prefetch


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
