"""CUDA graphs of training steps, for models whose kernels run faster than the host launches them.

Batches are padded to one of a few sizes (`inference.padding`). For each size, the forward and
backward pass are captured once; a replay launches all their kernels with one call. The node table
stays outside the graphs, so that its gradient is sparse: the captured model reads the vectors of
the batch's nodes from a buffer.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn

from edgeformers.data.batch import EdgeBatch, EgoBatch, move, tensors_of
from edgeformers.inference.cuda_graphs import (
    CudaCapturer,
    GraphCache,
    can_use_graphs,
    clear_caches,
    max_positions,
    uncached_autocast,
)
from edgeformers.inference.padding import PaddedSize, model_inputs, pad, padded_size, padding
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.nn.node_prior import NodePrior

MIN_STEPS = 200  # shorter runs do not repay the capture

#: Rounded from measurements of `benchmarks.throughput` on an H200.
LAUNCH_SECONDS_PER_LAYER = 5.5e-3  # of the kernels of both passes, one by one
FLOPS_PER_SECOND = 4e14

NO_LIMIT = 1 << 62  # tokens


@contextmanager
def use_cuda_graphs(
    objective: Any, setting: bool | None, *, device: torch.device, steps: int
) -> Iterator[None]:
    """Let an objective call its model through CUDA graphs, if that is faster."""
    model = getattr(objective, "model", None)
    if model is None or not can_use_graphs(model, device):
        yield
        return
    max_tokens = max_graph_tokens(setting, model.encoder.config, steps=steps)
    plain = objective.read
    if max_tokens:
        objective.read = GraphedModel(objective.model, max_tokens=max_tokens)
    try:
        yield
    finally:
        objective.read = plain


def max_graph_tokens(setting: bool | None, config: EncoderConfig, *, steps: int) -> int:
    """The largest batch, in tokens, to use graphs for; 0: none.

    Without a `setting`, these are the batches whose kernels take less time than their launches, in
    runs of at least `MIN_STEPS`. The result is the same when a run is resumed.
    """
    if setting is not None:
        return NO_LIMIT if setting else 0
    return launch_bound_tokens(config) if steps >= MIN_STEPS else 0


def launch_bound_tokens(config: EncoderConfig) -> int:
    """The number of tokens whose computation takes about as long as the kernel launches."""
    weights = 4 * config.width**2 + 2 * config.width * config.ffn_width  # per layer
    return int(LAUNCH_SECONDS_PER_LAYER * FLOPS_PER_SECOND / (6 * weights))


class BatchNodes(nn.Module):
    """Replaces the node table in a captured model: node i is row i of a buffer."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = vectors  # [n, K]

    def forward(self, nodes: Tensor) -> Tensor:
        """Node numbers [...] -> [..., K]."""
        rows = self.vectors.index_select(0, nodes.flatten())
        return rows.view(*nodes.shape, -1)


