"""Files are read in parallel, as on any machine with several cores."""

import pytest


@pytest.fixture(autouse=True)
def two_readers(monkeypatch):
    """Only our own reading: the libraries asked for the number of threads when imported."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
