"""Neural network modules: text encoders, attention with virtual tokens, node tables, pooling."""
