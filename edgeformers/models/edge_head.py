"""Edge classification: from an edge's representation to its class, labels, stars or number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.evaluation import metrics
from edgeformers.models.linear_edge_model import LinearEdgeModel

Kind = Literal["class", "multi", "ordered", "number"]
Loss = Literal["cross_entropy", "released", "squared"]

#: Shares by which rare classes may be favored; more is chance on small validation parts.
DECISIONS = tuple(round(-0.2 + 0.05 * step, 2) for step in range(11))  # to 0.3
#: The losses each kind of label can be learned with; the first is the default.
LOSSES: dict[Kind, tuple[Loss, ...]] = {
    "class": ("cross_entropy", "released"),
    "multi": ("cross_entropy",),
    "ordered": ("cross_entropy",),
    "number": ("squared",),
}


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a head says of B edges: `value` and, but for numbers, the probabilities behind it.

    `value` is a class number [B], a table of truths [B, C], or a number [B].
    """

    value: Tensor
    probs: Tensor | None = None  # [B, C]

    def __len__(self) -> int:
        return self.value.size(0)

    @classmethod
    def cat(cls, parts: Sequence["Predictions"]) -> "Predictions":
        """The predictions of several batches as one, on the host."""
        probs = [part.probs.cpu() for part in parts if part.probs is not None]
        value = torch.cat([part.value.cpu() for part in parts])
        return cls(value=value, probs=torch.cat(probs) if probs else None)


class CumulativeLink(nn.Module):
    """Ordered classes on one line: P(y <= k) = sigmoid(threshold_k - w . h), thresholds rising.

    A representation has one place on the line, and classes are the stretches between
    thresholds; a star too many costs less than three. Gives log-probabilities, which are also
    logits: their softmax is the probabilities again.

    Shapes: B edges, D width, C classes.
    """

    def __init__(self, width: int, num_classes: int, shares: Tensor | None = None) -> None:
        super().__init__()
        self.place = nn.Linear(width, 1, bias=False)
        even = torch.full((num_classes,), 1 / num_classes)
        below = (even if shares is None else shares).cumsum(0)[:-1].clamp(1e-4, 1 - 1e-4)
        thresholds = torch.logit(below)  # at w = 0 the classes have their shares
        gaps = thresholds.diff().clamp(min=1e-3)
        self.first = nn.Parameter(thresholds[:1].clone())
        self.gaps = nn.Parameter(torch.log(torch.expm1(gaps)))  # softplus gives the gaps back

    def thresholds(self) -> Tensor:
        """The C - 1 borders between classes, rising."""
        return torch.cat([self.first, self.first + F.softplus(self.gaps).cumsum(0)])

    def forward(self, edge_repr: Tensor) -> Tensor:
        """[B, D] -> log-probabilities [B, C]."""
        reach = self.thresholds() - self.place(edge_repr)  # [B, C-1]
        upper = F.pad(F.logsigmoid(reach), (0, 1))  # log P(y <= k); 0 for the last class
        lower = F.pad(F.logsigmoid(-reach), (1, 0))  # log P(y > k - 1); 0 for the first
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)): nothing cancels
        inner = torch.log(-torch.expm1(-F.softplus(self.gaps)))
        return upper + lower + F.pad(inner, (1, 1))


