"""Passes of a model recorded as CUDA graphs and replayed: a small step is not held up by its host.

A batch is filled up to one of a few sizes (`train.padding`). For each size the way forward and the
way back are recorded once; a replay launches all their kernels at one call. The node table stays
outside, so that its gradient is sparse: a recorded model looks nodes up in the vectors of the
batch, which are brought to it.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from itertools import chain
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch, EgoBatch, tensors_of
from edgeformers.data.pinned_copy import move
from edgeformers.nn.ragged import Ragged
from edgeformers.training.padding import Size, as_read, edge_size, ego_size, fill, rest

MOST_SIZES = 32  # recorded at most; batches of further sizes run as they are


class Recorder(Protocol):
    """Gives of a function what runs it again on the same memory."""

    def warm(self, run: Callable[[], None]) -> None:
        """Run what will be recorded, so that everything is compiled and tuned by then."""
        ...

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run it and give what runs it again."""
        ...


class CudaRecorder:
    """Records a function's kernels as a CUDA graph; all graphs share one pool of memory.

    A function that would wait for the GPU is refused before it is recorded: a recording that
    breaks off leaves the random numbers of the device unusable.
    """

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def warm(self, run: Callable[[], None]) -> None:
        stream = torch.cuda.Stream()  # recordings are made beside the usual stream too
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run()
            with _waiting_refused():
                run()
        torch.cuda.current_stream().wait_stream(stream)

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # Other threads pin memory meanwhile, which must not spoil the recording.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            run()
        return graph.replay


