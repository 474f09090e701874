"""The worker computes waiting jobs together, and one bad job fails alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgeformers.serve import batching
from edgeformers.serve.batching import OverloadedError, Worker
from edgeformers.serve.limits import TooLargeError


@pytest.fixture
def worker():
    worker = Worker(batch_tokens=10, queue_tokens=40)
    yield worker
    worker.close()


class Blocked:
    """A job that holds the worker until released, so that others wait."""

    def __init__(self, worker):
        self.started, self.release = threading.Event(), threading.Event()
        self.pool = ThreadPoolExecutor(16)
        self.pool.submit(worker.compute, self._run, [None], key="block", tokens=[1])
        assert self.started.wait(5)

    def _run(self, items):
        self.started.set()
        assert self.release.wait(5)
        return items


def wait_for(worker, count):
    for _ in range(500):
        if len(worker) == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError(len(worker))


def test_waiting_jobs_with_one_key_are_one_batch_up_to_the_token_limit(worker):
    batches = []

    def double(items):
        batches.append(list(items))
        return [2 * item for item in items]

    blocked = Blocked(worker)
    answers = []
    for at, (key, item) in enumerate([("a", 1), ("b", 10), ("a", 2), ("a", 3)]):
        answers.append(blocked.pool.submit(worker.compute, double, [item], key=key, tokens=[4]))
        wait_for(worker, at + 1)
    blocked.release.set()
    assert [answer.result(5) for answer in answers] == [[2], [20], [4], [6]]
    assert batches == [[1, 2], [10], [3]]


def test_a_bad_job_fails_alone_and_the_worker_goes_on(worker):
    def invert(items):
        return [1 / item for item in items]

    blocked = Blocked(worker)
    answers = []
    for at, item in enumerate([1, 0, 4]):
        answers.append(blocked.pool.submit(worker.compute, invert, [item], key="", tokens=[1]))
        wait_for(worker, at + 1)
    blocked.release.set()
    assert answers[0].result(5) == [1.0]
    assert answers[2].result(5) == [0.25]
    with pytest.raises(ZeroDivisionError):
        answers[1].result(5)
    assert worker.compute(invert, [2], key="", tokens=[1]) == [0.5]


def test_not_even_a_panic_or_an_exit_ends_the_worker(worker):
    def leave(items):
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit"):
        worker.compute(leave, [1], key="", tokens=[1])
    assert worker.compute(list, [1], key="", tokens=[1]) == [1]


def test_a_request_with_too_many_tokens_is_refused_even_if_nothing_waits(worker):
    assert worker.compute(list, range(8), key="", tokens=[5] * 8) == list(range(8))
    with pytest.raises(TooLargeError, match="45 tokens; the limit is 40"):
        worker.compute(list, range(9), key="", tokens=[5] * 9)
    assert worker.waiting_tokens == 0


def test_a_full_queue_is_an_error(worker):
    blocked = Blocked(worker)
    waiting = blocked.pool.submit(worker.compute, list, [1], key="", tokens=[30])
    wait_for(worker, 1)
    with pytest.raises(OverloadedError, match="waiting"):
        worker.compute(list, [2], key="", tokens=[30])
    blocked.release.set()
    assert waiting.result(5) == [1]


def test_an_answer_that_takes_too_long_is_an_overload(worker, monkeypatch):
    monkeypatch.setattr(batching, "WAIT_SECONDS", 0.05)
    blocked = Blocked(worker)
    with pytest.raises(OverloadedError):
        worker.compute(list, [1], key="", tokens=[1])
    blocked.release.set()


def test_closing_finishes_what_waits_and_refuses_more():
    worker = Worker()
    blocked = Blocked(worker)
    waiting = blocked.pool.submit(worker.compute, list, [7], key="", tokens=[1])
    wait_for(worker, 1)
    closing = blocked.pool.submit(worker.close)
    blocked.release.set()
    closing.result(5)
    assert waiting.result(5) == [7]
    with pytest.raises(OverloadedError, match="shutting down"):
        worker.compute(list, [1], key="", tokens=[1])