class GraphedModel:
    """Calls a model through CUDA graphs in training.

    Without graphs run: evaluation, batches larger than `max_tokens`, sizes for which the
    `GraphCache` has no room, a second forward pass before the backward pass of the first, and
    models that cannot be captured.
    """

    def __init__(
        self, model: nn.Module, *, max_tokens: int, capturer: CudaCapturer | None = None
    ) -> None:
        self.model, self.max_tokens = model, max_tokens
        self.capturer = capturer or CudaCapturer()
        self.nodes = model.get_submodule("nodes")
        # In a captured model nodes have other numbers, by which nothing else can be looked up.
        self.needs_summaries = any(isinstance(m, NodePrior) for m in model.modules())
        own = {id(p) for p in self.nodes.parameters()}
        self.parameters = [p for p in model.parameters() if p.requires_grad and id(p) not in own]
        self.gradients: list[Tensor] = []
        self.graphs: GraphCache[_Graph] = GraphCache()
        self._pending: Callable[[], Any] = lambda: None  # a pass that awaits its backward pass

    def __call__(self, batch: Any) -> Tensor:
        """As the model: B edges or centers -> [B, D]."""
        if not self._is_eligible(batch) or self._pending() is not None:
            return cast(Tensor, self.model(batch))
        graph = self._graph(batch)
        if graph is None:
            return cast(Tensor, self.model(batch))
        pending = _Pending()
        self._pending = weakref.ref(pending)
        vectors = self.nodes(torch.cat(_nodes(batch)))  # [n, K]
        anchor = torch.zeros((), requires_grad=True)  # ensures a backward pass
        graph.load(batch)
        apply: Callable[..., Tensor] = _Replay.apply
        return apply(self, graph, pending, anchor, vectors)[: len(batch)]

    def adopt_gradients(self, used: list[int]) -> None:
        """Make the buffers of the captured backward pass the gradients of the `used` parameters."""
        pairs = [(self.parameters[i], self.gradients[i]) for i in used]
        if empty := [buffer for parameter, buffer in pairs if parameter.grad is None]:
            torch._foreach_zero_(empty)
        for parameter, buffer in pairs:
            if parameter.grad is not None and parameter.grad is not buffer:
                buffer.copy_(parameter.grad)
            parameter.grad = buffer

    def _is_eligible(self, batch: Any) -> bool:
        return (
            isinstance(batch, EdgeBatch | EgoBatch)
            and self.model.training
            and torch.is_grad_enabled()
            and not self.graphs.failure
            and 0 < batch.text.num_tokens <= self.max_tokens
            and (not self.needs_summaries or getattr(batch, "summaries", None) is not None)
        )

    def _graph(self, batch: EdgeBatch | EgoBatch) -> "_Graph | None":
        size = padded_size(batch, max_positions(self.model))
        return self.graphs.find(size, lambda: self._capture(batch, size))

    def _capture(self, batch: EdgeBatch | EgoBatch, size: PaddedSize) -> "_Graph":
        if not self.gradients:
            self.gradients = [torch.zeros_like(p) for p in self.parameters]
        for parameter, buffer in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is buffer:  # of an earlier pass, must not be overwritten
                parameter.grad = buffer.clone()
        device = batch.text.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            return _Graph(self, batch, size)


class _Pending:
    """Exists until a backward pass is done or no longer possible."""


