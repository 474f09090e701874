"""The softmax over keys: the released loss, and what each option changes."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from edgeformers.errors import ConfigError, InputError
from edgeformers.evaluation import (
    InnerProductScorer,
    LinkTable,
    evaluate_links,
    rank_full,
    rank_in_batch,
)
from edgeformers.evaluation.metrics import mrr, ndcg
from edgeformers.models.link_head import (
    LinkHead,
    false_negatives,
    sampling_log_q,
)

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
    return {
        "query_repr": draw(N, D),
        "key_repr": draw(N, D),
        "query_nodes": torch.arange(N),
        "key_nodes": torch.arange(N) + 10,
    }


def expected_loss(logits):
    return F.cross_entropy(logits, torch.arange(len(logits)))


@torch.no_grad()
def in_batch_ranks(task, query_repr, key_repr, *, query_nodes, key_nodes):
    """Ranks of pairs within their batch, by the score that was trained."""
    queries = task.factors("query", query_repr, query_nodes)
    return rank_in_batch(
        InnerProductScorer(queries, task.factors("key", key_repr, key_nodes)),
        np.arange(len(queries)),
    )


def test_without_options_it_is_the_loss_of_the_release():
    nodes = {"query_nodes": torch.tensor([0, 0, 8, 9]), "key_nodes": torch.tensor([2, 5, 4, 7])}
    task = LinkHead()
    assert not list(task.parameters())
    loss = task.loss(RELEASED_SCORES, torch.eye(4), **nodes)
    assert loss.item() == pytest.approx(RELEASED_LOSS, abs=1e-5)
    ranks = in_batch_ranks(task, RELEASED_SCORES, torch.eye(4), **nodes)
    assert mrr(ranks) == pytest.approx(RELEASED_MRR, abs=1e-6)
    assert ndcg(ranks) == pytest.approx(RELEASED_NDCG, abs=1e-6)


def test_temperature_divides_and_normalization_bounds_the_score(pairs):
    h, k = pairs["query_repr"], pairs["key_repr"]
    warm = LinkHead(temperature=0.5).loss(**pairs)
    torch.testing.assert_close(warm, expected_loss(h @ k.T / 0.5))
    unit = LinkHead(temperature=0.05, normalize=True).loss(**pairs)
    cosine = F.normalize(h, dim=1) @ F.normalize(k, dim=1).T
    torch.testing.assert_close(unit, expected_loss(cosine / 0.05))


def test_a_learned_temperature_learns_and_is_bounded(pairs):
    task = LinkHead(temperature="learned", normalize=True)
    assert task.scale().item() == pytest.approx(20)
    task.loss(**pairs).backward()
    assert task.log_scale.grad.item() != 0
    with torch.no_grad():
        task.log_scale.fill_(50.0)
    assert task.scale().item() == 100


def test_logq_takes_its_share_of_log_q_from_every_logit(pairs):
    log_q = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1]).log()
    logits = pairs["query_repr"] @ pairs["key_repr"].T
    for share in (0.5, 1.0):
        loss = LinkHead(logq=share).loss(**pairs, key_log_q=log_q)
        torch.testing.assert_close(loss, expected_loss(logits - share * log_q))
    torch.testing.assert_close(LinkHead().loss(**pairs, key_log_q=log_q), expected_loss(logits))


def test_logq_stops_in_batch_negatives_from_pushing_popular_keys_down():
    """Keys come up 90 : 10 and nothing else is known; the corrected bias is even, the plain not."""
    generator = torch.Generator().manual_seed(0)
    log_q = torch.tensor([0.9, 0.1]).log()
    learned = {}
    for share in (0.0, 1.0):
        task = LinkHead(popularity_bias=True, num_nodes=2, logq=share)
        optimizer = torch.optim.Adam(task.parameters(), lr=0.1)
        for _ in range(60):
            nodes = (torch.rand(256, generator=generator) < 0.1).long()
            optimizer.zero_grad()
            task.loss(
                torch.zeros(256, 1),
                torch.zeros(256, 1),
                query_nodes=torch.arange(256),
                key_nodes=nodes,
                key_log_q=log_q[nodes],
            ).backward()
            optimizer.step()
        learned[share] = (task.bias[0] - task.bias[1]).item()
    # plain: the positive is as popular as the negatives, so popularity tells nothing: about 0;
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
    pairs["key_nodes"] = torch.tensor([10, 11, 10, 13, 14])  # keys 0 and 2 are one node
    known = torch.zeros(N, N, dtype=torch.bool)
    known[3, 4] = True
    logits = pairs["query_repr"] @ pairs["key_repr"].T
    masked = logits.clone()
    masked[0, 2] = masked[2, 0] = masked[3, 4] = -math.inf
    task = LinkHead(mask_false_negatives=True)
    torch.testing.assert_close(task.loss(**pairs, known_pairs=known), expected_loss(masked))
    torch.testing.assert_close(LinkHead().loss(**pairs, known_pairs=known), expected_loss(logits))


def test_a_batch_of_one_pair_masked_whole_still_has_a_loss(pairs):
    two = {name: value[[0, 0]] for name, value in pairs.items()}
    assert LinkHead(mask_false_negatives=True).loss(**two).item() == pytest.approx(0.0, abs=1e-6)


def test_extra_keys_are_negatives_of_every_query(pairs, draw):
    extra = draw(3, D)
    loss = LinkHead().loss(**pairs, extra_key_repr=extra, extra_nodes=torch.arange(3) + 30)
    logits = pairs["query_repr"] @ torch.cat([pairs["key_repr"], extra]).T
    torch.testing.assert_close(loss, expected_loss(logits))


def test_keys_gathered_from_other_processes_give_the_loss_of_the_whole_batch(draw):
    """Two processes of three pairs, each with the other's keys, together are one batch of six."""
    h, k, nodes = draw(6, D), draw(6, D), torch.arange(6)
    settings = {"temperature": 0.7, "mask_false_negatives": True}
    whole = LinkHead(**settings).loss(h, k, query_nodes=nodes, key_nodes=nodes + 10)
    halves = []
    for own, other in ((slice(0, 3), slice(3, 6)), (slice(3, 6), slice(0, 3))):
        halves.append(
            LinkHead(**settings).loss(
                h[own],
                k[own],
                query_nodes=nodes[own],
                key_nodes=nodes[own] + 10,
                extra_key_repr=k[other],
                extra_nodes=nodes[other] + 10,
            )
        )
    torch.testing.assert_close(sum(halves) / 2, whole)


