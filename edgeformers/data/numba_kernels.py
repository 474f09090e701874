"""Inner loops over nodes, edges and tokens, which `jit` runs as Python or compiles by numba."""

import numpy as np

from edgeformers.data.jit import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BLOCK = 1024  # centers sampled together
MOST_DRAWS = 64  # per sampled edge, if nearly all edges of a node lead to its partner


@njit(cache=True, nogil=True)
def group_edges(src, dst, at_src, at_dst, strata, num_strata, cursor, links):
    """Write edge and neighbor of each kept end at the cursor of its row of `links`, and move on.

    With empty `links` this counts. Empty masks keep all, empty strata mean a single one.
    """
    for e in range(len(src)):
        s = strata[e] if len(strata) else 0
        if s < 0:
            continue
        if not len(at_src) or at_src[e]:
            row = np.int64(src[e]) * num_strata + s
            if len(links):
                links[cursor[row], 0] = e
                links[cursor[row], 1] = dst[e]
            cursor[row] += 1
        if src[e] != dst[e] and (not len(at_dst) or at_dst[e]):
            row = np.int64(dst[e]) * num_strata + s
            if len(links):
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
def rank_in_groups(group, keys, indptr, ranks):
    """The rank of each row by key among the rows of its group; ties keep the order of rows."""
    rows = np.empty(len(group), np.int64)
    cursor = indptr[:-1].copy()
    for i in range(len(group)):
        rows[cursor[group[i]]] = i
        cursor[group[i]] += 1
    for g in range(len(indptr) - 1):
        members = rows[indptr[g] : indptr[g + 1]]
        order = np.argsort(keys[members], kind="mergesort")
        for rank in range(len(members)):
            ranks[members[order[rank]]] = rank


@njit(cache=True, nogil=True)
def rows_of_groups(group, indptr, first, last):
    """The rows of the groups from `first` up to `last`, group by group, each in its order."""
    rows = np.empty(indptr[last] - indptr[first], np.int64)
    cursor = indptr[first:last] - indptr[first]
    for i in range(len(group)):
        g = group[i] - first
        if 0 <= g < len(cursor):
            rows[cursor[g]] = i
            cursor[g] += 1
    return rows


@njit(cache=True, nogil=True)
def cut_groups(rows, keys, indptr, ends, codes):
    """Count, for each row, the ends (as shares of its group) that its rank by key has reached.

    Ties keep the order of rows. Group g is `rows[indptr[g] : indptr[g + 1]]`.
    """
    for g in range(len(indptr) - 1):
        members = rows[indptr[g] : indptr[g + 1]]
        order = np.argsort(keys[indptr[g] : indptr[g + 1]], kind="mergesort")
        for rank in range(len(members)):
            for end in ends:
                if rank >= np.floor(end * len(members)):
                    codes[members[order[rank]]] += 1


