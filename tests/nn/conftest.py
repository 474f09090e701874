"""Small ragged batches that every test of the packed encoder uses, and Triton's interpreter."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from edgeformers.nn.packed import PackedText


@pytest.fixture
def make_text():
    """Texts of the given lengths, token ids 3 to 29, the same in every run."""

    def make(lengths) -> PackedText:
        generator = torch.Generator().manual_seed(0)
        return PackedText.from_lists(
            torch.randint(3, 30, (length,), generator=generator).tolist() for length in lengths
        )

    return make


@pytest.fixture
def text(make_text) -> PackedText:
    """Five texts, two of one length and one of a single token."""
    return make_text((5, 1, 9, 3, 9))


@pytest.fixture
def draw():
    """Normal numbers of a shape, the same in every run."""
    generator = torch.Generator().manual_seed(1)
    return lambda *shape: torch.randn(*shape, generator=generator)


@pytest.fixture
def interpret():
    """Run Python in a process in which Triton's kernels are interpreted, which needs no GPU."""
    if find_spec("triton") is None:
        pytest.skip("needs Triton")

    def run(*arguments: object) -> None:
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if "only 0-dimensional arrays can be converted" in said:
            pytest.skip("the interpreter of this Triton does not work with this numpy")
        assert done.returncode == 0, said

    return run
