"""The softmax over keys: the released loss, and what each option changes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from edgeformers.errors import ConfigError, InputError
from edgeformers.evaluation import InnerProductScorer, LinkTable, rank_in_batch
from edgeformers.evaluation.metrics import mrr, ndcg
from edgeformers.models.link_head import EncodedNodes, LinkHead, false_negatives, sampling_log_q

N, D = 5, 6

#: Scores of four pairs by the paper's released model on tiny weights; what it printed.
RELEASED_SCORES = torch.tensor(
    [
        [16.453272, 16.465145, 14.989235, 16.378498],
        [14.426138, 13.302408, 12.473819, 15.650430],
        [12.819995, 11.929862, 11.908424, 12.905567],
        [15.904501, 15.841876, 14.269205, 17.358952],
    ]
)
RELEASED_LOSS, RELEASED_MRR, RELEASED_NDCG = 1.560496, 0.520833, 0.640402


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(5)
    return lambda *shape: torch.randn(*shape, generator=generator)


@pytest.fixture
def pairs(draw):
    """Five pairs, no node twice."""
    nodes = torch.arange(N)
    return EncodedNodes(draw(N, D), nodes), EncodedNodes(draw(N, D), nodes + 10)


def expected_loss(logits):
    return F.cross_entropy(logits, torch.arange(len(logits)))


def products(pairs):
    return pairs[0].states @ pairs[1].states.T


def test_without_options_it_is_the_loss_of_the_release():
    head = LinkHead()
    query = EncodedNodes(RELEASED_SCORES, torch.tensor([0, 0, 8, 9]))
    key = EncodedNodes(torch.eye(4), torch.tensor([2, 5, 4, 7]))
    assert not list(head.parameters())
    assert head.loss(query, key).item() == pytest.approx(RELEASED_LOSS, abs=1e-5)
    scorer = InnerProductScorer(head.factors("source", query), head.factors("target", key))
    ranks = rank_in_batch(scorer, np.arange(4))
    assert mrr(ranks) == pytest.approx(RELEASED_MRR, abs=1e-6)
    assert ndcg(ranks) == pytest.approx(RELEASED_NDCG, abs=1e-6)


def test_temperature_divides_and_normalization_bounds_the_score(pairs):
    warm = LinkHead(temperature=0.5).loss(*pairs)
    torch.testing.assert_close(warm, expected_loss(products(pairs) / 0.5))
    unit = LinkHead(temperature=0.05, normalize=True).loss(*pairs)
    query, key = (F.normalize(side.states, dim=1) for side in pairs)
    torch.testing.assert_close(unit, expected_loss(query @ key.T / 0.05))


def test_a_learned_temperature_learns_and_is_bounded(pairs):
    head = LinkHead(temperature="learned", normalize=True)
    assert head.scale().item() == pytest.approx(20)
    head.loss(*pairs).backward()
    assert head.log_scale.grad.item() != 0
    with torch.no_grad():
        head.log_scale.fill_(50.0)
    assert head.scale().item() == 100


def test_logq_subtracts_its_share_of_log_q(pairs):
    query, key = pairs
    key = replace(key, log_q=torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1]).log())
    for share in (0.0, 0.5, 1.0):
        expected = expected_loss(products(pairs) - share * key.log_q)
        torch.testing.assert_close(LinkHead(logq=share).loss(query, key), expected)


def test_logq_stops_in_batch_negatives_from_pushing_popular_keys_down():
    """Keys come up 90 : 10 and nothing else is known; the corrected bias is even, the plain not."""
    generator = torch.Generator().manual_seed(0)
    log_q = torch.tensor([0.9, 0.1]).log()
    query = EncodedNodes(torch.zeros(256, 1), torch.arange(256))
    learned = {}
    for share in (0.0, 1.0):
        head = LinkHead(popularity_bias=True, num_nodes=2, logq=share)
        optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
        for _ in range(60):
            nodes = (torch.rand(256, generator=generator) < 0.1).long()
            optimizer.zero_grad()
            key = EncodedNodes(torch.zeros(256, 1), nodes, log_q=log_q[nodes])
            head.loss(query, key).backward()
            optimizer.step()
        learned[share] = (head.bias[0] - head.bias[1]).item()
    # plain: the positive is as popular as the negatives, so popularity is uninformative: about 0;
    # corrected: the score becomes log P(u), whose difference is log 9
    assert learned[0.0] == pytest.approx(0.0, abs=0.4)
    assert learned[1.0] == pytest.approx(math.log(9), abs=0.4)


def test_log_q_mixes_batch_and_even_draws():
    counts = torch.tensor([6.0, 2.0, 0.0, 0.0])
    plain = sampling_log_q(counts[:2])
    torch.testing.assert_close(plain.exp(), torch.tensor([0.75, 0.25]))
    mixed = sampling_log_q(counts, batch_size=30, uniform_negatives=10).exp()
    expected = [0.75 * 0.75 + 0.25 * 0.25, 0.75 * 0.25 + 0.0625, 0.0625, 0.0625]
    torch.testing.assert_close(mixed, torch.tensor(expected))
    assert sampling_log_q(counts).isfinite().all()


def test_false_negatives_are_those_a_batch_and_known_links_tell():
    query = torch.tensor([0, 0, 1, -1, -1])
    key = torch.tensor([7, 8, 7, 9, -1])
    extra = torch.tensor([8, 5, -1])
    known = LinkTable.from_pairs([1, 1], [9, 5], 10).to("cpu")
    told = false_negatives(query, key, torch.cat([key, extra]), known)
    expected = [
        [0, 1, 1, 0, 0, 1, 0, 0],  # 8 is the other positive of query 0, in the batch and beyond
        [1, 0, 1, 0, 0, 1, 0, 0],
        [1, 0, 0, 1, 0, 0, 1, 0],  # 7 is its own positive met again; 9 and 5 are known links
        [0, 0, 0, 0, 0, 0, 0, 0],  # new nodes are never the same as one another
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert told.int().tolist() == expected


def test_masked_keys_leave_the_softmax(pairs):
    query, key = pairs
    key = replace(key, nodes=torch.tensor([10, 11, 10, 13, 14]))  # keys 0 and 2 are one node
    known = torch.zeros(N, N, dtype=torch.bool)
    known[3, 4] = True
    masked = products(pairs).clone()
    masked[0, 2] = masked[2, 0] = masked[3, 4] = -math.inf
    head = LinkHead(mask_false_negatives=True)
    torch.testing.assert_close(head.loss(query, key, known_links=known), expected_loss(masked))
    plain = LinkHead().loss(query, key, known_links=known)
    torch.testing.assert_close(plain, expected_loss(products(pairs)))


def test_a_batch_of_one_pair_masked_completely_still_has_a_loss(pairs):
    two = [EncodedNodes(side.states[[0, 0]], side.nodes[[0, 0]]) for side in pairs]
    assert LinkHead(mask_false_negatives=True).loss(*two).item() == pytest.approx(0.0, abs=1e-6)


def test_extra_keys_are_negatives_of_every_query(pairs, draw):
    extra = EncodedNodes(draw(3, D), torch.arange(3) + 30)
    logits = pairs[0].states @ torch.cat([pairs[1].states, extra.states]).T
    torch.testing.assert_close(LinkHead().loss(*pairs, extra=extra), expected_loss(logits))


def test_keys_gathered_from_other_processes_give_the_loss_of_the_full_batch(draw):
    """Two processes of three pairs, each with the other's keys, together are one batch of six."""
    h, k, nodes = draw(6, D), draw(6, D), torch.arange(6)
    head = LinkHead(temperature=0.7, mask_false_negatives=True)
    full = head.loss(EncodedNodes(h, nodes), EncodedNodes(k, nodes + 10))
    halves = []
    for own, other in ((slice(0, 3), slice(3, 6)), (slice(3, 6), slice(0, 3))):
        query = EncodedNodes(h[own], nodes[own])
        key, extra = (EncodedNodes(k[part], nodes[part] + 10) for part in (own, other))
        halves.append(head.loss(query, key, extra=extra))
    torch.testing.assert_close(sum(halves) / 2, full)


