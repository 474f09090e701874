"""CUDA graphs of small batches: launching their kernels one by one takes longer than running them.

Batches are padded to one of a few sizes (`inference.padding`). The forward pass of a size that
returns is captured once; a replay launches all its kernels with one call.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import (
    EdgeBatch,
    EgoBatch,
    concat_bytes,
    split_bytes,
    tensors_of,
    with_tensors,
)
from edgeformers.inference.padding import PaddedSize, pad, padded_size
from edgeformers.nn.encoder import TextEncoder
from edgeformers.nn.fast.dispatch import is_enabled

MAX_GRAPHS = 32  # batches of further sizes run without graphs
MAX_INFERENCE_TOKENS = 32_768  # larger batches fill the GPU
MIN_USES = 3  # a capture costs about as much as three batches

Graph = TypeVar("Graph")


class CudaCapturer:
    """Captures functions as CUDA graphs in one memory pool; tests use a fake one.

    The warm-up raises an error if the function synchronizes with the GPU: an aborted capture would
    leave the random number generator of the device unusable.
    """

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, run: Callable[[], None]) -> None:
        """Run a function before its capture, to compile and tune its kernels."""
        stream = torch.cuda.Stream()  # captures do not use the default stream either
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run()
            with _synchronization_forbidden():
                run()
        torch.cuda.current_stream().wait_stream(stream)

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run a function and return its replay, on the same memory."""
        graph = torch.cuda.CUDAGraph()
        # Other threads pin memory meanwhile, which must not invalidate the capture.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            run()
        return graph.replay


@contextmanager
def uncached_autocast(kind: str) -> Iterator[None]:
    """The current autocast of a device type without its cache.

    Weights that were cast before a capture would not follow later updates.
    """
    enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    with torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False):
        yield


class GraphCache(Generic[Graph]):
    """The captured graphs of a model by batch size, at most `MAX_GRAPHS`; none after a failure."""

    def __init__(self) -> None:
        self.failure = ""  # why the model could not be captured
        self._graphs: dict[PaddedSize, Graph] = {}

    def find(self, size: PaddedSize, capture: Callable[[], Graph] | None) -> Graph | None:
        """The graph of a size; a missing one is captured, if there is room and `capture` is given.

        A model whose capture fails runs without graphs from then on.
        """
        if capture is not None and size not in self._graphs and len(self._graphs) < MAX_GRAPHS:
            try:
                self._graphs[size] = capture()
            except Exception as error:  # of any type, from a model that cannot be captured
                self.failure = f"{type(error).__name__}: {error}".strip()
                self.clear()
        return self._graphs.get(size)

    def clear(self) -> None:
        """Free the memory of all graphs."""
        self._graphs.clear()


class GraphedEncoder:
    """Encodes batches of the host without gradients, small ones through CUDA graphs.

    Without graphs run: sizes that occur for the first times or beyond `MAX_GRAPHS`, batches of more
    than `MAX_INFERENCE_TOKENS`, and models that cannot be captured.
    """

    def __init__(
        self, model: nn.Module, device: torch.device, *, capturer: CudaCapturer | None = None
    ) -> None:
        self.model, self.device = model, device
        self.graphs: GraphCache[_ForwardGraph] = GraphCache()
        self._capturer = capturer
        self._uses: Counter[PaddedSize] = Counter()
        self._weights = _address(model)
        self._lock = Lock()  # a graph has room for one batch

    def __call__(self, batch: Any) -> Tensor:
        """As the model: B edges or centers -> [B, D]."""
        if self._is_eligible(batch):
            with self._lock:
                graph = self._graph(batch)
                if graph is not None:
                    return graph.run(batch)
        return cast(Tensor, self.model(batch.to(self.device)))

    def _is_eligible(self, batch: Any) -> bool:
        return (
            isinstance(batch, EdgeBatch | EgoBatch)
            and not self.model.training
            and not self.graphs.failure
            and 0 < batch.text.num_tokens <= MAX_INFERENCE_TOKENS
        )

    def _graph(self, batch: EdgeBatch | EgoBatch) -> "_ForwardGraph | None":
        if self._weights != _address(self.model):  # the model has been moved
            self.graphs.clear()
            self._weights = _address(self.model)
        size = padded_size(batch, max_positions(self.model))
        self._uses[size] += 1
        is_due = self._uses[size] >= MIN_USES
        return self.graphs.find(size, (lambda: self._capture(batch, size)) if is_due else None)

    def _capture(self, batch: EdgeBatch | EgoBatch, size: PaddedSize) -> "_ForwardGraph":
        self._capturer = self._capturer or CudaCapturer()
        return _ForwardGraph(self.model, batch, size, self.device, self._capturer)


class _ForwardGraph:
    """The forward graph of one batch size, and its memory."""

    def __init__(
        self,
        model: nn.Module,
        batch: EdgeBatch | EgoBatch,
        size: PaddedSize,
        device: torch.device,
        capturer: CudaCapturer,
    ) -> None:
        padded = pad(batch, size)
        tensors = tensors_of(padded)
        self.size = size
        self.input = concat_bytes(tensors).to(device)
        self.output = torch.empty(0)
        static = with_tensors(padded, iter(split_bytes(self.input, tensors)))

        def forward() -> None:
            clear_caches(static)
            with uncached_autocast(device.type):
                self.output = model(static)

        capturer.warm_up(forward)
        self._replay = capturer.capture(forward)

    def run(self, batch: EdgeBatch | EgoBatch) -> Tensor:
        """The output for a batch of this size."""
        pin = self.input.is_cuda
        self.input.copy_(concat_bytes(tensors_of(pad(batch, self.size)), pin=pin), True)
        self._replay()
        return self.output[: len(batch)].clone()


def can_use_graphs(model: nn.Module, device: torch.device) -> bool:
    """Whether a model on a device may be captured at all."""
    is_text = isinstance(getattr(model, "encoder", None), TextEncoder)
    return device.type == "cuda" and is_text and is_enabled()


def max_positions(model: nn.Module) -> int:
    """The longest text that the encoder of a model reads, in tokens."""
    config: Any = getattr(model.get_submodule("encoder"), "config", None)
    return int(getattr(config, "max_positions", 1 << 30))


def clear_caches(batch: EdgeBatch | EgoBatch) -> None:
    """Drop values derived from offsets, so that a capture includes their computation."""
    batch.text._cache.clear()
    if isinstance(batch, EgoBatch):
        batch.egos._cache.clear()


def _address(model: nn.Module) -> int:
    """Where the weights of a model are in memory."""
    first = next(model.parameters(), None)
    return 0 if first is None else first.data_ptr()


@contextmanager
def _synchronization_forbidden() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
