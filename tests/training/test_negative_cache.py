"""The cache of target states: what it holds, which negatives it gives, and what they cost."""

import numpy as np
import pytest
import torch

from edgeformers.errors import ConfigError
from edgeformers.estimators import run_config
from edgeformers.training import negative_cache
from edgeformers.training.negative_cache import NegativeCache

CPU = torch.device("cpu")


def encode(nodes):
    """A state that tells the node: [node, 1]."""
    return torch.tensor([[float(node), 1.0] for node in nodes])


def make_cache(first=10, stop=17):
    cache = NegativeCache(np.arange(first, stop), stop + 3, 2, seed=0, device=CPU)
    cache.refresh(encode)
    return cache


def test_every_candidate_is_drawn_equally_often_with_its_own_state():
    cache, drawn = make_cache(), []
    for _ in range(7):
        nodes, states = cache.draw(3)
        assert torch.equal(states, encode(nodes.tolist()))
        drawn += nodes.tolist()
    assert np.bincount(drawn)[10:].tolist() == [3] * 7
    assert drawn[:7] != sorted(drawn[:7])
    nodes, _ = cache.draw(100)
    assert sorted(nodes.tolist()) == list(range(10, 17))


def test_an_update_replaces_states_by_the_mean_and_ignores_other_nodes():
    cache = make_cache()
    nodes = torch.tensor([12, 3, 12, 15])
    states = torch.tensor([[1.0, 1.0], [9.0, 9.0], [3.0, 5.0], [4.0, 4.0]])
    _, before = cache.draw(7)
    cache.update(nodes, states)
    order, after = cache.draw(7)
    held = dict(zip(order.tolist(), after.tolist(), strict=True))
    assert held[12] == [2.0, 3.0]
    assert held[15] == [4.0, 4.0]
    assert held[10] == [10.0, 1.0]
    assert sorted(before[:, 0].tolist()) == list(range(10, 17))  # not changed by the update


def test_of_many_candidates_others_are_held_after_a_refresh(monkeypatch):
    monkeypatch.setattr(negative_cache, "MAX_NODES", 4)
    cache, held = make_cache(0, 200), []
    for _ in range(3):
        nodes, states = cache.draw(9)
        assert torch.equal(states, encode(nodes.tolist()))
        held.append(set(nodes.tolist()))
        cache.refresh(encode)
    assert [len(nodes) for nodes in held] == [4, 4, 4]
    assert held[0] != held[1] != held[2]


def test_a_restored_cache_goes_on_like_the_original():
    cache = make_cache()
    cache.draw(3)
    cache.update(torch.tensor([12]), torch.tensor([[5.0, 6.0]]))
    restored = NegativeCache(np.arange(10, 17), 20, 2, seed=0, device=CPU)
    restored.load_state_dict(cache.state_dict())
    for count in (3, 3, 7):
        for one, other in zip(cache.draw(count), restored.draw(count), strict=True):
            assert torch.equal(one, other)
    with pytest.raises(ValueError, match="instead of"):
        NegativeCache(np.arange(5), 20, 2, seed=0, device=CPU).load_state_dict(cache.state_dict())


def test_cached_negatives_raise_the_loss_but_are_not_encoded(make_links, without_dropout):
    """With all candidates as keys, the loss is that of a softmax over all of them."""
    plain = without_dropout(make_links())
    objective = without_dropout(make_links(**{"links.cached_negatives": 10_000}))
    pieces = objective.make(objective.batches(0)[0], 0, None)
    encoded = []
    objective.model.register_forward_hook(
        lambda model, args, out: encoded.append(len(out)) if model.training else None
    )
    losses = [float(one.backward([pieces])) for one in (plain, objective)]
    assert losses[1] > losses[0]
    assert encoded == [len(pieces[0].egos)]
    assert objective._cache.drawn == 1


def test_the_cache_starts_with_current_states_and_takes_those_of_the_batch(
    make_links, without_dropout
):
    objective = without_dropout(make_links(**{"links.cached_negatives": 7}))
    pieces = objective.make(objective.batches(0)[0], 0, None)
    objective.backward([pieces])
    nodes, states = objective._cache.draw(10_000)
    rows = {int(node): row for row, node in enumerate(nodes)}
    keys = pieces[0].centers[1].tolist()
    unread = [node for node in rows if node not in keys]
    assert unread
    expected = objective.fitted.embed_nodes(np.array(unread))
    found = states[[rows[node] for node in unread]]
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-5, rtol=1e-4)
    single = next(node for node in keys if keys.count(node) == 1)
    states_of_keys = pieces[0].by_role(objective.model(pieces[0].egos))[1]
    torch.testing.assert_close(states[rows[single]], states_of_keys[keys.index(single)].detach())


def test_sampling_probabilities_count_cached_negatives(make_links):
    few = make_links(**{"links.uniform_negatives": 20})
    cached = make_links(**{"links.cached_negatives": 20})
    assert torch.equal(few._log_q, cached._cached_log_q)
    assert torch.equal(make_links()._log_q, cached._log_q)


def test_a_negative_number_is_refused():
    with pytest.raises(ConfigError, match="cached_negatives"):
        run_config("link-prediction", settings={"links.cached_negatives": -1})


def test_a_cached_key_competes_with_cached_keys_only(make_links):
    """If all cached states are equal, no key can be told from another, however fresh ones look."""
    plain = {"links.collaborative": False, "links.popularity_bias": False, "links.logq": 0.0}
    plain |= {"links.mask_false_negatives": False, "links.cached_negatives": 10_000}
    objective = make_links(**plain)
    (piece,) = objective.make(objective.batches(0)[0], 0, None)
    objective._refresh_cache()
    cache = objective._cache
    cache.states.fill_(1.0)
    queries, keys, _ = piece.centers
    encoded = objective._encoded(torch.randn(len(queries), objective.fitted.width), queries)
    loss = objective._cached_loss(cache, encoded, keys, keys[:0])
    assert float(loss) == pytest.approx(np.log(len(keys) + len(cache)), rel=1e-5)


def test_a_link_whose_key_is_not_cached_has_no_loss_among_cached_keys(make_links, monkeypatch):
    monkeypatch.setattr(negative_cache, "MAX_NODES", 5)
    objective = make_links(**{"links.cached_negatives": 5})
    (piece,) = objective.make(objective.batches(0)[0], 0, None)
    objective._refresh_cache()
    queries, keys, _ = piece.centers
    is_cached = objective._cache.holds(keys)
    assert is_cached.any()
    assert not is_cached.all()
    state = torch.randn(len(queries), objective.fitted.width, requires_grad=True)
    encoded = objective._encoded(state, queries)
    objective._cached_loss(objective._cache, encoded, keys, keys).backward()
    assert torch.equal(state.grad.abs().sum(1) > 0, is_cached)
