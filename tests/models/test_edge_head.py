"""Heads on edge representations: losses against references, labels unknown, sentences."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from edgeformers.errors import ConfigError, InputError
from edgeformers.evaluation import metrics
from edgeformers.models.edge_head import (
    CumulativeLink,
    EdgeHead,
    Predictions,
    balanced_weights,
)

D, C = 6, 4

#: Probabilities of seven edges by the paper's released model on tiny weights, and its loss.
RELEASED_PROBS = torch.tensor(
    [
        [0.117988, 0.189875, 0.252276, 0.101563, 0.338298],
        [0.176929, 0.203653, 0.287467, 0.080668, 0.251283],
        [0.175442, 0.121379, 0.285358, 0.153118, 0.264704],
        [0.190635, 0.178711, 0.345534, 0.189045, 0.096075],
        [0.111525, 0.228958, 0.244671, 0.071001, 0.343846],
        [0.123559, 0.181670, 0.221671, 0.082209, 0.390890],
        [0.148296, 0.124549, 0.302194, 0.115307, 0.309654],
    ]
)
RELEASED_LABELS = torch.tensor([1, 0, 0, 2, 0, 3, 0])
RELEASED_LOSS = 0.555193


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(3)
    return lambda *shape: torch.randn(*shape, generator=generator)


@pytest.fixture
def make_head():
    """A head that is the same in every run."""

    def make(*args, **settings):
        torch.manual_seed(0)
        return EdgeHead(D, *args, **settings)

    return make


def train(head, edge_repr, labels, steps=60, lr=0.2):
    optimizer = torch.optim.Adam(head.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = head.loss(edge_repr, labels)
        loss.backward()
        optimizer.step()


def test_the_released_loss_gives_the_number_of_the_release():
    head = EdgeHead(5, 5, loss="released")
    with torch.no_grad():
        head.head.weight.copy_(torch.eye(5))
        head.head.bias.zero_()
    edge_repr = RELEASED_PROBS.log()  # whose softmax is the probabilities again
    assert head.loss(edge_repr, RELEASED_LABELS).item() == pytest.approx(RELEASED_LOSS, abs=1e-5)
    torch.testing.assert_close(head.predict(edge_repr).probs, RELEASED_PROBS, atol=2e-6, rtol=0)


def test_the_released_loss_is_not_cross_entropy(make_head, draw):
    edge_repr, labels = draw(8, D), torch.arange(8) % C
    released, usual = make_head(C, loss="released"), make_head(C)
    assert not torch.isclose(released.loss(edge_repr, labels), usual.loss(edge_repr, labels))


def test_the_released_loss_keeps_its_gradient_when_it_is_quite_sure(make_head):
    head = make_head(C, loss="released")
    edge_repr = torch.full((2, D), 1e4, requires_grad=True)
    head.loss(edge_repr, torch.tensor([0, 1])).backward()
    assert edge_repr.grad.isfinite().all()


def test_cross_entropy_agrees_with_torch(make_head, draw):
    head = make_head(C, label_smoothing=0.1, class_weights=torch.tensor([1.0, 2.0, 0.5, 3.0]))
    edge_repr, labels = draw(9, D), torch.tensor([0, 1, 2, 3, -1, 2, 1, -1, 0])
    expected = F.cross_entropy(
        head.logits(edge_repr), labels, head.class_weights, ignore_index=-1, label_smoothing=0.1
    )
    torch.testing.assert_close(head.loss(edge_repr, labels), expected)


@pytest.mark.parametrize(
    ("kind", "loss", "labels", "unknown"),
    [
        ("class", None, torch.tensor([0, 3, 1]), -1),
        ("class", "released", torch.tensor([0, 3, 1]), -1),
        ("ordered", None, torch.tensor([0, 3, 1]), -1),
        ("multi", None, torch.eye(C)[:3], math.nan),
        ("multi", None, torch.eye(C)[:3].long(), -1),
        ("number", None, torch.tensor([0.5, 2.0, -1.0]), math.nan),
    ],
)
def test_unknown_labels_take_no_part(make_head, draw, kind, loss, labels, unknown):
    head = make_head(1 if kind == "number" else C, kind=kind, loss=loss)
    edge_repr = draw(5, D)
    more = torch.cat([labels, torch.full_like(labels[:2], unknown)])
    torch.testing.assert_close(head.loss(edge_repr, more), head.loss(edge_repr[:3], labels))
    short, long = head.predict(edge_repr[:3]), head.predict(edge_repr)
    assert head.metrics(short, labels) == pytest.approx(head.metrics(long, more), nan_ok=True)

    nothing = head.loss(edge_repr[:2], more[3:])
    nothing.backward()
    assert nothing.item() == 0.0
    assert all(p.grad.isfinite().all() for p in head.parameters() if p.grad is not None)


def test_several_labels_agree_with_torch_and_with_the_metrics(make_head, draw):
    head = make_head(C, kind="multi")
    edge_repr, labels = draw(6, D), (draw(6, C) > 0).float()
    logits = head.logits(edge_repr)
    expected = F.binary_cross_entropy_with_logits(logits, labels)
    torch.testing.assert_close(head.loss(edge_repr, labels), expected)
    told = head.metrics(head.predict(edge_repr), labels)
    assert told["micro_f1"] == metrics.micro_f1(labels.numpy(), (logits > 0).numpy())
    assert set(told) == {"macro_f1", "micro_f1", "precision", "average_precision"}


def test_ordered_probabilities_are_differences_of_the_cumulative_ones(draw):
    link = CumulativeLink(D, C, frequencies=torch.tensor([0.1, 0.2, 0.3, 0.4]))
    edge_repr = draw(5, D)
    at_most = torch.sigmoid(link.thresholds() - edge_repr @ link.place.weight.T)
    cumulative = torch.cat([torch.zeros(5, 1), at_most, torch.ones(5, 1)], 1)
    torch.testing.assert_close(link(edge_repr).exp(), cumulative.diff(dim=1))


def test_ordered_classes_start_from_their_shares():
    link = CumulativeLink(D, C, frequencies=torch.tensor([0.1, 0.2, 0.3, 0.4]))
    probs = link(torch.zeros(1, D)).exp()[0]
    torch.testing.assert_close(probs, torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=1e-5, rtol=0)


def test_ordered_classes_far_out_stay_finite():
    link = CumulativeLink(D, C)
    edge_repr = torch.full((2, D), 500.0, requires_grad=True)
    with torch.no_grad():
        link.place.weight.fill_(1.0)
    log_probs = link(torch.cat([edge_repr[:1], -edge_repr[1:]]))
    assert log_probs.isfinite().all()
    log_probs.sum().backward()
    assert edge_repr.grad.isfinite().all()


def test_thresholds_stay_in_order_and_stars_are_learned(make_head, draw):
    edge_repr = draw(200, D)
    labels = (edge_repr[:, 0] * 1.5 + 2).round().clamp(0, 4).long()
    head = EdgeHead.for_labels(labels, D, kind="ordered")
    train(head, edge_repr, labels, steps=50, lr=0.5)
    assert (head.head.thresholds().diff() > 0).all()
    told = head.metrics(head.predict(edge_repr), labels)
    assert told["accuracy"] > 0.85
    assert told["mae"] < 0.15


def test_numbers_are_learned_standardized_and_given_back_in_their_units(draw):
    edge_repr = draw(100, D)
    labels = 1000 + 50 * edge_repr[:, 1]
    head = EdgeHead.for_labels(labels, D, kind="number")
    assert float(head.target_mean) == pytest.approx(float(labels.mean()), rel=1e-5)
    train(head, edge_repr, labels)
    told = head.metrics(head.predict(edge_repr), labels)
    assert told["r2"] > 0.99
    assert told["rmse"] < 5
    assert head.primary_metric == "r2"


def test_numbers_all_alike_do_not_divide_by_zero():
    head = EdgeHead.for_labels(torch.full((4,), 7.0), D, kind="number")
    assert float(head.target_deviation) == 1.0


def test_balanced_weights_by_hand():
    # six edges: 4, 2, 0 and 0 of the classes; one unknown
    labels = torch.tensor([0, 0, 0, 0, 1, 1, -1])
    assert balanced_weights(labels, 4).tolist() == [6 / (4 * 4), 6 / (4 * 2), 1, 1]
    table = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    torch.testing.assert_close(balanced_weights(table, 2), torch.tensor([1 / 3, 3.0]))


def test_balanced_weights_find_the_rare_class(draw):
    generator = torch.Generator().manual_seed(1)
    labels = (torch.rand(600, generator=generator) < 0.05).long()
    edge_repr = draw(600, D)
    edge_repr[:, 0] += 1.2 * labels  # a weak sign of the rare class
    found = {}
    for name, weights in (("plain", None), ("balanced", balanced_weights(labels, 2))):
        head = EdgeHead.for_labels(labels, D, class_weights=weights)
        train(head, edge_repr, labels)
        found[name] = int(head.predict(edge_repr).value[labels == 1].sum())
    assert found["balanced"] > 2 * max(found["plain"], 1)


def test_what_came_from_training_labels_is_saved_with_the_weights(draw):
    head = EdgeHead.for_labels(torch.tensor([0, 0, 1]), D, class_weights=torch.tensor([0.5, 2.0]))
    other = EdgeHead(D, 2)
    other.load_state_dict(head.state_dict())
    assert other.class_weights.tolist() == [0.5, 2.0]


def test_dropout_acts_in_training_alone(make_head, draw):
    head = make_head(C, dropout=0.5)
    edge_repr = draw(4, D)
    torch.manual_seed(1)
    assert not torch.equal(head.logits(edge_repr), head.logits(edge_repr))
    head.eval()
    assert torch.equal(head.logits(edge_repr), head.logits(edge_repr))


def test_the_loss_is_made_in_full_precision_under_autocast(make_head, draw):
    for loss in ("cross_entropy", "released"):
        head, edge_repr, labels = make_head(C, loss=loss), draw(5, D), torch.arange(5) % C
        plain = head.loss(edge_repr, labels)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(head.loss(edge_repr, labels), plain)


def test_batches_of_predictions_become_one(make_head, draw):
    head, edge_repr = make_head(C), draw(5, D)
    parts = Predictions.cat([head.predict(edge_repr[:2]), head.predict(edge_repr[2:])])
    whole = head.predict(edge_repr)
    assert len(parts) == 5
    assert torch.equal(parts.value, whole.value)
    torch.testing.assert_close(parts.probs, whole.probs)
    labels = np.array([0, 1, 2, 3, 1])
    expected = metrics.macro_f1(labels, whole.value.numpy())
    assert head.metrics(parts, torch.from_numpy(labels))[head.primary_metric] == expected


def test_a_batch_of_none_has_no_loss_and_no_predictions(make_head):
    head = make_head(C)
    assert head.loss(torch.zeros(0, D), torch.zeros(0, dtype=torch.long)).item() == 0.0
    assert len(head.predict(torch.zeros(0, D))) == 0


def test_labels_of_another_kind_are_rejected(make_head, draw):
    with pytest.raises(InputError, match="label 7"):
        make_head(C).loss(draw(2, D), torch.tensor([1, 7]))
    with pytest.raises(InputError, match="kind='number'"):
        make_head(C).loss(draw(2, D), torch.tensor([1.0, 2.0]))
    with pytest.raises(InputError, match="multi"):
        make_head(C, kind="multi").loss(draw(2, D), torch.zeros(2, 3))
    with pytest.raises(InputError, match="3 predictions for 2"):
        make_head(C).metrics(make_head(C).predict(draw(3, D)), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="no training edge has a label"):
        EdgeHead.for_labels(torch.tensor([-1, -1]), D)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "clas"}, "clas"),
        ({"kind": "ordered", "loss": "released"}, "released"),
        ({"kind": "multi", "label_smoothing": 0.1}, "label_smoothing"),
        ({"label_smoothing": 1.5}, "label_smoothing"),
        ({"loss": "released", "class_weights": torch.ones(4)}, "class_weights"),
        ({"class_weights": torch.ones(3)}, "class_weights"),
    ],
)
def test_invalid_settings_are_rejected(settings, words):
    with pytest.raises(ConfigError, match=words):
        EdgeHead(D, C, **settings)


def test_one_class_is_nothing_to_tell_apart():
    with pytest.raises(ConfigError, match="at least 2 classes"):
        EdgeHead.for_labels(torch.zeros(3, dtype=torch.long), D)


@pytest.mark.parametrize("kind", ["class", "ordered", "multi", "number"])
def test_two_encodings_of_an_edge_are_drawn_together_by_how_far_their_predictions_are_apart(
    draw, make_head, kind
):
    head = make_head(1 if kind == "number" else C, kind=kind, rdrop=0.7)
    one, other = draw(5, D), draw(5, D)
    labels = {
        "class": torch.tensor([0, 3, -1, 2, 1]),
        "ordered": torch.tensor([0, 3, -1, 2, 1]),
        "multi": torch.tensor([[1, 0, 0, 1], [0, 0, 1, 0], [-1, -1, -1, -1]] + [[0, 1, 0, 0]] * 2),
        "number": torch.tensor([0.5, 1.0, math.nan, -1.0, 2.0]),
    }[kind]
    known = torch.tensor([0, 1, 3, 4])
    a, b = head.logits(one)[known], head.logits(other)[known]
    if kind == "number":
        apart = ((a - b) ** 2 / 2).mean()
    elif kind == "multi":
        p, q = torch.distributions.Bernoulli(logits=a), torch.distributions.Bernoulli(logits=b)
        apart = (
            torch.distributions.kl_divergence(p, q) + torch.distributions.kl_divergence(q, p)
        ).mean() / 2
    else:
        p, q = torch.distributions.Categorical(logits=a), torch.distributions.Categorical(logits=b)
        apart = (
            torch.distributions.kl_divergence(p, q) + torch.distributions.kl_divergence(q, p)
        ).mean() / 2
    mean = (head.loss(one, labels) + head.loss(other, labels)) / 2
    torch.testing.assert_close(head.loss(one, labels, other), mean + 0.7 * apart)
    torch.testing.assert_close(head.loss(one, labels, one), head.loss(one, labels))


def test_rare_classes_are_favored_as_much_as_held_out_edges_say(make_head):
    head = make_head(2)
    with torch.no_grad():
        head.head.weight.zero_()
        head.head.weight[1, 0] = 1.0  # the logit of the rare class is the first feature
        head.head.bias.copy_(torch.tensor([0.0, -1.0]))
    shares = torch.tensor([0.9, 0.1])
    edges = torch.zeros(4, D)
    edges[:, 0] = torch.tensor([1.5, 0.5, -2.0, -3.0])
    labels = torch.tensor([1, 1, 0, 0])
    assert head.predict(edges).value.tolist() == [1, 0, 0, 0]
    share = head.tune_decision(edges, labels, shares)
    # right is 0.5 - 1 + share log 9 > 0 > -2 - 1 + share log 9: the least such share is kept
    assert share == pytest.approx(0.25)
    found = head.predict(edges)
    assert found.value.tolist() == [1, 1, 0, 0]
    assert torch.equal(found.probs.argmax(1), found.value)
    again = make_head(2)
    again.load_state_dict(head.state_dict())
    torch.testing.assert_close(again.predict(edges).probs, found.probs)
    before = head.loss(edges, labels)
    head.class_shift.zero_()
    torch.testing.assert_close(head.loss(edges, labels), before)  # the loss knows no shift


def test_where_nothing_is_gained_the_likeliest_class_is_left(draw, make_head):
    head, edges = make_head(C), draw(30, D)
    labels = head.predict(edges).value
    assert head.tune_decision(edges, labels, torch.full((C,), 1 / C)) == 0.0


def test_a_temperature_makes_overconfident_probabilities_calibrated(draw):
    head, vectors = EdgeHead(D, 2), draw(600, D)
    before = head.predict(vectors)
    with torch.no_grad():
        honest = head.logits(vectors).softmax(-1)
        labels = torch.bernoulli(honest[:, 1], generator=torch.Generator().manual_seed(0)).long()
        head.head.weight.mul_(3.0)
        head.head.bias.mul_(3.0)
    assert head.tune_temperature(vectors, labels) in (2.5, 3.0)
    after = head.predict(vectors)
    assert torch.equal(after.value, before.value)  # no decision changes
    torch.testing.assert_close(after.probs, before.probs, atol=0.1, rtol=0)


def test_a_calibrated_head_keeps_its_probabilities(draw):
    head, vectors = EdgeHead(D, 2), draw(600, D)
    honest = head.predict(vectors).probs.detach()
    labels = torch.bernoulli(honest[:, 1], generator=torch.Generator().manual_seed(0)).long()
    assert head.tune_temperature(vectors, labels) == 1.0
    assert head.tune_temperature(vectors, torch.full_like(labels, -1)) == 1.0


def test_a_head_saved_without_a_temperature_is_loaded(draw):
    head = EdgeHead(D, 3)
    tensors = {name: t for name, t in head.state_dict().items() if name != "temperature"}
    other = EdgeHead(D, 3)
    other.load_state_dict(tensors)
    vectors = draw(4, D)
    assert torch.equal(other.predict(vectors).probs, head.predict(vectors).probs)
