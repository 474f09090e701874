"""`python -m edgeformers.cli`, which `torchrun -m` also takes."""

from edgeformers.cli import run

run()
