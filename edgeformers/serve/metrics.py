"""Metrics for Prometheus: requests, latencies, errors, queue and batches."""

from collections.abc import Callable
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
POWERS_OF_TWO = tuple(2**power for power in range(15))


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        common: Any = {"namespace": "edgeformers", "registry": self.registry}
        self._requests = Counter(
            "requests", "Answered requests.", ["method", "route", "status"], **common
        )
        self._seconds = Histogram(
            "request_seconds", "Time to answer.", ["route"], buckets=SECONDS, **common
        )
        self._errors = Counter(
            "errors", "Requests that failed through a fault of the server.", **common
        )
        self._in_flight = Gauge("requests_in_flight", "Requests being answered.", **common)
        self._queue = Gauge("queue_length", "Texts and nodes that wait for the models.", **common)
        self._queue_tokens = Gauge("queue_tokens", "About how many tokens wait.", **common)
        self._batch_items = Histogram(
            "batch_items", "Texts and nodes computed together.", buckets=POWERS_OF_TWO, **common
        )
        self._batch_tokens = Histogram(
            "batch_tokens", "About how many tokens of a batch.", buckets=POWERS_OF_TWO, **common
        )
        self._models = Gauge("model_info", "Served models.", ["model", "version"], **common)

    def observe_batch(self, items: int, tokens: int) -> None:
        """Count a batch of the worker."""
        self._batch_items.observe(items)
        self._batch_tokens.observe(tokens)

    def observe_queue(self, length: Callable[[], int], tokens: Callable[[], int]) -> None:
        """Read the queue with these functions whenever the metrics are read."""
        self._queue.set_function(length)
        self._queue_tokens.set_function(tokens)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_error(self) -> None:
        """Count a fault of the server."""
        self._errors.inc()

    def set_in_flight(self, requests: int) -> None:
        self._in_flight.set(requests)

    def set_models(self, versions: dict[str, str]) -> None:
        """Name the served models by their versions."""
        self._models.clear()
        for name, version in versions.items():
            self._models.labels(name, version).set(1)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
