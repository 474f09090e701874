"""Document frequencies: the number of texts that contain each token."""

import numpy as np

from edgeformers.data.tokens import TokenStore
from edgeformers.data.types import Ids


def count_documents(
    tokens: TokenStore, edge_ids: Ids, max_tokens: int, *, chunk: int = 65_536
) -> Ids:
    """The number of texts, truncated as in a batch, that contain each token [vocabulary].

    Special tokens, which every text has, count as 0.
    """
    counts = np.zeros(tokens.vocab_size, np.int64)
    for start in range(0, len(edge_ids), chunk):
        ids, offsets = tokens.take(edge_ids[start : start + chunk], max_tokens)
        text = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        cells = np.unique(text * tokens.vocab_size + ids)
        counts += np.bincount(cells % tokens.vocab_size, minlength=tokens.vocab_size)
    counts[[*tokens.meta.prefix, *tokens.meta.suffix]] = 0
    return counts
