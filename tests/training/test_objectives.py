"""What is trained: however a batch is cut, its loss and its gradients are those of the whole."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from edgeformers.errors import ConfigError
from edgeformers.evaluation.network_links import candidate_nodes, order_links
from edgeformers.inference.fitted_links import FittedLinkPredictor


def gradients(objective, batches, seed=7):
    """The loss and all gradients, dense, of an update."""
    objective.modules.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    loss = float(objective.backward(batches))
    found = {}
    for name, parameter in objective.modules.named_parameters():
        if parameter.grad is not None:
            grad = parameter.grad
            found[name] = grad.to_dense() if grad.is_sparse else grad.clone()
    return loss, found


def assert_same(one, other, tolerance=2e-6):
    assert one[0] == pytest.approx(other[0], abs=1e-5)
    assert one[1].keys() == other[1].keys()
    for name, grad in one[1].items():
        torch.testing.assert_close(
            grad, other[1][name], atol=tolerance, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"edges.class_balance": 1.0},
        {"edges.label_smoothing": 0.1},
        {"edges.loss": "released"},
        {"edges.kind": "ordered", "edges.class_balance": 1.0},
        {"model.node_prior": True},
        {"model.name": "bert-max-sage"},
        {"model.name": "ehgnn"},
    ],
    ids=["plain", "balanced", "smoothed", "released", "ordered", "prior", "context", "bag"],
)
def test_edges_cut_into_pieces_have_the_gradients_of_the_whole(
    make_edges, without_dropout, settings
):
    objective = without_dropout(make_edges(**settings))
    ids = objective.batches(0)[0]
    whole = gradients(objective, [objective.make(ids, 0, None)])
    pieces = objective.make(ids, 0, 13)
    assert [len(piece) for piece in pieces] == [13, 13, 13, 9]
    assert_same(gradients(objective, [pieces]), whole)
    assert whole[0] > 0.1


def test_two_accumulated_batches_of_edges_equal_one_of_twice_the_size(make_edges, without_dropout):
    objective = without_dropout(make_edges(**{"edges.class_balance": 1.0}))
    ids = np.concatenate(objective.batches(0)[:2])[:63]  # 32 and 31: means cannot just be averaged
    whole = gradients(objective, [objective.make(ids, 0, None)])
    halves = [objective.make(ids[:32], 0, None), objective.make(ids[32:], 0, None)]
    assert_same(gradients(objective, halves), whole)


LINK_OPTIONS = {
    "paper": {
        "links.temperature": None,
        "links.normalize": False,
        "links.collaborative": False,
        "links.popularity_bias": False,
        "links.mask_false_negatives": False,
    },
    "default": {},
    "all": {
        "links.uniform_negatives": 9,
        "links.cached_negatives": 13,
        "links.logq": 0.5,
        "links.learn_temperature": True,
        "train.sparse_nodes": False,
    },
}


@pytest.mark.parametrize("settings", LINK_OPTIONS.values(), ids=LINK_OPTIONS)
def test_links_cut_into_pieces_have_the_gradients_of_the_whole(
    make_links, without_dropout, settings
):
    objective = without_dropout(make_links(**settings))
    ids = objective.batches(0)[0]
    start = copy.deepcopy(objective.state_dict())
    whole = gradients(objective, [objective.make(ids, 0, None)])
    objective.load_state_dict(start)
    assert_same(gradients(objective, [objective.make(ids, 0, 11)]), whole, 1e-5)


def test_a_piece_of_links_sees_the_same_dropout_in_both_of_its_encodings(make_links):
    """The reference encodes the pieces once, in order, and keeps their graphs."""
    objective = make_links(**{"links.uniform_negatives": 9, "model.node_dropout": 0.2})
    pieces = objective.make(objective.batches(0)[0], 0, 20)
    assert len(pieces) == 4
    cached = gradients(objective, [pieces])
    objective.modules.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    loss = objective._loss(pieces, [objective._encode(piece) for piece in pieces])
    loss.backward()
    kept = {n: p.grad for n, p in objective.modules.named_parameters() if p.grad is not None}
    kept = {n: g.to_dense() if g.is_sparse else g for n, g in kept.items()}
    assert_same(cached, (loss.item(), kept), 1e-5)
    assert gradients(objective, [pieces], seed=8)[0] != cached[0]  # dropout is on


def test_links_that_are_not_cut_are_encoded_once_and_together(make_links):
    objective = make_links(**{"links.uniform_negatives": 99})
    pieces = objective.make(objective.batches(0)[0], 0, None)
    seen = []
    objective.model.register_forward_hook(lambda model, args, out: seen.append(len(out)))
    gradients(objective, [pieces])
    assert seen == [len(pieces[0].egos)]
    assert 48 < seen[0] <= 48 + 48 + 99


def test_accumulated_batches_of_links_drop_differently(make_links):
    objective = make_links()
    pieces = objective.make(objective.batches(0)[0], 0, None)
    seen = []
    forward = objective.model.forward
    objective.model.forward = lambda batch: seen.append(forward(batch)) or seen[-1]
    gradients(objective, [pieces, pieces])
    assert not torch.equal(seen[0], seen[1])


def test_the_paper_loss_of_links_is_the_softmax_over_the_batch(make_links, without_dropout):
    objective = without_dropout(make_links(**LINK_OPTIONS["paper"]))
    ids = objective.batches(0)[0]
    pairs = objective.loader.links(ids, ids[:0], epoch=0)
    query, key, _ = pairs.by_role(objective.model(pairs.egos))
    expected = F.cross_entropy(query @ key.T, torch.arange(len(ids)))
    found = gradients(objective, [objective.make(ids, 0, None)])[0]
    assert found == pytest.approx(float(expected.detach()), rel=1e-5)


def test_a_link_batch_never_reads_the_edge_it_predicts(make_links):
    objective = make_links()
    graph = objective.loader.graph
    for ids in objective.batches(0)[:3]:
        (piece,) = objective.make(ids, 0, None)
        rows = piece.by_role(torch.arange(len(piece.egos)))
        for own, partners in zip(rows[:2], (graph.dst[ids], graph.src[ids]), strict=True):
            assert len(own) == len(partners)
            for row, partner in zip(own.tolist(), partners.tolist(), strict=True):
                assert partner not in piece.egos.neighbor[piece.egos.owner == row]


def test_negatives_drawn_for_a_batch_depend_on_epoch_and_batch_alone(make_links):
    objective = make_links(**{"links.uniform_negatives": 20})
    first = objective._draw_negatives(5, 0)
    np.testing.assert_array_equal(first, objective._draw_negatives(5, 0))
    assert not np.array_equal(first, objective._draw_negatives(6, 0))
    assert not np.array_equal(first, objective._draw_negatives(5, 1))
    assert np.isin(first, candidate_nodes(objective.loader.graph)).all()


def test_links_are_selected_by_a_metric_that_is_there(make_links):
    with pytest.raises(ConfigError, match="full/mrr"):
        make_links(**{"train.select_metric": "full/mr"})
    assert "sampled/hit@5" in make_links(**{"train.select_metric": "sampled/hit@5"}).evaluate("val")


def test_epochs_are_compared_on_batches_of_the_protocol_paper(make_links, monkeypatch):
    objective, asked = make_links(**{"train.eval_pairs": 20}), []
    rank = FittedLinkPredictor.report

    def report(fitted, pairs, **options):
        asked.append(pairs)
        return rank(fitted, pairs, **options)

    monkeypatch.setattr(FittedLinkPredictor, "report", report)
    objective.evaluate("val")
    graph, val = objective.loader.graph, objective.parts["val"]
    assert len(val) > 20
    assert asked[0].tolist() == val[order_links(graph, val)][:20].tolist()


def test_training_ranks_only_under_quick_protocols_and_the_one_it_is_selected_by(make_links):
    def protocols(**settings):
        found = make_links(**settings).evaluate("val")
        return {name.partition("/")[0] for name in found}

    assert protocols() == {"full", "paper"}
    select = {"train.select_metric": "paper-shifted/mrr"}
    assert protocols(**select) == {"full", "paper", "paper-shifted"}
