"""BPR and LightGCN: their triples and loss, and propagation against torch_geometric."""

import numpy as np
import pytest
import torch

from edgeformers.baselines.base import training_links
from edgeformers.baselines.collaborative import pairwise as module
from edgeformers.baselines.collaborative.bpr import BPR
from edgeformers.baselines.collaborative.lightgcn import (
    LightGCN,
    normalized_adjacency,
    propagate,
)
from edgeformers.baselines.collaborative.pairwise import PairwiseConfig, bpr_loss, draw_triples
from edgeformers.errors import ConfigError

QUICK = PairwiseConfig(width=8, lr=0.05, l2=1e-3, epochs=40)


def test_every_link_is_drawn_once_with_a_non_link(checkerboard):
    links = training_links(checkerboard, "given").train
    rows, linked, other = draw_triples(links, np.random.default_rng(0))
    known = set(zip(links.queries.tolist(), links.candidates.tolist(), strict=True))
    drawn = list(zip(rows.tolist(), linked.tolist(), strict=True))
    assert sorted(drawn) == sorted(known)
    assert drawn != sorted(drawn)
    assert not known & set(zip(rows.tolist(), other.tolist(), strict=True))
    again = draw_triples(links, np.random.default_rng(0))
    np.testing.assert_array_equal(other, again[2])


def test_negatives_are_uniform(make_parts):
    rows = [{"source": "a", "target": "x", "text": "", "split": "train"}]
    rows += [{"source": "b", "target": t, "text": "", "split": "test"} for t in "yzw"]
    links = training_links(make_parts(rows), "given").train
    random = np.random.default_rng(0)
    other = [draw_triples(links, random)[2][0] for _ in range(600)]
    counts = np.bincount(other, minlength=4)
    assert counts[0] == 0  # the link itself
    assert (np.abs(counts[1:] - 200) < 50).all()


def test_a_query_linked_to_everything_is_left_out(make_parts):
    pairs = [("a", "x"), ("a", "y"), ("b", "x")]
    rows = [{"source": s, "target": t, "text": "", "split": "train"} for s, t in pairs]
    links = training_links(make_parts(rows), "given").train
    drawn = draw_triples(links, np.random.default_rng(0))
    assert [part.tolist() for part in drawn] == [[1], [0], [1]]


def test_bpr_loss_by_hand():
    own = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    linked = torch.tensor([[1.0, 1.0], [5.0, 0.0]])  # products 3 and 0
    other = torch.tensor([[2.0, 0.0], [7.0, 1.0]])  # products 2 and 1
    expected = (np.log1p(np.exp(-1.0)) + np.log1p(np.exp(1.0))) / 2
    assert bpr_loss(own, linked, other).item() == pytest.approx(expected)


@pytest.mark.parametrize("bipartite", [True, False], ids=["bipartite", "one node type"])
def test_propagation_agrees_with_torch_geometric(make_parts, bipartite):
    geometric = pytest.importorskip("torch_geometric.nn")
    random = np.random.default_rng(3)
    rows = [
        {"source": f"n{s}", "target": f"n{t}", "text": "", "split": "train"}
        for s, t in random.integers(9, size=(40, 2))
        if s != t
    ]
    graph = make_parts(rows, bipartite=bipartite, directed=bipartite)
    links = training_links(graph, "given").train
    size = links.num_queries + links.num_candidates
    theirs = geometric.LightGCN(size, embedding_dim=5, num_layers=3)
    ends = torch.from_numpy(np.stack([links.queries, links.candidates + links.num_queries]))
    both = torch.cat([ends, ends.flip(0)], dim=1)
    vectors = theirs.embedding.weight.detach()
    found = propagate(vectors, normalized_adjacency(links), 3)
    torch.testing.assert_close(found, theirs.get_embedding(both).detach())


def test_the_gradient_of_propagation_agrees_with_finite_differences(checkerboard):
    adjacency = normalized_adjacency(training_links(checkerboard, "given").train).double()
    vectors = torch.randn(24, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: propagate(x, adjacency, 3), vectors)


@pytest.mark.parametrize("kind", [BPR, LightGCN])
def test_the_best_epoch_by_validation_is_kept(checkerboard, kind, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 2)
    looks = [0.1, 0.5, 0.2, 0.3, 0.5, 0.9]  # after 5, 10, 15 and 20 epochs; of what was kept
    values = iter(looks)
    monkeypatch.setattr("edgeformers.baselines.base.ValidationRanking.mrr", lambda *_: next(values))
    model = kind([QUICK]).fit(checkerboard, "given")
    assert model.setting["epochs"] == 10
    assert list(values) == [0.9]  # two looks without gain were the last


@pytest.mark.parametrize("kind", [BPR, LightGCN])
def test_without_validation_links_all_epochs_are_trained(make_parts, kind):
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z"), ("c", "y")]
    rows = [{"source": s, "target": t, "text": "", "split": "train"} for s, t in pairs]
    model = kind([QUICK, QUICK]).fit(make_parts(rows), "given")
    assert len(model.trials) == 1
    assert model.setting["epochs"] == QUICK.epochs


@pytest.mark.parametrize("kind", [BPR, LightGCN])
def test_node_vectors_give_the_scores(checkerboard, kind):
    model = kind([QUICK]).fit(checkerboard, "given")
    queries, candidates = np.arange(12), np.arange(12, 24)
    products = model.node_vectors(queries) @ model.node_vectors(candidates).T
    np.testing.assert_allclose(products, model.scores(queries, candidates), atol=1e-6)


def test_the_l2_penalty_shrinks_vectors(checkerboard):
    loose, strict = (
        BPR([PairwiseConfig(width=8, l2=l2, epochs=30)]).fit(checkerboard, "given")
        for l2 in (0.0, 1.0)
    )
    lengths = [np.linalg.norm(model.node_vectors(np.arange(24))) for model in (loose, strict)]
    assert lengths[1] < lengths[0] / 2


def test_invalid_settings_are_refused():
    for name in ("width", "l2"):
        with pytest.raises(ConfigError, match=name):
            PairwiseConfig(**{name: -1})
    with pytest.raises(ConfigError, match="layer"):
        LightGCN(layers=0)


def test_batches_grow_with_the_links(checkerboard, monkeypatch):
    sizes, loss = [], module.bpr_loss

    def count(query, positive, negative):
        sizes.append(len(query))
        return loss(query, positive, negative)

    monkeypatch.setattr(module, "bpr_loss", count)
    monkeypatch.setattr(module, "MAX_STEPS", 3)
    BPR([PairwiseConfig(width=2, batch=2, epochs=1)]).fit(checkerboard, "given")
    assert sizes == [16] * 3  # 48 training links


def test_validation_ranks_queries_without_links_by_popularity(make_parts):
    rows = [("a", "x", "train"), ("a", "y", "train"), ("b", "y", "train"), ("c", "x", "val")]
    rows += [("b", "x", "val"), ("d", "z", "test"), ("c", "z", "val")]
    names = ("source", "target", "split")
    graph = make_parts([{**dict(zip(names, row, strict=True)), "text": ""} for row in rows])
    model = BPR([PairwiseConfig(width=2, epochs=1)], device="cpu").fit(graph, "given")
    assert model.trials[0].score == model.ranking.mrr(model.scores)
