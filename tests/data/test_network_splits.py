"""Splits of a network by name, and the training edges that models may see."""

import re

import numpy as np
import pytest

from edgeformers.data.card.describe import describe
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import TRAIN, SplitConfig, make_split, split_future
from edgeformers.errors import InputError


@pytest.fixture
def shop(make_network):
    """ann and bob have training edges; new has a profile of two edges and a test edge."""
    rows = [
        ("ann", "tent", "train"),
        ("bob", "tent", "train"),
        ("bob", "lamp", "train"),
        ("new", "tent", "profile"),
        ("new", "lamp", "profile"),
        ("new", "rope", "test"),
        ("ann", "rope", "train"),
        ("bob", "rope", "val"),
    ]
    return make_network([
        {"source": s, "target": t, "text": f"{s} of {t}", "split": part} for s, t, part in rows
    ], config=PrepareConfig(tokenizer=None, progress=False))  # fmt: skip


def test_profile_edges_are_seen_by_their_held_out_node_alone(shop):
    adjacency = shop.training_adjacency("column")
    numbers = {name: shop.node_number(name) for name in ("ann", "bob", "new", "tent", "lamp")}
    edges = {name: adjacency.edges_of(node).tolist() for name, node in numbers.items()}
    assert edges == {"ann": [0, 6], "bob": [1, 2], "new": [3, 4], "tent": [0, 1], "lamp": [2]}
    assert adjacency.held_out.tolist() == [False, False, True, False, False, False]
    assert adjacency.training_degrees().tolist() == [2, 2, 0, 2, 1, 1]
    assert adjacency.profile_sizes().tolist() == [0, 0, 2, 0, 0, 0]


def test_without_profiles_no_node_is_held_out(simulated):
    adjacency = simulated.training_adjacency("link")
    assert adjacency.held_out is None
    assert (adjacency.training_degrees() == adjacency.degrees()).all()
    assert not adjacency.profile_sizes().any()


def test_a_split_is_made_from_its_description(simulated):
    named = simulated.split("cold-source:0.5/0.2/0.3+seed-4")
    config = SplitConfig(how="cold_source", fractions=(0.5, 0.2, 0.3), seed=4)
    assert (named == make_split(config, simulated.edge_list)).all()
    assert simulated.split("cold-source:0.5/0.2/0.3+seed-4") is named
    assert all(map(simulated.has_split, ("link", "cold-target")))
    assert "cold-target" not in simulated.splits


@pytest.mark.parametrize("name", ["lnik", "column:fold", "cold-source+drop-source", "cold"])
def test_an_unknown_split_is_an_error(simulated, name):
    assert not simulated.has_split(name)
    with pytest.raises(InputError, match="no split"):
        simulated.split(name)


@pytest.mark.parametrize("name", ["chronological:0.8/0.1/0.1", "future"])
def test_a_chronological_split_needs_times(shop, name):
    assert not shop.has_split(name)
    with pytest.raises(InputError, match=r"needs a time for every edge.*`time=`"):
        shop.split(name)


def test_a_network_prepared_without_the_split_future_has_one_like_it(simulated):
    assert not simulated.has_split("future")
    with pytest.raises(InputError, match="prepared without") as error:
        simulated.split("future")
    (same,) = re.findall(r"use '(.+?)'", str(error.value))
    codes, problem = split_future(simulated.edge_list)
    assert problem == ""
    assert (simulated.split(same) == codes).all()


def test_equal_times_are_the_reason_why_there_is_no_split_future(make_network):
    rows = [{"source": "a", "target": f"t{i}", "text": "", "time": 5} for i in range(20)]
    with pytest.raises(InputError, match="same time") as error:
        make_network(rows).split("future")
    assert "every edge" not in str(error.value)


def test_the_card_counts_profiles_and_does_not_warn_of_a_cold_split(make_network):
    rows = [
        {"source": f"s{i % 20}", "target": f"t{i % 7}", "text": f"text {i}"} for i in range(140)
    ]
    splits = (SplitConfig.parse("cold=cold-source"),)
    graph = make_network(rows, config=PrepareConfig(tokenizer=None, progress=False, splits=splits))
    card = describe(graph)
    assert [part.name for part in card.splits[0].parts] == ["train", "val", "test", "profile"]
    assert card.splits[0].part("test").cold["sources"] == 4
    assert "cold nodes" not in [finding.about for finding in card.findings]


def test_training_edges_are_grouped_into_strata(make_network):
    rows = [
        {
            "source": f"u{i % 3}",
            "target": f"i{i % 4}",
            "text": "",
            "label": str(i % 2),
            "edge_type": "ab"[i // 2 % 2],
        }
        for i in range(8)
    ]
    config = PrepareConfig(tokenizer=None, positive_labels=["1"], progress=False)
    network = make_network(rows, config=config)
    training = np.flatnonzero(network.split("link") == TRAIN)
    for strata, groups in (
        ("none", np.zeros(8, int)),
        ("positive", np.where(network.is_positive, 0, 1)),
        ("edge_type", network.edge_types),
    ):
        adjacency = network.training_adjacency("link", strata=strata)
        for node in range(network.num_nodes):
            edges = [e for e in training if node in (network.src[e], network.dst[e])]
            expected = sorted(edges, key=lambda e, groups=groups: (groups[e], e))
            assert adjacency.edges_of(node).tolist() == expected
    assert network.sampler("link", [2, 2], strata="positive", seed=1) is not None
    with pytest.raises(InputError, match="'sign'"):
        network.training_adjacency("link", strata="sign")
