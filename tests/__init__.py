"""The test suite, whose processes have one thread each: it runs one process per core."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are imported
