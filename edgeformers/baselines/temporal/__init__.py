"""Temporal baselines: models of when nodes are active."""
