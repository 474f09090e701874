"""Counter-based random numbers: each number is a hash of (seed, streams...).

Unlike numpy's generators, which draw in sequence and may change between versions, a seed always
gives the same numbers, in any order and for any part of a table. Not for cryptography.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.types import Ids
from edgeformers.errors import InputError

FEISTEL_ROUNDS = 4

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def splitmix64(x: ArrayLike) -> NDArray[np.uint64]:
    """The first output of the splitmix64 generator at state x, for every x; a bijection.

    The reference sequence of a seed is `splitmix64(seed + i * 0x9E3779B97F4A7C15)` (mod 2^64)
    for i = 0, 1, 2, ... (Steele, Lea and Flood, OOPSLA 2014; Vigna's public-domain C code).
    """
    state = _as_uint64(x)
    z = np.array(state, ndmin=1)  # a copy, modified in place
    z += _GOLDEN
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z.reshape(state.shape)


def hash_keys(seed: int, *streams: ArrayLike) -> NDArray[np.uint64]:
    """One 64-bit key per entry of the streams, which are broadcast against each other.

    A stream is an integer or an array of integers: a constant for the purpose, edge numbers, node
    numbers. Their order matters: (1, 2) and (2, 1) give unrelated keys. Distinct entries of one
    array have distinct keys if the other streams are constants.
    """
    if not 0 <= seed < 2**64:
        raise InputError(f"seed must be an integer from 0 to 2**64 - 1 (got {seed})")
    keys = splitmix64(seed)
    for stream in streams:
        keys = splitmix64(keys ^ _as_uint64(stream))
    return keys


def permute(index: Ids, count: int, seed: int, *streams: int) -> Ids:
    """The places of some numbers below `count` in a random permutation of all of them.

    A Feistel network permutes the numbers of an even number of bits; a result that is not below
    `count` is permuted again. Nothing of the size of the permutation is stored.
    """
    half = np.uint64(max(1, -(-(count - 1).bit_length() // 2)))
    mask = (np.uint64(1) << half) - np.uint64(1)
    result = _as_uint64(index).copy()
    todo = np.arange(len(result))
    while len(todo):
        left, right = result[todo] >> half, result[todo] & mask
        for round_ in range(FEISTEL_ROUNDS):
            left, right = right, left ^ (hash_keys(seed, *streams, round_, right) & mask)
        result[todo] = left << half | right
        todo = todo[result[todo] >= count]
    return result.astype(np.int64)


def uniform(keys: ArrayLike) -> NDArray[np.float64]:
    """Keys as numbers in [0, 1), from their upper 53 bits."""
    return (_as_uint64(keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _as_uint64(x: ArrayLike) -> NDArray[np.uint64]:
    """Integers modulo 2^64; other types are errors, because they would be hashed wrongly."""
    array = np.asarray(x)
    if array.size and array.dtype.kind not in "iub":
        raise InputError(f"random keys are made of integers (got {array.dtype} values)")
    return array.astype(np.uint64, copy=False)