def test_one_product_of_factors_is_the_full_score(draw):
    head = LinkHead(temperature=0.5, collaborative=True, popularity_bias=True, num_nodes=20)
    with torch.no_grad():
        head.weight.fill_(0.7)
        head.bias.copy_(draw(20))
    h, k, z = draw(4, D), draw(3, D), draw(21, 6)  # the last is that of an unknown node
    query, key = torch.tensor([0, 1, -1, 3]), torch.tensor([11, -1, 13])
    left = head.factors("source", EncodedNodes(h, query, z[query]))
    right = head.factors("target", EncodedNodes(k, key, z[key]))
    b = torch.cat([head.bias, torch.zeros(1)])  # an unknown node has none
    expected = h @ k.T / 0.5 + 0.7 * z[query] @ z[key].T + b[key]
    torch.testing.assert_close(left @ right.T, expected)


def test_node_vectors_add_their_products(pairs, draw):
    head = LinkHead(collaborative=True)
    z_query, z_key, z_extra, extra = draw(N, 2), draw(N, 2), draw(2, 2), draw(2, D)
    loss = head.loss(
        replace(pairs[0], z=z_query),
        replace(pairs[1], z=z_key),
        extra=EncodedNodes(extra, torch.tensor([30, 31]), z_extra),
    )
    keys, z = torch.cat([pairs[1].states, extra]), torch.cat([z_key, z_extra])
    torch.testing.assert_close(loss, expected_loss(pairs[0].states @ keys.T + z_query @ z.T))
    loss.backward()
    assert head.weight.grad.item() != 0


