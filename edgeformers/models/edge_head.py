"""EdgeHead: from an edge's representation to its label, with the loss and metrics (section 3.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast, get_args

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.evaluation import metrics
from edgeformers.models.linear_edge_model import LinearEdgeModel

Kind = Literal["class", "multi", "ordered", "number"]
Loss = Literal["cross_entropy", "released", "squared"]

#: Strengths of the preference for rare classes; more would overfit small validation sets.
TEMPERATURES = (1.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
DECISIONS = tuple(round(-0.2 + 0.05 * step, 2) for step in range(11))  # to 0.3
#: The losses of each kind of label; the first is the default.
LOSSES: dict[Kind, tuple[Loss, ...]] = {
    "class": ("cross_entropy", "released"),
    "multi": ("cross_entropy",),
    "ordered": ("cross_entropy",),
    "number": ("squared",),
}


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Predicted labels of B edges and, except for numbers, their probabilities.

    `value` is a class [B], a mask of labels [B, C], or a number [B].
    """

    value: Tensor
    probs: Tensor | None = None  # [B, C]

    def __len__(self) -> int:
        return self.value.size(0)

    @classmethod
    def cat(cls, parts: Sequence["Predictions"]) -> "Predictions":
        """The predictions of several batches as one, on the CPU."""
        probs = [part.probs.cpu() for part in parts if part.probs is not None]
        value = torch.cat([part.value.cpu() for part in parts])
        return cls(value=value, probs=torch.cat(probs) if probs else None)


