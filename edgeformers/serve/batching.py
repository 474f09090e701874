"""Worker: one thread that runs all models, with waiting requests of a kind as one batch."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from edgeformers.errors import EdgeformersError
from edgeformers.serve.limits import Limits, TooLargeError

BATCH_TOKENS = 8_192  # encoded at once
WAIT_SECONDS = 60.0  # for an answer

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class OverloadedError(EdgeformersError):
    """More requests are waiting than the server accepts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One item to compute; jobs with equal keys are computed together by `run` of the first."""

    key: Hashable
    run: Callable[[Sequence[Any]], Sequence[Any]]
    item: Any
    tokens: int
    future: Future[Any] = field(default_factory=Future)


class Pending(Generic[Result]):
    """What a request waits for: a thread calls `result`, and a coroutine awaits it.

    `finish` makes the result from the answers to all jobs, in the caller's thread. An answer of
    None makes it raise an error, which may take long: a coroutine lets another thread do that.
    """

    def __init__(self, jobs: Sequence[Job], finish: Callable[[list[Any]], Result]) -> None:
        self._jobs, self._finish = jobs, finish

    def result(self) -> Result:
        try:
            answers = [job.future.result(WAIT_SECONDS) for job in self._jobs]
        except TimeoutError:
            raise self._timeout() from None
        finally:
            self._cancel()
        return self._finish(answers)

    def __await__(self) -> Generator[Any, None, Result]:
        return self._answer().__await__()

    async def _answer(self) -> Result:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                answers = [await asyncio.wrap_future(job.future) for job in self._jobs]
        except TimeoutError:
            raise self._timeout() from None
        finally:
            self._cancel()
        if any(answer is None for answer in answers):
            return await asyncio.to_thread(self._finish, answers)
        return self._finish(answers)

    def _timeout(self) -> OverloadedError:
        return OverloadedError(f"no answer within {WAIT_SECONDS:.0f} s; try later")

    def _cancel(self) -> None:
        for job in self._jobs:  # of a request that failed
            job.future.cancel()


class Worker:
    """A thread that computes jobs in order of arrival, in batches limited by tokens.

    A batch is what is waiting when the thread is free, so a single client never waits for others.
    If a batch fails, its jobs are computed one by one, and only those fail that fail alone.
    """

    def __init__(
        self,
        *,
        batch_tokens: int = BATCH_TOKENS,
        queue_tokens: int = Limits.queue_tokens,
        observe: Callable[[int, int], None] | None = None,  # called with jobs and tokens of batches
    ) -> None:
        self.batch_tokens, self.queue_tokens = batch_tokens, queue_tokens
        self._observe = observe
        self._jobs: deque[Job] = deque()
        self._tokens = 0
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="edgeformers-worker", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """The number of waiting jobs."""
        return len(self._jobs)

    @property
    def waiting_tokens(self) -> int:
        return self._tokens

    def compute(
        self,
        run: Callable[[Sequence[Item]], Sequence[Answer]],
        items: Sequence[Item],
        *,
        key: Hashable,
        tokens: Sequence[int],
    ) -> list[Answer]:
        """The answers of `run` to items, which may be computed with those of other requests.

        Items without tokens are computed even if the queue is full.
        """
        return self.start(run, items, list, key=key, tokens=tokens).result()

    def start(
        self,
        run: Callable[[Sequence[Item]], Sequence[Answer]],
        items: Sequence[Item],
        finish: Callable[[list[Answer]], Result],
        *,
        key: Hashable,
        tokens: Sequence[int],
    ) -> Pending[Result]:
        """Let the worker compute the answers to items; `finish` makes the result from them."""
        jobs = [
            Job(key=key, run=run, item=item, tokens=cost)
            for item, cost in zip(items, tokens, strict=True)
        ]
        self._submit(jobs)
        return Pending(jobs, finish)

    def close(self) -> None:
        """Refuse new jobs, compute the waiting ones, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _submit(self, jobs: Sequence[Job]) -> None:
        tokens = sum(job.tokens for job in jobs)
        if tokens > self.queue_tokens:
            raise TooLargeError(
                f"the request counts as about {tokens:,} tokens; the limit is "
                f"{self.queue_tokens:,}: split it"
            )
        with self._changed:
            if self._is_closing:
                raise OverloadedError("the server is shutting down")
            if tokens and self._tokens + tokens > self.queue_tokens:
                raise OverloadedError(
                    f"{len(self._jobs):,} texts and nodes are waiting already; try later"
                )
            self._jobs.extend(jobs)
            self._tokens += tokens
            self._changed.notify()

    def _work(self) -> None:
        while batch := self._next_batch():
            batch = [job for job in batch if job.future.set_running_or_notify_cancel()]
            if batch:
                self._run(batch)

    def _next_batch(self) -> list[Job]:
        """The oldest job and others like it; empty when the worker is closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._is_closing)
            batch: list[Job] = []
            others: deque[Job] = deque()
            room = self.batch_tokens
            while self._jobs:
                job = self._jobs.popleft()
                if not batch or (job.key == batch[0].key and job.tokens <= room):
                    batch.append(job)
                    room -= job.tokens
                else:
                    others.append(job)
            self._jobs = others
            self._tokens -= sum(job.tokens for job in batch)
            return batch

    def _run(self, batch: Sequence[Job]) -> None:
        try:
            answers = batch[0].run([job.item for job in batch])
        except BaseException as error:  # libraries in Rust panic with their own kind
            if len(batch) == 1:
                is_usual = isinstance(error, Exception)
                batch[0].future.set_exception(error if is_usual else RuntimeError(repr(error)))
            else:
                for job in batch:
                    self._run([job])
            return
        if self._observe is not None:
            self._observe(len(batch), sum(job.tokens for job in batch))
        for job, answer in zip(batch, answers, strict=True):
            job.future.set_result(answer)