def test_one_product_of_factors_is_the_whole_score(draw):
    task = LinkHead(temperature=0.5, collaborative=True, popularity_bias=True, num_nodes=20)
    with torch.no_grad():
        task.weight.fill_(0.7)
        task.bias.copy_(draw(20))
    h, k, z = draw(4, D), draw(3, D), draw(21, 6)  # the last is that of a new node
    query, key = torch.tensor([0, 1, -1, 3]), torch.tensor([11, -1, 13])
    score = task.factors("query", h, query, z[query]) @ task.factors("key", k, key, z[key]).T
    b = torch.cat([task.bias, torch.zeros(1)])  # a new node has none
    expected = h @ k.T / 0.5 + 0.7 * z[query] @ z[key].T + b[key]
    torch.testing.assert_close(score, expected)


def test_vectors_given_with_a_call_are_multiplied_beside_the_texts(pairs, draw):
    task = LinkHead(collaborative=True)
    z_query, z_key, z_extra, extra = draw(N, 2), draw(N, 2), draw(2, 2), draw(2, D)
    loss = task.loss(
        **pairs,
        query_z=z_query,
        key_z=z_key,
        extra_key_repr=extra,
        extra_nodes=torch.tensor([30, 31]),
        extra_z=z_extra,
    )
    keys, z = torch.cat([pairs["key_repr"], extra]), torch.cat([z_key, z_extra])
    torch.testing.assert_close(loss, expected_loss(pairs["query_repr"] @ keys.T + z_query @ z.T))
    loss.backward()
    assert task.weight.grad.item() != 0