class EdgeHead(nn.Module):
    """f(h_e): a head on edge representations, its loss, and the metrics that count (section 3.1).

    Kinds of labels, B edges and C classes:

    - `class`: one of C classes [B]; -1 is unknown. Loss `cross_entropy`, or `released`: softmax,
      then binary cross-entropy on one-hot labels averaged over all B x C entries.
    - `multi`: any of C labels [B, C], 1 or 0; a negative or nan entry is unknown.
    - `ordered`: C classes in order, such as stars [B]; -1 is unknown.
    - `number`: a number [B]; nan is unknown. Learned with mean 0 and deviation 1, and given back
      in its own units.

    Unknown labels take no part in the loss, nor edges with one in the metrics. What depends on
    the training labels (shares of ordered classes to start from, mean and deviation of numbers)
    comes from `EdgeHead.for_labels` and is saved with the weights, as `class_weights` [C] are.
    """

    class_weights: Tensor
    class_shift: Tensor
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
        class_shares: Tensor | None = None,
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
        self.head = self._make_head(width, class_shares)
        self.ensemble: LinearEdgeModel | None = None
        weights = torch.ones(num_classes) if class_weights is None else class_weights
        self.register_buffer("class_weights", weights.float())
        self.register_buffer("class_shift", torch.zeros(num_classes))
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
        """A head made for training labels: classes counted, numbers measured."""
        given = torch.as_tensor(labels)
        known = given[~given.isnan()].double() if kind == "number" else _known_labels(given)
        if not len(known):
            raise InputError("no training edge has a label; there is nothing to learn from")
        if kind == "number":
            settings["target_mean"] = float(known.mean())
            settings["target_deviation"] = float(known.std(correction=0)) or 1.0
            return cls(width, kind=kind, **settings)
        found = known.size(1) if kind == "multi" else int(known.max()) + 1
        classes = found if num_classes is None else num_classes
        if kind == "ordered":
            settings["class_shares"] = torch.bincount(known, minlength=classes) / len(known)
        return cls(width, classes, kind=kind, **settings)

    @property
    def primary_metric(self) -> str:
        """The metric by which epochs and models are chosen; larger is better."""
        return "r2" if self.kind == "number" else "macro_f1"

    def set_ensemble(self, ensemble: LinearEdgeModel | None) -> None:
        """From now on decide with a linear model beside the trained one."""
        self.ensemble = ensemble

    def logits(self, edge_repr: Tensor) -> Tensor:
        """[B, D] -> [B, C]; of numbers, standardized values [B]."""
        scores = cast(Tensor, self.head(self.dropout(edge_repr))).float()
        return scores.squeeze(1) if self.kind == "number" else scores

    def loss(self, edge_repr: Tensor, labels: Tensor, again: Tensor | None = None) -> Tensor:
        """[B, D] and labels -> the mean loss over known labels; 0 where none is known.

        With `again`, the same edges encoded a second time with other parts dropped, it is the
        mean of both, and `consistency` times how far the two predictions are apart (R-Drop, Wu
        et al. 2021).

        Labels on the host are checked. On a device that would cost a wait at every step: check
        them beforehand.
        """
        if labels.device.type == "cpu":
            self.check(labels)
        with torch.autocast(edge_repr.device.type, enabled=False):
            logits = self.logits(edge_repr.float())
            if again is None:
                return self._loss_of(logits, labels)
            other = self.logits(again.float())
            both = (self._loss_of(logits, labels) + self._loss_of(other, labels)) / 2
            return both + self.rdrop * self._distance(logits, other, labels)

    def predict(self, edge_repr: Tensor, linear: Tensor | None = None) -> Predictions:
        """[B, D] -> the likeliest class, the labels above one half, or the number.

        Of a head with a linear model beside it, `linear` is what that says of the edges [B, C].
        """
        logits = self.logits(edge_repr)
        if self.ensemble is not None:
            if linear is None:
                raise InputError("this head decides with a linear model beside it: give its logits")
            logits = self.ensemble.mix(logits, linear)
        if self.kind == "number":
            return Predictions(value=logits * self.target_deviation + self.target_mean)
        if self.kind == "multi":
            probs = logits.sigmoid()
            return Predictions(value=probs >= 0.5, probs=probs)
        logits = logits + self.class_shift
        return Predictions(value=logits.argmax(-1), probs=logits.softmax(-1))

    @torch.no_grad()
    def tune_decision(
        self,
        edge_repr: Tensor,
        labels: Tensor,
        shares: Tensor,
        metric: str | None = None,
        linear: Tensor | None = None,
    ) -> float:
        """Choose how much rare classes are favored, by a metric on held-out edges; gives the share.

        From every logit that share of the log of its class's part in training (`shares` [C]) is
        taken: 0 leaves the likeliest class, 1 asks which class the edge speaks for most. Training
        rewards right probabilities; Macro-F1 rewards finding rare classes. The probabilities that
        `predict` gives are shifted likewise, so that the likeliest class is the one decided for.
        """
        rarity = -torch.where(shares > 0, shares, 1.0).log()  # 0 of a class that training lacks
        chosen, best = 0.0, -math.inf
        for share in sorted(DECISIONS, key=abs):
            self.class_shift.copy_(share * rarity)
            found = self.metrics(self.predict(edge_repr, linear), labels)
            score = found[metric or self.primary_metric]
            if score > best:
                chosen, best = share, score
        self.class_shift.copy_(chosen * rarity)
        return chosen

    def metrics(self, predictions: Predictions, labels: Tensor) -> dict[str, float]:
        """What counts for this kind of label, over the edges whose label is known."""
        self.check(labels)
        if len(labels) != len(predictions):
            raise InputError(f"there are {len(predictions)} predictions for {len(labels)} labels")
        truth, value = labels.cpu().numpy(), predictions.value.detach().cpu().numpy()
        if self.kind == "multi":
            known = (np.nan_to_num(truth, nan=-1) >= 0).all(1)
            return self._metrics_of_tables(predictions, truth[known] > 0, known)
        known = ~np.isnan(truth) if self.kind == "number" else truth >= 0
        truth, value = truth[known], value[known]
        if self.kind == "number":
            return {name: getattr(metrics, name)(truth, value) for name in ("r2", "mae", "rmse")}
        figures = {
            "macro_f1": metrics.macro_f1(truth, value),
            "micro_f1": metrics.micro_f1(truth, value),
            "accuracy": metrics.accuracy(truth, value),
        }
        return {**figures, "mae": metrics.mae(truth, value)} if self.kind == "ordered" else figures

    def check(self, labels: Tensor) -> None:
        """Refuse labels that are not of this head."""
        if self.kind == "number":
            return
        axes = 2 if self.kind == "multi" else 1
        if labels.ndim != axes or (axes == 2 and labels.size(1) != self.num_classes):
            wanted = f"[B, {self.num_classes}]" if axes == 2 else "[B]"
            raise InputError(
                f"labels of kind '{self.kind}' must be {wanted} (got {list(labels.shape)})"
            )
        if axes == 1 and labels.is_floating_point():
            raise InputError(
                f"labels of kind '{self.kind}' are class numbers, not {labels.dtype}; "
                "for numbers use kind='number'"
            )
        largest = int(labels.max()) if axes == 1 and labels.numel() else -1
        if largest >= self.num_classes:
            raise InputError(
                f"label {largest} is unknown to this model, which was made for {self.num_classes} "
                f"classes, 0 to {self.num_classes - 1}; -1 marks an edge without label"
            )

    def _metrics_of_tables(
        self, predictions: Predictions, truth: NDArray[np.bool_], known: NDArray[np.bool_]
    ) -> dict[str, float]:
        value = predictions.value.cpu().numpy()[known]
        figures = {
            "macro_f1": metrics.macro_f1(truth, value),
            "micro_f1": metrics.micro_f1(truth, value),
            "precision": metrics.precision(truth, value),
        }
        if predictions.probs is not None:
            probs = predictions.probs.detach().cpu().numpy()[known]
            figures["average_precision"] = metrics.average_precision(truth, probs)
        return figures

    def _loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.kind == "number":
            return self._squared(logits, labels)
        if self.kind == "multi":
            return self._binary(logits, labels)
        if self.loss_name == "released":
            return _released(logits, labels.long())
        return self._cross_entropy(logits, labels.long())

    def _distance(self, one: Tensor, other: Tensor, labels: Tensor) -> Tensor:
        """The mean over known labels of how far two predictions of an edge are apart.

        Of probabilities (KL(p, q) + KL(q, p)) / 2, of numbers half their squared difference.
        """
        if self.kind == "number":
            known = ~labels.isnan()
            return ((one - other).square() * known).sum() / 2 / known.sum().clamp(min=1)
        if self.kind == "multi":
            known = labels.float().nan_to_num(nan=-1.0) >= 0
            apart = (one.sigmoid() - other.sigmoid()) * (one - other) / 2
            return (apart * known).sum() / known.sum().clamp(min=1)
        p, q = one.log_softmax(-1), other.log_softmax(-1)
        apart = ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2
        weights = self._edge_weights(labels.long())
        return (apart * weights).sum() / weights.sum().clamp(min=1e-12)

    def _edge_weights(self, labels: Tensor) -> Tensor:
        """What each edge counts [B]: its class's weight, nothing without a label."""
        known = labels >= 0
        weighed = self.loss_name == "cross_entropy"
        return self.class_weights[labels.clamp(min=0)] * known if weighed else known.float()

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = F.cross_entropy(
            logits,
            labels,
            self.class_weights,
            ignore_index=-1,
            reduction="none",
            label_smoothing=self.label_smoothing,
        )
        weights = self._edge_weights(labels)
        return losses.sum() / weights.sum().clamp(min=1e-12)

    def _binary(self, logits: Tensor, labels: Tensor) -> Tensor:
        known = labels.float().nan_to_num(nan=-1.0) >= 0
        targets = torch.where(known, labels.float(), 0.0)
        losses = F.binary_cross_entropy_with_logits(
            logits, targets, pos_weight=self.class_weights, reduction="none"
        )
        return (losses * known).sum() / known.sum().clamp(min=1)

    def _squared(self, values: Tensor, labels: Tensor) -> Tensor:
        known = ~labels.isnan()
        targets = (labels.float() - self.target_mean) / self.target_deviation
        targets = torch.where(known, targets, 0.0)
        return ((values - targets).square() * known).sum() / known.sum().clamp(min=1)

    def _make_head(self, width: int, class_shares: Tensor | None) -> nn.Module:
        if self.kind == "ordered":
            return CumulativeLink(width, self.num_classes, class_shares)
        return nn.Linear(width, 1 if self.kind == "number" else self.num_classes)


