"""Hostile inputs in large numbers; each module has `cases(seed)` and `run(case)`."""
