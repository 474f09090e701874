"""Language models on the edges of networks: Edgeformer-E and Edgeformer-N."""

__version__ = "0.1.0"
