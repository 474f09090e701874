"""Search among keys: the same result as multiplying all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers.inference import search_kernels
from edgeformers.inference.compressed import balanced_basis
from edgeformers.inference.vector_search import BoundedSearch, InvertedLists, Wanted

WIDTH = 40


def low_rank(count, seed, rank=12):
    rng = np.random.default_rng(seed)
    spectrum = 0.7 ** np.arange(rank)
    basis = np.random.default_rng(7).normal(size=(rank, WIDTH))
    noise = 0.01 * rng.normal(size=(count, WIDTH))
    return ((rng.normal(size=(count, rank)) * spectrum) @ basis + noise).astype(np.float32)


@pytest.fixture(scope="module")
def keys():
    return low_rank(3_000, 0)


@pytest.fixture(scope="module")
def search(keys):
    return BoundedSearch.build(keys, low_rank(300, 1))


def brute_force(keys, query, wanted, allowed):
    scores = keys @ query
    for position, bonus in wanted.bonus.items():
        scores[position] += bonus
    if allowed is not None:
        scores[~allowed] = -np.inf
    scores[wanted.excluded] = -np.inf
    best = np.argsort(-scores, kind="stable")[: wanted.k]
    best = best[np.isfinite(scores[best])]
    return best, scores[best]


def test_the_basis_keeps_inner_products_and_sorts_columns_by_their_share(keys):
    queries = low_rank(300, 1)
    to_query, to_key = balanced_basis(queries, keys)
    np.testing.assert_allclose(to_query.T @ to_key, np.eye(WIDTH), atol=1e-6)
    shares = ((queries @ to_query.T) ** 2).mean(0) * ((keys @ to_key.T) ** 2).mean(0)
    assert shares[:12].sum() > 0.999 * shares.sum()


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_result_is_that_of_all_products(data, keys, search):
    seed = data.draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    query = rng.normal(size=(1, WIDTH)).astype(np.float32)  # unlike those of known sources
    if data.draw(st.booleans()):
        query = low_rank(1, seed)
    share = data.draw(st.sampled_from([None, 0.0, 0.001, 0.03, 0.5]))
    allowed = None if share is None else rng.random(len(keys)) < share
    excluded = np.unique(rng.integers(0, len(keys), data.draw(st.sampled_from([0, 5, 2_990]))))
    bonus = dict.fromkeys(rng.integers(0, len(keys), 3).tolist(), data.draw(st.floats(-5, 20)))
    wanted = Wanted(k=data.draw(st.sampled_from([1, 10, 5_000])), excluded=excluded, bonus=bonus)
    ((found, scores),) = search.best(keys, query, [wanted], allowed)
    expected, best_scores = brute_force(keys, query[0], wanted, allowed)
    assert len(found) == len(expected)
    assert not np.isin(found, excluded).any()
    assert allowed is None or allowed[found].all()
    np.testing.assert_allclose(scores, best_scores, rtol=1e-4, atol=1e-4)


def test_several_queries_are_searched_together(keys, search):
    queries = low_rank(7, 5)
    together = search.best(keys, queries, [Wanted(k=4)] * 7, None)
    for query, (found, _) in zip(queries, together, strict=True):
        assert found.tolist() == brute_force(keys, query, Wanted(k=4), None)[0].tolist()


def test_many_queries_take_no_more_memory_than_a_few(keys, search, monkeypatch):
    counts, find_best = [], search_kernels.find_best

    def counted(keys, *rest):
        counts.append(len(rest[5]))
        find_best(keys, *rest)

    monkeypatch.setattr(search_kernels, "find_best", counted)
    queries = low_rank(101, 5)
    together = search.best(keys, queries, [Wanted(k=4)] * 101, None)
    assert sum(counts) == 101
    assert max(counts) <= 8
    for query, (found, _) in zip(queries, together, strict=True):
        assert found.tolist() == brute_force(keys, query, Wanted(k=4), None)[0].tolist()


@pytest.mark.parametrize("decay", [1.0, 0.99, 0.97])
def test_vectors_wider_than_what_integers_hold_are_searched_exactly(decay):
    rng = np.random.default_rng(0)
    spectrum = decay ** np.arange(400)
    keys, queries = (
        (rng.normal(size=(count, 400)) * spectrum).astype(np.float32) for count in (2_000, 60)
    )
    search = BoundedSearch.build(keys, queries[:40])
    wanted = [Wanted(k=5, bonus={3: 1.0})] * 20
    for query, (found, _) in zip(
        queries[40:], search.best(keys, queries[40:], wanted, None), strict=True
    ):
        assert found.tolist() == brute_force(keys, query, wanted[0], None)[0].tolist()


def test_changed_keys_are_found(keys):
    changed = keys.copy()
    search, query = BoundedSearch.build(changed, low_rank(300, 1)), low_rank(1, 9)
    changed[17] = 3 * query[0]
    search.renew(changed, np.array([17]))
    ((found, _),) = search.best(changed, query, [Wanted(k=1)], None)
    assert found.tolist() == [17]


@pytest.fixture(scope="module")
def lists(keys):
    pytest.importorskip("faiss")
    found = InvertedLists.build(keys, low_rank(300, 1))
    found.probes = found.index.nlist
    return found


@pytest.mark.parametrize("share", [None, 0.02, 0.5])
def test_inverted_lists_give_exact_scores_and_k_results(keys, lists, share, tmp_path):
    rng = np.random.default_rng(4)
    allowed = None if share is None else rng.random(len(keys)) < share
    queries = low_rank(5, 11)
    lists.save(tmp_path)
    for search in (lists, InvertedLists.load(tmp_path, lists.probes)):
        for query in queries:
            excluded = np.argsort(-(keys @ query))[:40]
            wanted = Wanted(k=10, excluded=np.sort(excluded), bonus={2_999: 50.0})
            ((found, scores),) = search.best(keys, query[None], [wanted], allowed)
            expected, best_scores = brute_force(keys, query, wanted, allowed)
            assert len(found) == 10
            assert len(np.intersect1d(found, expected)) >= 9
            np.testing.assert_allclose(scores[0], best_scores[0], rtol=1e-4)
    one = lists.best(keys, queries[:1], [Wanted(k=3, excluded=np.arange(2_998))], None)
    assert sorted(one[0][0].tolist()) == [2_998, 2_999]


def test_leading_columns_in_lists_suffice_with_exact_scores_of_the_best(keys, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr("edgeformers.inference.vector_search.LISTED", 10)
    search = InvertedLists.build(keys, low_rank(300, 1))
    search.probes = search.index.nlist
    assert search.index.d == 10
    for query in low_rank(5, 11):
        ((found, scores),) = search.best(keys, query[None], [Wanted(k=10)], None)
        expected, best_scores = brute_force(keys, query, Wanted(k=10), None)
        assert found.tolist() == expected.tolist()
        np.testing.assert_allclose(scores, best_scores, rtol=1e-4)


def test_inverted_lists_find_changed_keys(keys):
    pytest.importorskip("faiss")
    changed, query = keys.copy(), low_rank(1, 9)
    search = InvertedLists.build(changed, low_rank(300, 1))
    changed[17] = 5 * query[0]
    search.renew(changed, np.array([17]))
    ((found, _),) = search.best(changed, query, [Wanted(k=1)], None)
    assert found.tolist() == [17]
