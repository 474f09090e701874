"""Counter-based random numbers: what is drawn for a key depends on nothing but that key.

numpy may change its generators between versions, and they draw in sequence. Here a number is a
hash of (seed, streams...), so that a seed means the same for ever, any part of a large table can
be drawn alone, and the order of drawing is irrelevant. Not for secrets.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.errors import InputError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def splitmix64(x: ArrayLike) -> NDArray[np.uint64]:
    """The first output of the splitmix64 generator at state x, for every x; a bijection.

    The reference sequence of a seed is `splitmix64(seed + i * 0x9E3779B97F4A7C15)` (mod 2^64)
    for i = 0, 1, 2, ... (Steele, Lea and Flood, OOPSLA 2014; Vigna's public-domain C code).
    """
    state = _as_uint64(x)
    z = np.array(state, ndmin=1)  # an owned copy: the steps below work in place
    z += _GOLDEN
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z.reshape(state.shape)


def hash_keys(seed: int, *streams: ArrayLike) -> NDArray[np.uint64]:
    """One 64-bit key per entry of the streams, broadcast against each other.

    A stream is a whole number or an array of them: a constant that names what is drawn, an edge
    number, a node number. Their order counts: (1, 2) and (2, 1) give unrelated keys. The keys
    of one array are distinct where its entries are and the other streams are constants.
    """
    if not 0 <= seed < 2**64:
        raise InputError(f"seed must be a whole number from 0 to 2**64 - 1 (got {seed})")
    keys = splitmix64(seed)
    for stream in streams:
        keys = splitmix64(keys ^ _as_uint64(stream))
    return keys


def uniform(keys: ArrayLike) -> NDArray[np.float64]:
    """Keys as numbers in [0, 1): their upper 53 bits, so that each is exact and 1 never comes."""
    return (_as_uint64(keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _as_uint64(x: ArrayLike) -> NDArray[np.uint64]:
    """Whole numbers modulo 2^64; anything else would hash to something silently wrong."""
    array = np.asarray(x)
    if array.size and array.dtype.kind not in "iub":
        raise InputError(f"random keys are made of whole numbers (got {array.dtype} values)")
    return array.astype(np.uint64, copy=False)