class BatchNodes(nn.Module):
    """Stands for a model's node table: number i is row i of the vectors brought for a batch."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = vectors  # [n, K]

    def forward(self, nodes: Tensor) -> Tensor:
        """Places [...] -> [..., K]."""
        rows = self.vectors.index_select(0, nodes.flatten())
        return rows.view(*nodes.shape, -1)


class GraphedModel:
    """A model that is called like itself; its training passes are recorded and replayed.

    What cannot be recorded runs as it is: evaluation, batches larger than `most_tokens`, sizes
    beyond `MOST_SIZES`, a second pass before the way back of the first, and a model that refuses.
    """

    def __init__(
        self, model: nn.Module, *, most_tokens: int, recorder: Recorder | None = None
    ) -> None:
        self.model, self.most_tokens = model, most_tokens
        self.recorder: Recorder = recorder or CudaRecorder()
        self.nodes = model.get_submodule("nodes")
        own = {id(p) for p in self.nodes.parameters()}
        self.parameters = [p for p in model.parameters() if p.requires_grad and id(p) not in own]
        self.gradients: list[Tensor] = []
        self.failure = ""  # why the model refused to be recorded
        self._recorded: dict[Size, _Recorded] = {}
        self._open: Callable[[], Any] = lambda: None  # whether a pass waits for its way back

    def __call__(self, batch: Any) -> Tensor:
        """As the model: B edges or centers -> [B, D]."""
        if not self._can_record(batch) or self._open() is not None:
            return cast(Tensor, self.model(batch))
        recorded = self._find(batch)
        if recorded is None:
            return cast(Tensor, self.model(batch))
        passing = _Pass()
        self._open = weakref.ref(passing)
        vectors = self.nodes(_node_numbers(batch))  # [n, K]
        anchor = torch.zeros((), requires_grad=True)  # so that there always is a way back
        recorded.load(batch)
        apply: Callable[..., Tensor] = _Replay.apply
        return apply(self, recorded, passing, anchor, vectors)[: len(batch)]

    def adopt_gradients(self, used: list[int]) -> None:
        """Let gradients of the parameters used lie where the recorded way back adds its own."""
        pairs = [(self.parameters[i], self.gradients[i]) for i in used]
        if empty := [buffer for parameter, buffer in pairs if parameter.grad is None]:
            torch._foreach_zero_(empty)
        for parameter, buffer in pairs:
            if parameter.grad is not None and parameter.grad is not buffer:
                buffer.copy_(parameter.grad)
            parameter.grad = buffer

    def _can_record(self, batch: Any) -> bool:
        return (
            isinstance(batch, EdgeBatch | EgoBatch)
            and self.model.training
            and torch.is_grad_enabled()
            and not self.failure
            and 0 < batch.text.num_tokens <= self.most_tokens
        )

    def _find(self, batch: EdgeBatch | EgoBatch) -> "_Recorded | None":
        limit = self._max_positions()
        size = edge_size(batch, limit) if isinstance(batch, EdgeBatch) else ego_size(batch, limit)
        if size not in self._recorded and len(self._recorded) < MOST_SIZES:
            try:
                self._recorded[size] = self._record(batch, size)
            except Exception as error:  # whatever a model does that cannot be recorded
                self.failure = f"{type(error).__name__}: {error}".strip()
                self._recorded.clear()  # their memory is of use to others
        return self._recorded.get(size)

    def _record(self, batch: EdgeBatch | EgoBatch, size: Size) -> "_Recorded":
        if not self.gradients:
            self.gradients = [torch.zeros_like(p) for p in self.parameters]
        for parameter, buffer in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is buffer:  # of an earlier pass, not to be written over
                parameter.grad = buffer.clone()
        with _random_state_kept(batch.text.device):
            return _Recorded(self, batch, size)

    def _max_positions(self) -> int:
        config: Any = getattr(self.model.get_submodule("encoder"), "config", None)
        return int(getattr(config, "max_positions", 1 << 30))


class _Pass:
    """Lives until a pass has had its way back, or nobody can ask for it any more."""


class _Recorded:
    """One size of batch: its memory, and the two recordings that work on it."""

    def __init__(self, owner: GraphedModel, batch: EdgeBatch | EgoBatch, size: Size) -> None:
        self.size, self.rows = size, _rows(batch)
        self.batch, lengths = _with_places(fill(batch, size))
        self.tensors = tensors_of(self.batch)
        self.groups = _groups(self.tensors, [getattr(self.batch, n) for n in _node_names(batch)])
        self.starts = [0, lengths[0]]
        width = int(owner.nodes(_node_numbers(batch)[:1]).size(-1))
        device = batch.text.device
        self.vectors = torch.zeros(sum(lengths), width, device=device, requires_grad=True)
        self.found = torch.zeros_like(self.vectors)
        self.output = self.given = torch.empty(0)
        self.used: list[int] = []  # parameters that the way back reaches
        owner.recorder.warm(lambda: self._warm(owner))
        self._record(owner)

    def load(self, batch: EdgeBatch | EgoBatch) -> None:
        """Bring a batch of this size to the recordings' memory."""
        real, added = tensors_of(as_read(batch)), move(rest(batch, self.size), batch.text.device)
        for group in self.groups:
            places = [self.tensors[i].split([len(real[i]), len(added[i])]) for i in group]
            parts = [(real[i], added[i]) for i in group]
            torch._foreach_copy_([*chain(*places)], [*chain(*parts)])
        self.rows = _rows(batch)

    def bring(self, vectors: Tensor) -> None:
        """Vectors of the real nodes to their places among all."""
        with torch.no_grad():
            for start, part in zip(self.starts, vectors.split(self.rows), strict=True):
                self.vectors[start : start + len(part)].copy_(part)

    def fetch(self) -> Tensor:
        """The gradient of the real nodes' vectors."""
        pairs = zip(self.starts, self.rows, strict=True)
        return torch.cat([self.found[start : start + count] for start, count in pairs])

    def _warm(self, owner: GraphedModel) -> None:
        output = self._forward(owner)
        self.output, self.given = torch.zeros_like(output), torch.zeros_like(output)
        self._backward(owner, output, keep=False)

    def _record(self, owner: GraphedModel) -> None:
        made: list[Tensor] = []

        def forward() -> None:
            made[:] = [self._forward(owner)]
            self.output.copy_(made[0].detach())

        def backward() -> None:
            self._backward(owner, made.pop(), keep=True)

        self.replay_forward = owner.recorder.record(forward)
        self.replay_backward = owner.recorder.record(backward)

    def _forward(self, owner: GraphedModel) -> Tensor:
        _forget(self.batch)
        kind = self.vectors.device.type
        is_auto, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        # Weights cast before the recording would not change with the weights: none are kept.
        with (
            _standing_in(owner.model, BatchNodes(self.vectors)),
            torch.enable_grad(),
            torch.autocast(kind, dtype, enabled=is_auto, cache_enabled=False),
        ):
            return cast(Tensor, owner.model(self.batch))

    def _backward(self, owner: GraphedModel, output: Tensor, *, keep: bool) -> None:
        inputs = [self.vectors, *owner.parameters]
        found = torch.autograd.grad(output, inputs, self.given, allow_unused=True)
        if not keep:
            return
        if found[0] is not None:
            self.found.copy_(found[0])
        self.used = [i for i, grad in enumerate(found[1:]) if grad is not None]
        buffers = [owner.gradients[i] for i in self.used]
        torch._foreach_add_(buffers, [found[1 + i] for i in self.used])


