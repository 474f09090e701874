"""Inner loops of the exact search, compiled by numba: one call per batch, without the GIL.

Arrays are indexed in place, because a view of a row costs as much as the sum over it.
"""

import numpy as np
from numba import njit

#: Sums may be reordered, so that they are vectorized; infinite values keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}


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
    places, scores, chosen, chosen_products = best
    products = np.empty(len(keys), np.float32)
    bonus = np.zeros(len(keys), np.float32)
    for n in range(len(queries)):
        for j in range(bonuses[0][n], bonuses[0][n + 1]):
            bonus[bonuses[1][j]] = bonuses[2][j]
        products[:] = bonus
        for j in range(excluded[0][n], excluded[0][n + 1]):
            products[excluded[1][j]] = -np.inf
        chosen[:] = -1
        chosen_products[:] = -np.inf
        _estimate(first, scales, numbers, weights, n, allowed, products, chosen, chosen_products)
        for j in range(len(chosen)):  # the first guess
            if chosen[j] >= 0:
                score = _score(keys, queries, chosen[j], n) + bonus[chosen[j]]
                _push(scores, places, n, score, chosen[j])
                products[chosen[j]] = -np.inf
        length = np.sqrt(np.sum(weights[n, 1:] ** 2)) * np.float32(1 + 1e-6)
        for at in range(len(keys)):
            if products[at] + length * scales[at, 1] < scores[n, 0] or products[at] == -np.inf:
                continue
            bound = products[at] + _slack(norms, weights, at, n)
            if bound >= scores[n, 0]:
                bound += _refinement(later, steps, later_numbers, weights, at, n)
            if bound >= scores[n, 0]:
                score = _score(keys, queries, at, n) + bonus[at]
                _push(scores, places, n, score, at)
        for j in range(bonuses[0][n], bonuses[0][n + 1]):
            bonus[bonuses[1][j]] = 0


@njit(cache=True, nogil=True, fastmath=SUMS)
def _estimate(first, scales, numbers, weights, n, allowed, products, chosen, chosen_products):
    """Add the products of the first columns to `products`, and choose the keys with the highest."""
    width, has_filter = first.shape[1], len(allowed) > 0
    heap, heap_places = chosen_products.reshape(1, -1), chosen.reshape(1, -1)
    for at in range(len(products)):
        if has_filter and not allowed[at]:
            products[at] = -np.inf
            continue
        product = np.int32(0)
        for j in range(width):
            product = np.int32(product + np.int32(np.int32(first[at, j]) * np.int32(numbers[n, j])))
        products[at] += np.float32(product) * (weights[n, 0] * scales[at, 0])
        if products[at] > heap[0, 0]:
            _push(heap, heap_places, 0, products[at], at)


@njit(cache=True, nogil=True, fastmath=SUMS)
def _slack(norms, weights, at, n):
    """What columns other than the first, and rounding, add at most."""
    slack = np.float32(0)
    for j in range(norms.shape[1]):
        slack += weights[n, 1 + j] * norms[at, j]
    return slack


@njit(cache=True, nogil=True, fastmath=SUMS)
def _refinement(later, steps, later_numbers, weights, at, n):
    """What the bound changes if the product of the later columns replaces that of their norms."""
    product = np.int32(0)
    for j in range(later.shape[1]):
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
