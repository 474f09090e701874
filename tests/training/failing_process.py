"""Run in two processes: rank 1 fails while rank 0 waits for it."""

import sys

from edgeformers import distributed

distributed.initialize()
if distributed.rank() == 1:
    sys.exit("rank 1 failed")
distributed.all_sum(1.0)
