"""Converts edge tables from and to networkx and PyG graphs, and from prepared networks."""

from edgeformers.data.interop.networkx import table_from_networkx, table_to_networkx
from edgeformers.data.interop.pyg import table_from_pyg, table_to_pyg
from edgeformers.data.interop.table import graph_table

__all__ = [
    "graph_table",
    "table_from_networkx",
    "table_from_pyg",
    "table_to_networkx",
    "table_to_pyg",
]
