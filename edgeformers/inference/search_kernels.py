"""Inner loops of the exact search, compiled by numba: one call per batch, without the GIL.

Arrays are indexed in place, because a view of a row costs as much as the sum over it. A loop whose
length is a constant, over a copy of the query, takes a quarter of the time.
"""

import numpy as np
from numba import njit

from edgeformers.inference.compressed import FIRST, LATER, NORMS

#: Sums may be reordered, so that they are vectorized; infinite values keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}
BLOCK = 4_096  # keys whose first columns stay in the cache for all queries of a batch


@njit(cache=True, nogil=True)
def find_best(
    keys,
    first,
    scales,
    norms,
    later,
    steps,
    queries,
    numbers,
    later_numbers,
    weights,
    bonuses,
    excluded,
    allowed,
    best,
):
    """Write the positions and scores of each query's best keys to `best`: heaps, with -1 for none.

    `BoundedSearch` describes keys and queries. `bonuses` and `excluded` hold positions query by
    query; an empty `allowed` allows all keys.
    """
    if (first.shape[1], later.shape[1], norms.shape[1]) != (FIRST, LATER, NORMS):
        raise ValueError("keys of other widths than these loops were compiled for")
    products = np.empty((len(queries), len(keys)), np.float32)
    for start in range(0, len(keys), BLOCK):
        for n in range(len(queries)):
            _multiply(first, scales, numbers, weights, n, start, products)
    for n in range(len(queries)):
        for at in range(len(allowed)):
            if not allowed[at]:
                products[n, at] = -np.inf
        for j in range(excluded[0][n], excluded[0][n + 1]):
            products[n, excluded[1][j]] = -np.inf
        _rule_out(
            keys,
            scales,
            norms,
            later,
            steps,
            queries,
            later_numbers,
            weights,
            bonuses,
            n,
            products,
            best,
        )


@njit(cache=True, nogil=True, fastmath=SUMS)
def _multiply(first, scales, numbers, weights, n, start, products):
    """The products of the first columns of a block of keys with a query."""
    query = np.empty(FIRST, np.int16)
    query[:] = numbers[n]
    for at in range(start, min(start + BLOCK, len(first))):
        product = np.int32(0)
        for j in range(FIRST):
            product = np.int32(product + np.int32(np.int32(first[at, j]) * np.int32(query[j])))
        products[n, at] = np.float32(product) * (weights[n, 0] * scales[at, 0])


@njit(cache=True, nogil=True)
def _rule_out(
    keys, scales, norms, later, steps, queries, later_numbers, weights, bonuses, n, products, best
):
    """Keep the best keys of a query, computing the scores of those that bounds do not rule out."""
    places, scores, chosen, chosen_products = best
    for j in range(bonuses[0][n], bonuses[0][n + 1]):  # few: their scores are computed at once
        at = bonuses[1][j]
        if products[n, at] > -np.inf:
            _push(scores, places, n, _score(keys, queries, at, n) + bonuses[2][j], at)
            products[n, at] = -np.inf
    chosen[:] = -1
    chosen_products[:] = -np.inf
    heap, heap_places = chosen_products.reshape(1, -1), chosen.reshape(1, -1)
    for at in range(len(keys)):
        if products[n, at] > heap[0, 0]:
            _push(heap, heap_places, 0, products[n, at], at)
    for j in range(len(chosen)):  # the first guess
        if chosen[j] >= 0:
            _push(scores, places, n, _score(keys, queries, chosen[j], n), chosen[j])
            products[n, chosen[j]] = -np.inf
    length = np.sqrt(np.sum(weights[n, 1:] ** 2)) * np.float32(1 + 1e-6)
    for at in range(len(keys)):
        if products[n, at] + length * scales[at, 1] < scores[n, 0] or products[n, at] == -np.inf:
            continue
        bound = products[n, at] + _slack(norms, weights, at, n)
        if bound >= scores[n, 0]:
            bound += _refinement(later, steps, later_numbers, weights, at, n)
        if bound >= scores[n, 0]:
            _push(scores, places, n, _score(keys, queries, at, n), at)


@njit(cache=True, nogil=True, fastmath=SUMS)
def _slack(norms, weights, at, n):
    """What columns other than the first, and rounding, add at most."""
    slack = np.float32(0)
    for j in range(NORMS):
        slack += weights[n, 1 + j] * norms[at, j]
    return slack


@njit(cache=True, nogil=True, fastmath=SUMS)
def _refinement(later, steps, later_numbers, weights, at, n):
    """What the bound changes if the product of the later columns replaces that of their norms."""
    product = np.int32(0)
    for j in range(LATER):
        product = np.int32(
            product + np.int32(np.int32(later[at, j]) * np.int32(later_numbers[n, j]))
        )
    change = np.float32(product) * (weights[n, 0] * steps[at, 0])
    return change + weights[n, 2] * steps[at, 1]


@njit(cache=True, nogil=True, fastmath=SUMS)
def _score(keys, queries, at, n):
    total = np.float32(0)
    for j in range(keys.shape[1]):
        total += keys[at, j] * queries[n, j]
    return total


@njit(cache=True, nogil=True)
def _push(values, places, n, value, place):
    """Replace the lowest value of a heap, row n, if the new one is higher."""
    if not value > values[n, 0]:
        return
    at, size = 0, values.shape[1]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and values[n, child + 1] < values[n, child]:
            child += 1
        if value <= values[n, child]:
            break
        values[n, at], places[n, at] = values[n, child], places[n, child]
        at = child
    values[n, at], places[n, at] = value, place
