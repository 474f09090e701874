"""Nodes that nobody saw in training: what is read of them, and how well they are ranked for."""

import numpy as np
import pytest
import torch

from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import PROFILE, TEST, TRAIN, VAL
from edgeformers.data.table import EdgeTable
from edgeformers.errors import ConfigError
from edgeformers.estimators import LinkPredictor, load
from edgeformers.evaluation.network_links import candidate_nodes, drawable_nodes
from edgeformers.experiments.scoring import score
from edgeformers.training.link_objective import COLD_NODE_RATE

SPLIT = "cold-source+drop-target"
SETTINGS = {
    "data.split": SPLIT,
    "train.epochs": 1,
    "train.batch_size": 32,
    "train.lr": 3e-3,
    "train.node_lr": 1e-2,
    "model.node_width": 16,
    "links.uniform_negatives": 16,
    "links.cold_node_rate": 0.3,
}


def make(**settings):
    return LinkPredictor(
        "scratch:2x32", settings={**SETTINGS, **settings}, show=False, device="cpu"
    )


def held_out(graph, split):
    return np.flatnonzero(graph.training_adjacency(split).held_out)


@pytest.mark.parametrize("split", [SPLIT, "cold-target+drop-source"])
def test_training_meets_no_held_out_node_and_reads_no_text_of_one(simulated, split):
    made = make(**{"data.split": split, "links.cold_node_rate": 0.0})
    objective = made.make_objective(simulated)
    codes, held = simulated.split(split), held_out(simulated, split)
    assert len(held)
    for epoch in (0, 1):
        for ids in objective.batches(epoch):
            assert (codes[ids] == TRAIN).all()
            (piece,) = objective.make(ids, epoch, None)
            assert not np.isin(piece.egos.center, held).any()
            assert not np.isin(piece.egos.neighbor, held).any()
    sampler = objective.loader.source_sampler
    warm = np.setdiff1d(np.arange(simulated.num_nodes), held)
    read = sampler.sample(warm, epoch=0)
    assert (codes[read.edge_ids[read.mask]] == TRAIN).all()


@pytest.mark.parametrize("split", [SPLIT, "cold-target+drop-source"])
def test_a_held_out_node_is_read_from_its_profile_and_no_link_is_read_that_is_asked(
    simulated, split
):
    codes, adjacency = simulated.split(split), simulated.training_adjacency(split)
    own = simulated.src if split.startswith("cold-source") else simulated.dst
    for node in held_out(simulated, split):
        mine = np.flatnonzero((own == node) & (codes == PROFILE))
        assert adjacency.edges_of(node).tolist() == mine.tolist()
    assert not np.isin(codes[adjacency.edge_ids], (VAL, TEST)).any()
    pairs = np.stack([simulated.src, simulated.dst], 1)
    asked = pairs[(codes == VAL) | (codes == TEST)]
    known = {tuple(pair) for pair in pairs[np.unique(adjacency.edge_ids)].tolist()}
    assert not known & {tuple(pair) for pair in asked.tolist()}


def test_no_held_out_node_is_drawn_as_a_negative(simulated):
    split = "cold-target+drop-source"
    adjacency = simulated.training_adjacency(split)
    drawn = drawable_nodes(simulated, adjacency)
    assert not np.isin(drawn, held_out(simulated, split)).any()
    assert len(drawn) == simulated.num_targets - len(held_out(simulated, split))
    whole = drawable_nodes(simulated, simulated.training_adjacency("link"))
    assert whole.tolist() == candidate_nodes(simulated).tolist()


def test_an_epoch_reads_some_nodes_as_new_ones_and_knows_their_links_all_the_same(simulated):
    objective = make(**{"links.cold_node_rate": 0.5}).make_objective(simulated)
    nodes = torch.arange(simulated.num_nodes)
    shown = []
    for epoch in (0, 1):
        (ids, *_) = objective.batches(epoch)
        shown.append(objective._visible(nodes))
        (piece,) = objective.make(ids, epoch, None)
        queries = piece.egos.center[: piece.num_pairs]
        assert torch.equal(queries, torch.from_numpy(simulated.src[ids]).long())
    hidden = [(one == -1) for one in shown]
    assert all(0.3 < one.float().mean() < 0.7 for one in hidden)
    assert (hidden[0] != hidden[1]).any()
    assert torch.equal(shown[0][~hidden[0]], nodes[~hidden[0]])


def test_a_hidden_node_gets_no_gradient_and_the_unknown_one_does(simulated):
    objective = make(**{"links.cold_node_rate": 0.5, "model.node_dropout": 0.0}).make_objective(
        simulated
    )
    (ids, *_) = objective.batches(0)
    objective.model.train()
    objective.backward([objective.make(ids, 0, None)])
    table = objective.model.nodes.table.grad
    read = set(np.unique(simulated.training_adjacency(SPLIT).neighbors).tolist())
    hidden = objective._hidden.nonzero().flatten()
    alone = [node for node in hidden.tolist() if node not in read]  # nobody's neighbor
    assert not table[alone].any()
    assert table[-1].any()


