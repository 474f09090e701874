"""Edgeformer-E, Edgeformer-N and what they are compared with."""