class EdgeHead(nn.Module):
    """f(h_e): a linear head on edge representations for one of four kinds of labels.

    - `class`: one of C classes [B]; -1 is unknown. Loss `cross_entropy`, or `released`: softmax,
      then binary cross-entropy on one-hot labels averaged over all B x C entries.
    - `multi`: any of C labels [B, C], 1 or 0; a negative or NaN entry is unknown.
    - `ordered`: C ordered classes, such as stars [B]; -1 is unknown.
    - `number`: a number [B]; NaN is unknown. Standardized for training.

    Unknown labels are ignored by the loss and the metrics. What depends on the training labels
    (frequencies of ordered classes, mean and deviation of numbers) is set by `for_labels` and
    saved with the weights, and so are `class_weights` [C].
    """

    class_weights: Tensor
    class_shift: Tensor
    temperature: Tensor  # of the probabilities of classes
    target_mean: Tensor
    target_deviation: Tensor

    def __init__(
        self,
        width: int,
        num_classes: int = 1,
        *,
        kind: Kind = "class",
        loss: Loss | None = None,
        class_weights: Tensor | None = None,
        class_frequencies: Tensor | None = None,
        label_smoothing: float = 0.0,
        rdrop: float = 0.0,
        dropout: float = 0.0,
        target_mean: float = 0.0,
        target_deviation: float = 1.0,
    ) -> None:
        super().__init__()
        _check_settings(kind, num_classes, loss, class_weights, label_smoothing)
        self.kind, self.num_classes = kind, num_classes
        self.loss_name = loss or LOSSES[kind][0]
        self.label_smoothing, self.rdrop = label_smoothing, rdrop
        self.dropout = nn.Dropout(dropout)
        self.head: nn.Module
        if kind == "ordered":
            self.head = CumulativeLink(width, num_classes, class_frequencies)
        else:
            self.head = nn.Linear(width, 1 if kind == "number" else num_classes)
        self.ensemble: LinearEdgeModel | None = None  # decides together with this head
        weights = torch.ones(num_classes) if class_weights is None else class_weights
        self.register_buffer("class_weights", weights.float())
        self.register_buffer("class_shift", torch.zeros(num_classes))
        self.register_buffer("temperature", torch.ones(()))
        self.register_load_state_dict_pre_hook(_default_temperature)
        self.register_buffer("target_mean", torch.tensor(float(target_mean)))
        self.register_buffer("target_deviation", torch.tensor(float(target_deviation)))

    @classmethod
    def for_labels(
        cls,
        labels: Tensor | NDArray[Any],
        width: int,
        num_classes: int | None = None,
        *,
        kind: Kind = "class",
        **settings: Any,
    ) -> Self:
        """A head for these training labels."""
        given = torch.as_tensor(labels)
        known = given[is_known(given, kind)] if kind == "number" else _fully_known(given)
        if not len(known):
            raise InputError("no training edge has a label")
        if kind == "number":
            settings["target_mean"] = float(known.double().mean())
            settings["target_deviation"] = float(known.double().std(correction=0)) or 1.0
            return cls(width, kind=kind, **settings)
        present = known.size(1) if kind == "multi" else int(known.max()) + 1
        classes = present if num_classes is None else num_classes
        if kind == "ordered":
            settings["class_frequencies"] = torch.bincount(known, minlength=classes) / len(known)
        return cls(width, classes, kind=kind, **settings)

    @property
    def primary_metric(self) -> str:
        """The metric by which epochs and models are chosen; larger is better."""
        return "r2" if self.kind == "number" else "macro_f1"

    def logits(self, edge_repr: Tensor) -> Tensor:
        """[B, D] -> [B, C]; for numbers, standardized values [B]."""
        scores = cast(Tensor, self.head(self.dropout(edge_repr))).float()
        return scores.squeeze(1) if self.kind == "number" else scores

    def loss(self, edge_repr: Tensor, labels: Tensor, second: Tensor | None = None) -> Tensor:
        """[B, D] and labels -> the mean loss over known labels; 0 if there are none.

        With `second`, the same edges encoded with another dropout mask, the mean of both losses
        plus `rdrop` times the divergence of their predictions (R-Drop, Wu et al. 2021).

        Labels are checked on the CPU only: on a GPU that would cost a synchronization per step.
        """
        if labels.device.type == "cpu":
            self.check(labels)
        with torch.autocast(edge_repr.device.type, enabled=False):
            logits = self.logits(edge_repr.float())
            if second is None:
                return self._loss(logits, labels)
            other = self.logits(second.float())
            mean = (self._loss(logits, labels) + self._loss(other, labels)) / 2
            return mean + self.rdrop * self._divergence(logits, other, labels)

    def predict(self, edge_repr: Tensor, linear: Tensor | None = None) -> Predictions:
        """[B, D] -> the most probable class, the labels with p >= 0.5, or the number.

        A head with an `ensemble` needs the logits [B, C] of that linear model.
        """
        logits = self.logits(edge_repr)
        if self.ensemble is not None:
            if linear is None:
                raise InputError("this head decides with a linear model; pass its logits")
            logits = self.ensemble.mix(logits, linear)
        if self.kind == "number":
            return Predictions(value=logits * self.target_deviation + self.target_mean)
        if self.kind == "multi":
            probs = logits.sigmoid()
            return Predictions(value=probs >= 0.5, probs=probs)
        logits = logits + self.class_shift
        return Predictions(value=logits.argmax(-1), probs=(logits / self.temperature).softmax(-1))

    @torch.no_grad()
    def tune_temperature(
        self, edge_repr: Tensor, labels: Tensor, linear: Tensor | None = None
    ) -> float:
        """Choose the temperature by the likelihood of validation edges; returns it.

        It changes probabilities but no decision. 1 is kept unless another is better by more than
        two standard errors.
        """
        known = is_known(labels, self.kind)
        self.temperature.fill_(1.0)
        if not known.any():
            return 1.0
        probs = self.predict(edge_repr, linear).probs
        assert probs is not None
        log_probs, truth = probs[known].clamp(min=1e-12).log(), labels[known]
        losses = {
            value: F.cross_entropy(log_probs / value, truth, reduction="none")
            for value in TEMPERATURES
        }
        best = min(losses, key=lambda value: float(losses[value].mean()))
        gain = losses[1.0] - losses[best]
        if float(gain.mean()) > 2 * float(gain.std(correction=0)) / len(gain) ** 0.5:
            self.temperature.fill_(best)
        return float(self.temperature)

    @torch.no_grad()
    def tune_decision(
        self,
        edge_repr: Tensor,
        labels: Tensor,
        frequencies: Tensor,
        metric: str | None = None,
        linear: Tensor | None = None,
    ) -> float:
        """Choose a preference for rare classes by a metric on validation edges; returns it.

        That multiple of the log frequency of its class in training (`frequencies` [C]) is
        subtracted from every logit: 0 keeps the most probable class, 1 divides by the prior.
        Cross-entropy rewards calibrated probabilities, but Macro-F1 rewards finding rare classes.
        """
        rarity = -torch.where(frequencies > 0, frequencies, 1.0).log()
        chosen, best = 0.0, -math.inf
        for strength in sorted(DECISIONS, key=abs):
            self.class_shift.copy_(strength * rarity)
            scores = self.metrics(self.predict(edge_repr, linear), labels)
            if scores[metric or self.primary_metric] > best:
                chosen, best = strength, scores[metric or self.primary_metric]
        self.class_shift.copy_(chosen * rarity)
        return chosen

    def metrics(self, predictions: Predictions, labels: Tensor) -> dict[str, float]:
        """The metrics of this kind of label, over edges with a known label."""
        self.check(labels)
        if len(labels) != len(predictions):
            raise InputError(f"got {len(predictions)} predictions for {len(labels)} labels")
        mask = is_known(labels, self.kind).cpu()
        mask = mask.all(1) if self.kind == "multi" else mask
        truth = labels.cpu()[mask].numpy()
        value = predictions.value.detach().cpu()[mask].numpy()
        names = {
            "class": ("macro_f1", "micro_f1", "accuracy"),
            "ordered": ("macro_f1", "micro_f1", "accuracy", "mae"),
            "multi": ("macro_f1", "micro_f1", "precision"),
            "number": ("r2", "mae", "rmse"),
        }[self.kind]
        truth = truth > 0 if self.kind == "multi" else truth
        scores = {name: getattr(metrics, name)(truth, value) for name in names}
        if self.kind == "multi" and predictions.probs is not None:
            probs = predictions.probs.detach().cpu()[mask].numpy()
            scores["average_precision"] = metrics.average_precision(truth, probs)
        return scores

    def check(self, labels: Tensor) -> None:
        """Raise an InputError if labels do not belong to this head."""
        if self.kind == "number":
            return
        shape = [len(labels), self.num_classes] if self.kind == "multi" else [len(labels)]
        if list(labels.shape) != shape:
            expected = f"[B, {self.num_classes}]" if self.kind == "multi" else "[B]"
            raise InputError(
                f"labels of kind '{self.kind}' must be {expected} (got {list(labels.shape)})"
            )
        if self.kind == "multi":
            return
        if labels.is_floating_point():
            raise InputError(
                f"labels of kind '{self.kind}' must be class numbers, not {labels.dtype}; use "
                "kind='number' for numbers"
            )
        largest = int(labels.max()) if labels.numel() else -1
        if largest >= self.num_classes:
            raise InputError(
                f"label {largest} is not one of this model's {self.num_classes} classes, 0 to "
                f"{self.num_classes - 1}; -1 marks an unlabeled edge"
            )

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        known = is_known(labels, self.kind)
        if self.kind == "number":
            target = (labels.float() - self.target_mean) / self.target_deviation
            return _masked_mean((logits - torch.where(known, target, 0.0)).square(), known)
        if self.kind == "multi":
            losses = F.binary_cross_entropy_with_logits(
                logits,
                torch.where(known, labels.float(), 0.0),
                pos_weight=self.class_weights,
                reduction="none",
            )
            return _masked_mean(losses, known)
        if self.loss_name == "released":
            one_hot = F.one_hot(labels.clamp(min=0).long(), logits.size(1)).float()
            losses = F.binary_cross_entropy(logits.softmax(-1), one_hot, reduction="none")
            return _masked_mean(losses.mean(1), known)
        losses = F.cross_entropy(
            logits,
            labels.long(),
            self.class_weights,
            ignore_index=-1,
            reduction="none",
            label_smoothing=self.label_smoothing,
        )
        return losses.sum() / self._edge_weights(labels).sum().clamp(min=1e-12)

    def _divergence(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """The mean symmetric KL divergence (KL(p, q) + KL(q, p)) / 2 of two predictions.

        For numbers, half their squared difference. Over edges with known labels.
        """
        known = is_known(labels, self.kind)
        if self.kind == "number":
            return _masked_mean((first - second).square() / 2, known)
        if self.kind == "multi":
            divergence = (first.sigmoid() - second.sigmoid()) * (first - second) / 2
            return _masked_mean(divergence, known)
        p, q = first.log_softmax(-1), second.log_softmax(-1)
        divergence = ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2
        weights = self._edge_weights(labels)
        return (divergence * weights).sum() / weights.sum().clamp(min=1e-12)

    def _edge_weights(self, labels: Tensor) -> Tensor:
        """The weight of each edge [B]: that of its class, 0 without a label."""
        known = labels >= 0
        is_weighted = self.loss_name == "cross_entropy"
        return (
            self.class_weights[labels.clamp(min=0).long()] * known if is_weighted else known.float()
        )


def _default_temperature(
    head: nn.Module, tensors: dict[str, Tensor], prefix: str, *_: object
) -> None:
    """Heads that were saved before there was a temperature have 1."""
    tensors.setdefault(f"{prefix}temperature", torch.ones(()))


def is_known(labels: Tensor, kind: Kind) -> Tensor:
    """Which labels, [B] or [B, C], are known."""
    if kind == "number":
        return ~labels.isnan()
    return labels.nan_to_num(nan=-1.0) >= 0 if labels.is_floating_point() else labels >= 0


def balanced_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Weights [C] that make all classes count the same; 1 for a class without examples.

    For one class per edge: the mean class size divided by the size of the class. For several
    labels: edges without the label divided by edges with it, the weight of a positive entry.
    """
    known = _fully_known(labels)
    if known.ndim == 2:
        size = (known > 0).sum(0).double()
        weights = (len(known) - size) / size.clamp(min=1)
    else:
        size = torch.bincount(known, minlength=num_classes).double()
        weights = len(known) / (num_classes * size.clamp(min=1))
    return torch.where(size > 0, weights, 1.0).float()


def _fully_known(labels: Tensor) -> Tensor:
    """The rows whose labels are all known."""
    known = is_known(labels, "multi")
    return labels[known.all(1) if labels.ndim == 2 else known]


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp(min=1)


def _check_settings(
    kind: str,
    num_classes: int,
    loss: str | None,
    class_weights: Tensor | None,
    label_smoothing: float,
) -> None:
    if kind not in get_args(Kind):
        raise ConfigError(f"unknown kind of label '{kind}'; {suggest(kind, get_args(Kind))}")
    least = 2 if kind in ("class", "ordered") else 1
    if num_classes < least:
        raise ConfigError(f"kind '{kind}' needs at least {least} classes (got {num_classes})")
    losses = LOSSES[cast(Kind, kind)]
    if loss is not None and loss not in losses:
        raise ConfigError(
            f"kind '{kind}' does not support loss '{loss}'; available: {', '.join(losses)}"
        )
    is_plain = kind == "class" and loss != "released"
    if label_smoothing and not (is_plain and 0 < label_smoothing < 1):
        raise ConfigError(
            "label_smoothing must be below 1 and needs kind 'class' with loss 'cross_entropy' "
            f"(got {label_smoothing} for kind '{kind}')"
        )
    if class_weights is None:
        return
    if kind == "number" or loss == "released":
        raise ConfigError(f"loss '{loss or losses[0]}' does not support class_weights")
    if class_weights.shape != (num_classes,):
        raise ConfigError(
            f"class_weights must be [{num_classes}], one per class "
            f"(got {list(class_weights.shape)})"
        )


class CumulativeLink(nn.Module):
    """Ordered classes as intervals of one line: P(y <= k) = sigmoid(threshold_k - w . h).

    Confusing neighboring classes costs less than confusing distant ones. The output are
    log-probabilities, which are also logits: their softmax is the probabilities again.

    Shapes: B edges, D width, C classes.
    """

    def __init__(self, width: int, num_classes: int, frequencies: Tensor | None = None) -> None:
        super().__init__()
        self.place = nn.Linear(width, 1, bias=False)
        uniform = torch.full((num_classes,), 1 / num_classes)
        below = (uniform if frequencies is None else frequencies).cumsum(0)[:-1]
        thresholds = torch.logit(below.clamp(1e-4, 1 - 1e-4))  # at w = 0 classes have their share
        gaps = thresholds.diff().clamp(min=1e-3)
        self.first = nn.Parameter(thresholds[:1].clone())
        self.gaps = nn.Parameter(torch.log(torch.expm1(gaps)))  # the inverse of softplus

    def thresholds(self) -> Tensor:
        """The C - 1 borders between classes, in ascending order."""
        return torch.cat([self.first, self.first + F.softplus(self.gaps).cumsum(0)])

    def forward(self, edge_repr: Tensor) -> Tensor:
        """[B, D] -> log-probabilities [B, C]."""
        distance = self.thresholds() - self.place(edge_repr)  # [B, C-1]
        upper = F.pad(F.logsigmoid(distance), (0, 1))  # log P(y <= k); 0 for the last class
        lower = F.pad(F.logsigmoid(-distance), (1, 0))  # log P(y > k - 1); 0 for the first
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)), without cancellation
        inner = torch.log(-torch.expm1(-F.softplus(self.gaps)))
        return upper + lower + F.pad(inner, (1, 1))
