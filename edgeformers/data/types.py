"""Type aliases that the whole package shares."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Side = Literal["source", "target"]  # of an edge

Ids = NDArray[np.int64]  # node or edge numbers
Ints = NDArray[np.int64]
IntArray = NDArray[np.integer]  # int32 or int64, the smaller one that suffices
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SplitCodes = NDArray[np.uint8]  # the part of each edge: see edgeformers.data.splits
