"""Graph baselines: models that pass messages along edges."""
