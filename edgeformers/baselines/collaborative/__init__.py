"""Collaborative baselines: models of who is linked to whom."""
