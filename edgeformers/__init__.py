"""Language models on the edges of networks: Edgeformer-E and Edgeformer-N."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: The public names and where they live; each is imported when it is first used, so that
#: `import edgeformers` is quick and needs no optional package.
_HOMES = {
    "read_edges": "edgeformers.data.readers.tables",
    "read_nodes": "edgeformers.data.readers.tables",
    "prepare": "edgeformers.data.prepare",
    "describe": "edgeformers.data.card.describe",
    "simulate": "edgeformers.data.simulate",
    "EdgeTextGraph": "edgeformers.data.graph",
    "EdgeformerE": "edgeformers.models.edgeformer_e",
    "EdgeformerN": "edgeformers.models.edgeformer_n",
    "load_authors_checkpoint": "edgeformers.models.authors",
    "EdgeClassifier": "edgeformers.estimators",
    "LinkPredictor": "edgeformers.estimators",
    "load": "edgeformers.estimators",
}

__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
    from edgeformers.data.card.describe import describe
    from edgeformers.data.graph import EdgeTextGraph
    from edgeformers.data.prepare import prepare
    from edgeformers.data.readers.tables import read_edges, read_nodes
    from edgeformers.data.simulate import simulate
    from edgeformers.estimators import EdgeClassifier, LinkPredictor, load
    from edgeformers.models.authors import load_authors_checkpoint
    from edgeformers.models.edgeformer_e import EdgeformerE
    from edgeformers.models.edgeformer_n import EdgeformerN


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'edgeformers' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
