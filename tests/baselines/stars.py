"""Small ego-graphs for the baselines of nodes, and a reader whose vectors are given."""

import torch
from torch import nn

from edgeformers.data.batch import EgoBatch
from edgeformers.nn.packed import PackedText

TEXTS = [[2, 5, 6, 3], [2], [2, 9, 9, 9, 9, 3], [2, 7, 3], [2, 5, 6, 3], [2, 8, 4, 3]]
COUNTS = (3, 0, 1, 2)
CENTERS = (0, 1, 2, -1)
NEIGHBORS = (3, 4, 4, 6, 5, -1)


def make_batch(center=CENTERS, counts=COUNTS, neighbor=NEIGHBORS, texts=TEXTS):
    """Four centers: with three edges, two of them to one neighbor; with none; one; and unknown."""
    return EgoBatch.from_counts(
        text=PackedText.from_lists(texts),
        center=torch.tensor(center, dtype=torch.long),
        counts=torch.tensor(counts, dtype=torch.long),
        neighbor=torch.tensor(neighbor, dtype=torch.long),
    )


class Given(nn.Module):
    """Reads every text as the vector that was given for it."""

    def __init__(self, rows):
        super().__init__()
        self.rows = torch.tensor(rows)
        self.width = self.rows.size(1)

    def encode(self, text):
        return self.rows[: text.num_texts]