class _Graph:
    """The forward and backward graphs of one batch size, and their memory."""

    def __init__(self, owner: GraphedModel, batch: EdgeBatch | EgoBatch, size: PaddedSize) -> None:
        self.size, self.rows = size, [len(nodes) for nodes in _nodes(batch)]
        self.batch, lengths = _number_nodes(pad(batch, size))
        self.tensors = tensors_of(self.batch)
        self.groups = _group_by_dtype(self.tensors, _nodes(self.batch))
        self.starts = [0, lengths[0]]
        width = int(owner.nodes(_nodes(batch)[0][:1]).size(-1))
        device = batch.text.device
        self.vectors = torch.zeros(sum(lengths), width, device=device, requires_grad=True)
        self.vectors_grad = torch.zeros_like(self.vectors)
        self.output = self.output_grad = torch.empty(0)
        self.used: list[int] = []  # parameters with a gradient
        owner.capturer.warm_up(lambda: self._warm_up(owner))
        self._capture(owner)

    def load(self, batch: EdgeBatch | EgoBatch) -> None:
        """Copy a batch of this size to the memory of the graphs."""
        real = tensors_of(model_inputs(batch))
        added = move(padding(batch, self.size), batch.text.device)
        for group in self.groups:
            targets = [self.tensors[i].split([len(real[i]), len(added[i])]) for i in group]
            sources = [(real[i], added[i]) for i in group]
            torch._foreach_copy_([*chain(*targets)], [*chain(*sources)])
        self.rows = [len(nodes) for nodes in _nodes(batch)]

    def load_vectors(self, vectors: Tensor) -> None:
        """Copy the vectors of the nodes of a batch to the memory of the graphs."""
        with torch.no_grad():
            for start, part in zip(self.starts, vectors.split(self.rows), strict=True):
                self.vectors[start : start + len(part)].copy_(part)

    def gradient_of_vectors(self) -> Tensor:
        """The gradient of the vectors of the nodes of a batch."""
        pairs = zip(self.starts, self.rows, strict=True)
        return torch.cat([self.vectors_grad[start : start + count] for start, count in pairs])

    def _warm_up(self, owner: GraphedModel) -> None:
        output = self._forward(owner)
        self.output, self.output_grad = torch.zeros_like(output), torch.zeros_like(output)
        self._backward(owner, output)

    def _capture(self, owner: GraphedModel) -> None:
        outputs: list[Tensor] = []

        def forward() -> None:
            outputs[:] = [self._forward(owner)]
            self.output.copy_(outputs[0].detach())

        def backward() -> None:
            self._backward(owner, outputs.pop())

        self.replay_forward = owner.capturer.capture(forward)
        self.replay_backward = owner.capturer.capture(backward)

    def _forward(self, owner: GraphedModel) -> Tensor:
        clear_caches(self.batch)
        with (
            _replaced_nodes(owner.model, BatchNodes(self.vectors)),
            torch.enable_grad(),
            uncached_autocast(self.vectors.device.type),
        ):
            return cast(Tensor, owner.model(self.batch))

    def _backward(self, owner: GraphedModel, output: Tensor) -> None:
        """Add to the gradients, which `adopt_gradients` resets before every replay."""
        inputs = [self.vectors, *owner.parameters]
        grads = torch.autograd.grad(output, inputs, self.output_grad, allow_unused=True)
        if grads[0] is not None:
            self.vectors_grad.copy_(grads[0])
        self.used = [i for i, grad in enumerate(grads[1:]) if grad is not None]
        buffers = [owner.gradients[i] for i in self.used]
        torch._foreach_add_(buffers, [grads[1 + i] for i in self.used])


class _Replay(torch.autograd.Function):
    """A replay as an autograd function; its backward pass also sets parameter gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        owner: GraphedModel,
        graph: _Graph,
        pending: _Pending,
        anchor: Tensor,
        vectors: Tensor,
    ) -> Tensor:
        ctx.owner, ctx.graph, ctx.pending = owner, graph, pending
        graph.load_vectors(vectors)
        graph.replay_forward()
        return graph.output.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        graph: _Graph = ctx.graph
        graph.output_grad.copy_(grad)
        ctx.owner.adopt_gradients(graph.used)
        graph.replay_backward()
        ctx.pending = None
        return None, None, None, None, graph.gradient_of_vectors()


@contextmanager
def _replaced_nodes(model: nn.Module, nodes: nn.Module) -> Iterator[None]:
    original = model.get_submodule("nodes")
    model.nodes = nodes
    try:
        yield
    finally:
        model.nodes = original


def _node_names(batch: Any) -> tuple[str, str]:
    return ("src", "dst") if isinstance(batch, EdgeBatch) else ("center", "neighbor")


def _nodes(batch: Any) -> list[Tensor]:
    """All nodes of a batch: sources and targets, or centers and neighbors."""
    return [getattr(batch, name) for name in _node_names(batch)]


def _group_by_dtype(tensors: list[Tensor], without: list[Tensor]) -> list[list[int]]:
    """Indices of tensors of the same type, which are copied at once, except those in `without`."""
    indices = [i for i, tensor in enumerate(tensors) if not any(tensor is one for one in without)]
    types = dict.fromkeys(tensors[i].dtype for i in indices)
    return [[i for i in indices if tensors[i].dtype == dtype] for dtype in types]


def _number_nodes(batch: Any) -> tuple[Any, list[int]]:
    """The batch with its nodes numbered as in `_nodes`, and the lengths of the two parts."""
    lengths = [len(nodes) for nodes in _nodes(batch)]
    numbers = torch.arange(sum(lengths), device=batch.text.device).split(lengths)
    return replace(batch, **dict(zip(_node_names(batch), numbers, strict=True))), lengths