def test_popularity_starts_from_how_often_a_node_is_a_key():
    head = LinkHead(popularity_bias=True, num_nodes=4)
    head.initialize_bias(torch.tensor([0, 1, 3, 7]))
    expected = torch.tensor([0.0, -1.0, 0.0, 1.0]) * math.log(2)  # log 2, 4 and 8, less log 4
    torch.testing.assert_close(head.bias.detach(), expected)
    head = LinkHead(popularity_bias=True, num_nodes=2)
    head.initialize_bias(torch.zeros(2, dtype=torch.long))
    assert not head.bias.any()
    LinkHead().initialize_bias(torch.ones(2))  # a score without it has none to start


def test_the_loss_is_computed_in_full_precision_under_autocast(pairs):
    plain = LinkHead(temperature=0.05).loss(*pairs)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LinkHead(temperature=0.05).loss(*pairs), plain)


def test_a_batch_without_pairs_has_no_loss():
    empty = EncodedNodes(torch.zeros(0, D, requires_grad=True), torch.zeros(0, dtype=torch.long))
    loss = LinkHead(mask_false_negatives=True).loss(empty, empty)
    loss.backward()
    assert loss.item() == 0.0


def test_missing_inputs_of_an_option_are_named(pairs, draw):
    query, key = pairs
    extra = EncodedNodes(draw(2, D), torch.tensor([30, 31]))
    with pytest.raises(InputError, match="log_q"):
        LinkHead(logq=0.5).loss(query, key)
    with pytest.raises(InputError, match="log_q"):
        LinkHead(logq=0.5).loss(query, replace(key, log_q=torch.zeros(N)), extra=extra)
    with pytest.raises(InputError, match="node vectors z"):
        LinkHead(collaborative=True).loss(query, key)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"temperature": 0}, "temperature"),
        ({"temperature": "learnt"}, "learnt"),
        ({"logq": 2.0}, "logq"),
        ({"uniform_negatives": -1}, "uniform_negatives"),
        ({"popularity_bias": True}, "num_nodes"),
    ],
)
def test_invalid_settings_are_rejected(settings, word):
    with pytest.raises(ConfigError, match=word):
        LinkHead(**settings)