def test_popularity_starts_from_how_often_a_node_is_a_key():
    task = LinkHead(popularity_bias=True, num_nodes=4)
    task.start_bias(torch.tensor([0, 1, 3, 7]))
    expected = torch.tensor([0.0, -1.0, 0.0, 1.0]) * math.log(2)  # log 2, 4 and 8, less log 4
    torch.testing.assert_close(task.bias.detach(), expected)
    task = LinkHead(popularity_bias=True, num_nodes=2)
    task.start_bias(torch.zeros(2, dtype=torch.long))
    assert not task.bias.any()
    LinkHead().start_bias(torch.ones(2))  # a score without it has none to start


def test_ranking_all_nodes_uses_the_trained_score(draw):
    task = LinkHead(temperature=0.5, collaborative=True, popularity_bias=True, num_nodes=30)
    with torch.no_grad():
        task.bias.copy_(draw(30))
    h, k, z = draw(4, D), draw(9, D), draw(30, 6)
    query, candidates = torch.arange(4), torch.arange(9) + 20
    vectors = {"query_z": z[query], "candidate_z": z[candidates]}
    scorer = task.scorer(h, k, query_nodes=query, candidate_nodes=candidates, **vectors)
    keys = task.factors("key", k, candidates, z[candidates])
    table = task.factors("query", h, query, z[query]) @ keys.T
    positives = np.array([8, 0, 4, 4])
    own = table[torch.arange(4), torch.from_numpy(positives)]
    expected = 1 + (table > own[:, None]).sum(1)
    assert rank_full(scorer, positives).tolist() == expected.tolist()
    report = evaluate_links(scorer, positives)
    assert task.primary_metric in report.flat()


def test_the_loss_is_made_in_full_precision_under_autocast(pairs):
    plain = LinkHead(temperature=0.05).loss(**pairs)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LinkHead(temperature=0.05).loss(**pairs), plain)


def test_a_batch_of_no_pairs_has_no_loss():
    empty, nodes = torch.zeros(0, D, requires_grad=True), torch.zeros(0, dtype=torch.long)
    loss = LinkHead(mask_false_negatives=True).loss(
        empty, empty, query_nodes=nodes, key_nodes=nodes
    )
    loss.backward()
    assert loss.item() == 0.0


def test_what_an_option_lacks_gets_a_sentence(pairs, draw):
    with pytest.raises(InputError, match="needs key_log_q"):
        LinkHead(logq=0.5).loss(**pairs)
    extra = {"extra_key_repr": draw(2, D), "extra_nodes": torch.tensor([30, 31])}
    with pytest.raises(InputError, match=r"got 5 for 7 keys\); extra keys bring theirs"):
        LinkHead(logq=0.5).loss(**pairs, **extra, key_log_q=torch.zeros(N))
    with pytest.raises(InputError, match="extra keys need extra_nodes"):
        LinkHead().loss(**pairs, extra_key_repr=draw(2, D))
    with pytest.raises(InputError, match="needs the vectors of queries and keys: query_z, key_z"):
        LinkHead(collaborative=True).loss(**pairs)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 0}, r"a number above 0, 'learned' or None \(got 0\)"),
        ({"temperature": "learnt"}, "got 'learnt'"),
        ({"logq": 2.0}, r"between 0 \(off\) and 1 .* \(got 2.0\)"),
        ({"uniform_negatives": -1}, r"0 or more \(got -1\)"),
        ({"popularity_bias": True}, "needs num_nodes"),
        ({"primary_metric": "full/mr"}, "did you mean 'full/mrr'"),
    ],
)
def test_settings_without_meaning_get_a_sentence(settings, words):
    with pytest.raises(ConfigError, match=words):
        LinkHead(**settings)