@njit(cache=True, nogil=True, inline="always")
def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def hash_strings(data, offsets):
    """A 64-bit hash of each string `data[offsets[i] : offsets[i + 1]]` (FNV-1a, then mixed)."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(hashes)):
        h = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        hashes[i] = mix(h)
    return hashes


@njit(cache=True, nogil=True)
def find_strings(data, offsets, hashes, slots, known, ends, stored, count, grow, numbers):
    """Find strings in a hash table of `count` entries; returns the number of entries after.

    Entry n has the hash `known[n]` and the bytes `stored[ends[n] : ends[n + 1]]`; `slots` contains
    entry numbers (-1: empty). An unknown string is added if `grow`, else its number is -1.
    """
    last = np.uint64(len(slots) - 1)
    for i in range(len(hashes)):
        start, size = np.int64(offsets[i]), np.int64(offsets[i + 1] - offsets[i])
        slot = hashes[i] & last
        while True:
            entry = slots[slot]
            if entry < 0 or (
                known[entry] == hashes[i]
                and ends[entry + 1] - ends[entry] == size
                and is_equal(data, start, stored, ends[entry], size)
            ):
                break
            slot = (slot + np.uint64(1)) & last
        if entry < 0 and grow:
            entry = np.int32(count)
            slots[slot] = entry
            known[entry] = hashes[i]
            ends[entry + 1] = ends[entry] + size
            for j in range(size):
                stored[ends[entry] + j] = data[start + j]
            count += 1
        numbers[i] = entry
    return count


@njit(cache=True, nogil=True)
def place_entries(hashes, slots):
    """Fill the empty slots of a hash table with the numbers of its entries."""
    last = np.uint64(len(slots) - 1)
    for entry in range(len(hashes)):
        slot = hashes[entry] & last
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = entry


@njit(cache=True, nogil=True, inline="always")
def is_equal(first, i, second, j, size):
    k = 0
    while k < size and first[i + k] == second[j + k]:
        k += 1
    return k == size


@njit(cache=True, nogil=True)
def draw_neighborhoods(
    indptr, links, centers, partners, sizes, key, edges, neighbors, moved, touched, times, before
):
    """Sample `sizes[s]` edges of each center in each stratum s, excluding those to its partner.

    With `times` of the links, which ascend within a row, only edges earlier than `before` [B]; both
    may be empty.

    Centers are processed in blocks whose working memory fits into the CPU cache, in passes of
    independent reads, so that cache misses overlap: find the rows, draw positions (one extra,
    because usually one edge leads to the partner), and read the links. Then exclude partners.
    """
    num_strata = len(sizes)
    starts = np.empty((BLOCK, num_strata), np.int64)
    degrees = np.empty((BLOCK, num_strata), np.int64)
    places = np.empty(BLOCK * (sizes.sum() + num_strata), np.int64)
    block_links = np.empty((len(places), 2), links.dtype)
    for first in range(0, len(centers), BLOCK):
        last = min(first + BLOCK, len(centers))
        for b, center in enumerate(centers[first:last]):
            row = center * num_strata
            for s in range(num_strata):
                starts[b, s] = indptr[row + s]
                degrees[b, s] = indptr[row + s + 1] - indptr[row + s]
        count_earlier(times, starts, degrees, before[first:last])

        end = 0
        for b, center in enumerate(centers[first:last]):
            for s in range(num_strata):
                count = min(degrees[b, s], sizes[s] + 1)
                if count <= sizes[s]:  # take all
                    for i in range(count):
                        places[end + i] = starts[b, s] + i
                else:
                    state = row_key(key, center * num_strata + s)
                    into = places[end:]
                    draw_places(state, starts[b, s], degrees[b, s], count, moved, touched, into)
                end += count

        for i in range(end):
            block_links[i, 0] = links[places[i], 0]
            block_links[i, 1] = links[places[i], 1]

        end = 0
        for b, center in enumerate(centers[first:last]):
            partner, own_edges, own_neighbors = (
                partners[first + b],
                edges[first + b],
                neighbors[first + b],
            )
            slot = 0
            for s in range(num_strata):
                count = min(degrees[b, s], sizes[s] + 1)
                taken = take_others(
                    block_links, end, end + count, partner, sizes[s], own_edges, own_neighbors, slot
                )
                end += count
                most = min(degrees[b, s], MOST_DRAWS * (sizes[s] + 1))
                while taken < sizes[s] and count < most:  # several lead to the partner
                    count = min(most, 4 * count)
                    more = np.empty(count, np.int64)
                    state = row_key(key, center * num_strata + s)
                    draw_places(state, starts[b, s], degrees[b, s], count, moved, touched, more)
                    taken = take_others(
                        links[more], 0, count, partner, sizes[s], own_edges, own_neighbors, slot
                    )
                slot += sizes[s]


@njit(cache=True, nogil=True)
def count_earlier(times, starts, degrees, before):
    """Lower the degrees [B, S] to the number of links earlier than `before` [B], by bisection."""
    for b in range(len(before)):
        for s in range(degrees.shape[1]):
            low, high = starts[b, s], starts[b, s] + degrees[b, s]
            while low < high:
                middle = (low + high) >> 1
                if times[middle] < before[b]:
                    low = middle + 1
                else:
                    high = middle
            degrees[b, s] = low - starts[b, s]


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
def draw_places(state, start, degree, count, moved, touched, places):
    """Draw `count` of the `degree` positions from `start` on without replacement.

    Few of many are drawn by rejecting repeats; otherwise by a partial Fisher-Yates shuffle, in
    which `moved[i]` is the value swapped to i, or -1 (restored at the end). A position is the
    upper half of a random number times the range, with a bias below degree / 2^32.
    """
    if degree > 2 * count and count <= 32:
        drawn = 0
        while drawn < count:
            state += GOLDEN
            draw = ((mix(state) >> np.uint64(32)) * np.uint64(degree)) >> np.uint64(32)
            place = start + np.int64(draw)
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
        places[drawn] = start + (moved[other] if moved[other] >= 0 else other)
        moved[other] = moved[drawn] if moved[drawn] >= 0 else drawn
        touched[drawn] = other
    for i in range(count):
        moved[touched[i]] = -1


@njit(cache=True, nogil=True, inline="always")
def row_key(key, row):
    return mix(key ^ mix(np.uint64(row) * GOLDEN + GOLDEN))
