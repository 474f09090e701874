"""Inner loops over nodes, edges and tokens, compiled by numba for the types they get."""

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BLOCK = 1024  # centers sampled together


@njit(cache=True, nogil=True)
def count_edges(src, dst, at_src, at_dst, strata, num_strata, counts):
    for e in range(len(src)):
        s = strata[e] if len(strata) else 0
        if s < 0:
            continue
        if not len(at_src) or at_src[e]:
            counts[np.int64(src[e]) * num_strata + s + 1] += 1
        if src[e] != dst[e] and (not len(at_dst) or at_dst[e]):
            counts[np.int64(dst[e]) * num_strata + s + 1] += 1


@njit(cache=True, nogil=True)
def fill_edges(src, dst, at_src, at_dst, strata, num_strata, cursor, links):
    for e in range(len(src)):
        s = strata[e] if len(strata) else 0
        if s < 0:
            continue
        if not len(at_src) or at_src[e]:
            row = np.int64(src[e]) * num_strata + s
            links[cursor[row], 0] = e
            links[cursor[row], 1] = dst[e]
            cursor[row] += 1
        if src[e] != dst[e] and (not len(at_dst) or at_dst[e]):
            row = np.int64(dst[e]) * num_strata + s
            links[cursor[row], 0] = e
            links[cursor[row], 1] = src[e]
            cursor[row] += 1


@njit(cache=True, nogil=True)
def copy_texts(ids, starts, offsets, prefix, suffix, out):
    """Copy the tokens of texts from `starts` in `ids` to `offsets` in `out`; add special ones."""
    for i in range(len(starts)):
        first, end = offsets[i], offsets[i + 1]
        for j in range(len(prefix)):
            out[first + j] = prefix[j]
        first += len(prefix)
        end -= len(suffix)
        for j in range(end - first):
            out[first + j] = ids[starts[i] + j]
        for j in range(len(suffix)):
            out[end + j] = suffix[j]


@njit(cache=True, nogil=True)
def peel_nodes(indptr, links, min_degree):
    """Which nodes remain in the k-core, k = min_degree: repeatedly remove nodes of lower degree.

    Each node is removed at most once, so the time is linear in the number of links.
    """
    num_nodes = len(indptr) - 1
    degrees = np.diff(indptr)
    stays = degrees >= min_degree
    removed = np.flatnonzero(~stays)
    queue = np.empty(num_nodes, np.int64)
    queue[: len(removed)] = removed
    end = len(removed)
    done = 0
    while done < end:
        node = queue[done]
        done += 1
        for i in range(indptr[node], indptr[node + 1]):
            other = links[i, 1]
            degrees[other] -= 1
            if stays[other] and degrees[other] < min_degree:
                stays[other] = False
                queue[end] = other
                end += 1
    return stays


@njit(cache=True, nogil=True)
def count_groups(group, counts):
    for i in range(len(group)):
        counts[group[i] + 1] += 1


@njit(cache=True, nogil=True)
def fill_groups(group, cursor, rows):
    for i in range(len(group)):
        rows[cursor[group[i]]] = i
        cursor[group[i]] += 1


@njit(cache=True, nogil=True)
def cut_groups(indptr, rows, keys, train_end, val_end, codes):
    for g in range(len(indptr) - 1):
        members = rows[indptr[g] : indptr[g + 1]]
        n = len(members)
        order = np.argsort(keys[members], kind="mergesort")
        train, val = int(train_end * n), int(val_end * n)
        for rank in range(n):
            codes[members[order[rank]]] = 0 if rank < train else (1 if rank < val else 2)


@njit(cache=True, nogil=True, inline="always")
def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def draw_neighborhoods(
    indptr, links, centers, partners, sizes, key, edges, neighbors, moved, touched
):
    """Sample `sizes[s]` edges of each center in each stratum s, excluding those to its partner.

    Centers are processed in blocks whose working memory fits into the CPU cache.
    """
    num_strata = len(sizes)
    starts = np.empty((BLOCK, num_strata), np.int64)
    degrees = np.empty((BLOCK, num_strata), np.int64)
    places = np.empty(BLOCK * (sizes.sum() + num_strata), np.int64)
    block_links = np.empty((len(places), 2), links.dtype)
    for first in range(0, len(centers), BLOCK):
        block = slice(first, first + BLOCK)
        draw_block(
            indptr,
            links,
            centers[block],
            partners[block],
            sizes,
            key,
            edges[block],
            neighbors[block],
            moved,
            touched,
            starts,
            degrees,
            places,
            block_links,
        )