class _Replay(torch.autograd.Function):
    """A recorded pass as one step of autograd; gradients of parameters come on the way."""

    @staticmethod
    def forward(
        ctx: Any,
        owner: GraphedModel,
        recorded: _Recorded,
        passing: _Pass,
        anchor: Tensor,
        vectors: Tensor,
    ) -> Tensor:
        ctx.owner, ctx.recorded, ctx.passing = owner, recorded, passing
        recorded.bring(vectors)
        recorded.replay_forward()
        return recorded.output.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        recorded: _Recorded = ctx.recorded
        recorded.given.copy_(grad)
        ctx.owner.adopt_gradients(recorded.used)
        recorded.replay_backward()
        ctx.passing = None
        return None, None, None, None, recorded.fetch()


@contextmanager
def _standing_in(model: nn.Module, nodes: nn.Module) -> Iterator[None]:
    own = model.get_submodule("nodes")
    model.nodes = nodes
    try:
        yield
    finally:
        model.nodes = own


@contextmanager
def _waiting_refused() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _random_state_kept(device: torch.device) -> AbstractContextManager[None]:
    devices = [device] if device.type == "cuda" else []
    return torch.random.fork_rng(devices)


def _node_numbers(batch: EdgeBatch | EgoBatch) -> Tensor:
    """All nodes of a batch: sources and targets, or centers and neighbors."""
    if isinstance(batch, EdgeBatch):
        return torch.cat([batch.src, batch.dst])
    return torch.cat([batch.center, batch.neighbor])


def _rows(batch: EdgeBatch | EgoBatch) -> list[int]:
    if isinstance(batch, EdgeBatch):
        return [len(batch), len(batch)]
    return [len(batch), batch.text.num_texts]


def _node_names(batch: Any) -> tuple[str, str]:
    return ("src", "dst") if isinstance(batch, EdgeBatch) else ("center", "neighbor")


def _groups(tensors: list[Tensor], without: list[Tensor]) -> list[list[int]]:
    """Places of tensors that are copied at once: those of one type, but for some."""
    kept = [i for i, tensor in enumerate(tensors) if not any(tensor is one for one in without)]
    types = dict.fromkeys(tensors[i].dtype for i in kept)
    return [[i for i in kept if tensors[i].dtype == dtype] for dtype in types]


def _with_places(batch: Any) -> tuple[Any, list[int]]:
    """The batch with places in `_node_numbers` for node numbers, and how many each part has."""
    names = _node_names(batch)
    lengths = [len(getattr(batch, name)) for name in names]
    places = torch.arange(sum(lengths), device=batch.text.device).split(lengths)
    return replace(batch, **dict(zip(names, places, strict=True))), lengths


def _forget(batch: Any) -> None:
    """Drop what was derived from a batch, so that it is derived anew within the recording."""
    for field in fields(batch):
        if isinstance(value := getattr(batch, field.name), Ragged):
            value._cache.clear()
