"""Layers over packed text: attention, node tokens, pooling."""
