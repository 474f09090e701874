"""Text baselines: models of the words, with or without node ids."""