def test_a_share_of_new_nodes_is_below_one():
    with pytest.raises(ConfigError, match="cold_node_rate"):
        make(**{"links.cold_node_rate": 1.0})


@pytest.mark.parametrize(
    ("split", "given", "used"),
    [(SPLIT, None, COLD_NODE_RATE), ("link", None, 0.0), (SPLIT, 0.0, 0.0), ("link", 0.2, 0.2)],
)
def test_nodes_are_read_as_new_ones_where_the_split_holds_some_out(simulated, split, given, used):
    made = make(**{"data.split": split, "links.cold_node_rate": given})
    assert made.make_objective(simulated).cold_node_rate == used


def test_the_usual_recipe_asks_the_split():
    assert LinkPredictor("scratch:2x32", show=False).config.links.cold_node_rate is None


@pytest.fixture(scope="module")
def hobbies(tmp_path_factory):
    """Sources have one hobby of six; one text in three names it, the others say nothing."""
    draw = np.random.default_rng(0)
    rows = []
    for source in range(240):
        hobby = source % 6
        for thing in draw.permutation(6)[:5]:
            text = f"hobby{hobby}" if draw.random() < 1 / 3 else "very nice"
            rows.append({"source": f"s{source}", "target": f"t{6 * hobby + thing}", "text": text})
    table = EdgeTable.from_rows(lambda: rows, fields=list(rows[0]), origin="rows", bipartite=True)
    out = tmp_path_factory.mktemp("hobbies") / "network"
    return write_network(table, out, config=PrepareConfig(tokenizer="train:200", progress=False))


@pytest.fixture(scope="module")
def fitted(hobbies, tmp_path_factory):
    run = tmp_path_factory.mktemp("cold-run")
    return make(**{"links.ensemble": True}).fit(hobbies, run=run), run


def test_who_was_held_out_is_answered_as_who_arrives_with_the_same_texts(hobbies, fitted):
    for made in (fitted[0], load(fitted[1] / "model", network=hobbies)):
        fitted_ = made.fitted_
        adjacency = fitted_.network.loader.source_sampler.adjacency
        node = held_out(hobbies, SPLIT)[3]
        names = hobbies.node_names(adjacency.neighbors_of(node))
        texts = hobbies.texts(adjacency.edges_of(node))
        edges = fitted_.new_edges(list(zip(names, texts, strict=True)), "source")
        new = fitted_.scorer.fold_in_source(edges)
        held = fitted_.scorer.queries(np.array([node]))
        components = len(fitted_.ensemble.components)
        assert np.abs(held.vectors[0, -sum(held.widths[-components:]) :]).max() > 0
        np.testing.assert_allclose(new.vectors, held.vectors, rtol=1e-4, atol=1e-5)
        assert sorted(edges.target.tolist()) == sorted(adjacency.neighbors_of(node).tolist())


def test_links_are_told_apart_by_how_much_is_known_of_the_new_node(hobbies, fitted):
    report = fitted[0].report("test", protocols=("full",))
    pairs = fitted[0].fitted_.network.parts["test"]
    sizes = hobbies.training_adjacency(SPLIT).profile_sizes()[hobbies.src[pairs]]
    assert report.groups["cold"].all()
    assert report.groups["degree 0"].all()
    assert report.groups["profile 2-3"].tolist() == np.isin(sizes, (2, 3)).tolist()
    assert report.groups["profile 4+"].tolist() == (sizes > 3).tolist()


def test_texts_and_neighbors_together_rank_for_a_new_node_above_popularity_and_text_alone(hobbies):
    def mrr(name):
        more = {"model.name": name, "train.epochs": 8, "links.ensemble": False}
        made = make(**more, **{"model.node_init": "random"}).fit(hobbies)
        return made.evaluate(protocols=("full",))["full/mrr"]

    popular = score(Popularity().fit(hobbies, SPLIT), hobbies, SPLIT)
    ours, text = mrr("edgeformer-n"), mrr("bert-n")
    assert ours > text + 0.05
    assert ours > popular.results["test"]["full/mrr"] + 0.05


@pytest.mark.slow
def test_cached_negatives_rank_as_well_where_the_encoder_learns_quickly(hobbies):
    cached = {"links.uniform_negatives": 0, "links.cached_negatives": 4096}
    more = {"train.epochs": 8, "links.ensemble": False, "model.node_init": "random"}
    made = make(**more, **cached).fit(hobbies)
    assert made.evaluate(protocols=("full",))["full/mrr"] > 0.5