@njit(cache=True, nogil=True)
def draw_block(
    indptr,
    links,
    centers,
    partners,
    sizes,
    key,
    edges,
    neighbors,
    moved,
    touched,
    starts,
    degrees,
    places,
    block_links,
):
    """Sample a block in passes of independent reads, so that cache misses overlap: find the rows,
    draw positions (one extra, because usually one edge leads to the partner), and read the links.
    Then exclude partners.
    """
    num_strata = len(sizes)
    for b in range(len(centers)):
        row = centers[b] * num_strata
        for s in range(num_strata):
            starts[b, s] = indptr[row + s]
            degrees[b, s] = indptr[row + s + 1] - indptr[row + s]

    end = 0
    for b in range(len(centers)):
        for s in range(num_strata):
            count = min(degrees[b, s], sizes[s] + 1)
            if count <= sizes[s]:  # take all
                for i in range(count):
                    places[end + i] = starts[b, s] + i
            else:
                state = row_key(key, centers[b] * num_strata + s)
                draw_places(state, degrees[b, s], count, moved, touched, places[end:])
                for i in range(count):
                    places[end + i] += starts[b, s]
            end += count

    for i in range(end):
        block_links[i, 0] = links[places[i], 0]
        block_links[i, 1] = links[places[i], 1]

    end = 0
    for b in range(len(centers)):
        slot = 0
        for s in range(num_strata):
            count = min(degrees[b, s], sizes[s] + 1)
            taken = take_others(
                block_links, end, end + count, partners[b], sizes[s], edges[b], neighbors[b], slot
            )
            end += count
            while taken < sizes[s] and count < degrees[b, s]:  # several edges lead to the partner
                count = min(degrees[b, s], 4 * count)
                more = np.empty(count, np.int64)
                state = row_key(key, centers[b] * num_strata + s)
                draw_places(state, degrees[b, s], count, moved, touched, more)
                drawn = links[starts[b, s] + more]
                taken = take_others(
                    drawn, 0, count, partners[b], sizes[s], edges[b], neighbors[b], slot
                )
            slot += sizes[s]


@njit(cache=True, nogil=True, inline="always")
def take_others(drawn, start, stop, partner, size, edges, neighbors, slot):
    """Copy the first `size` links that do not lead to the partner; returns their number."""
    taken = 0
    for i in range(start, stop):
        if drawn[i, 1] != partner and taken < size:
            edges[slot + taken] = drawn[i, 0]
            neighbors[slot + taken] = drawn[i, 1]
            taken += 1
    return taken


@njit(cache=True, nogil=True)
def draw_places(state, degree, count, moved, touched, places):
    """Draw `count` of the positions 0..degree-1 without replacement.

    Few of many are drawn by rejecting repeats; otherwise by a partial Fisher-Yates shuffle, in
    which `moved[i]` is the value swapped to i, or -1 (restored at the end). A position is the
    upper half of a random number times the range, with a bias below degree / 2^32.
    """
    if degree > 2 * count and count <= 32:
        drawn = 0
        while drawn < count:
            state += GOLDEN
            place = np.int64(((mix(state) >> np.uint64(32)) * np.uint64(degree)) >> np.uint64(32))
            is_new = True
            for i in range(drawn):
                is_new &= places[i] != place
            if is_new:
                places[drawn] = place
                drawn += 1
        return
    for drawn in range(count):
        state += GOLDEN
        spread = np.uint64(degree - drawn)
        other = drawn + np.int64(((mix(state) >> np.uint64(32)) * spread) >> np.uint64(32))
        places[drawn] = moved[other] if moved[other] >= 0 else other
        moved[other] = moved[drawn] if moved[drawn] >= 0 else drawn
        touched[drawn] = other
    for i in range(count):
        moved[touched[i]] = -1


@njit(cache=True, nogil=True, inline="always")
def row_key(key, row):
    return mix(key ^ mix(np.uint64(row) * GOLDEN + GOLDEN))
