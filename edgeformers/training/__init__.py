"""Training: the loop, what it optimizes, and how it survives interruption."""