def balanced_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Weights [C] that let every class count alike; a class without examples has weight 1.

    Of one class per edge: the mean class size over the class's size. Of several labels: edges
    without the label over edges with it, the weight of a positive entry.
    """
    known = _known_labels(labels)
    if known.ndim == 2:
        size = (known > 0).sum(0).double()
        weights = (len(known) - size) / size.clamp(min=1)
    else:
        size = torch.bincount(known, minlength=num_classes).double()
        weights = len(known) / (num_classes * size.clamp(min=1))
    return torch.where(size > 0, weights, 1.0).float()


def _known_labels(labels: Tensor) -> Tensor:
    """The rows whose label is known in full; [0] or [0, C] where there is none."""
    known = labels.float().nan_to_num(nan=-1.0) >= 0
    return labels[known.all(1) if labels.ndim == 2 else known]


def _released(logits: Tensor, labels: Tensor) -> Tensor:
    """Softmax, then binary cross-entropy on one-hot labels, averaged over all entries."""
    known = labels >= 0
    one_hot = F.one_hot(labels.clamp(min=0), logits.size(1)).float()
    losses = F.binary_cross_entropy(logits.softmax(-1), one_hot, reduction="none").mean(1)
    return (losses * known).sum() / known.sum().clamp(min=1)


def _check_settings(
    kind: str,
    num_classes: int,
    loss: str | None,
    class_weights: Tensor | None,
    label_smoothing: float,
) -> None:
    """Refuse settings that have no meaning, or none for this kind of label."""
    if kind not in get_args(Kind):
        raise ConfigError(f"there is no kind of label '{kind}'; {suggest(kind, get_args(Kind))}")
    least = {"class": 2, "ordered": 2}.get(kind, 1)
    if num_classes < least:
        raise ConfigError(
            f"labels of kind '{kind}' need at least {least} classes (got {num_classes})"
        )
    losses = LOSSES[cast(Kind, kind)]
    if loss is not None and loss not in losses:
        raise ConfigError(
            f"labels of kind '{kind}' are not learned with loss '{loss}'; "
            f"available: {', '.join(losses)}"
        )
    plain = kind == "class" and loss != "released"
    if label_smoothing and not (plain and 0 < label_smoothing < 1):
        raise ConfigError(
            "label_smoothing is a share below 1, for kind 'class' with loss 'cross_entropy' "
            f"(got {label_smoothing} for kind '{kind}')"
        )
    if class_weights is not None and (kind == "number" or loss == "released"):
        raise ConfigError(f"class_weights have no place in loss '{loss or losses[0]}'")
    if class_weights is not None and class_weights.shape != (num_classes,):
        raise ConfigError(
            f"class_weights must be one per class, [{num_classes}] "
            f"(got {list(class_weights.shape)})"
        )
