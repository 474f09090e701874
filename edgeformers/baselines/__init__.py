"""Baselines, by family: text, graph, collaborative and temporal. None imports another."""
