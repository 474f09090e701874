"""Random tables of edges that every test of the package uses."""

from datetime import datetime

from hypothesis import strategies as st

from edgeformers.data.table import EdgeTable

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3)
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LABELS = st.none() | st.sampled_from(["1", "2", "01", "good"])
TIMES = st.none() | st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1))
WEIGHTS = st.none() | st.floats(allow_nan=False, width=32)
TYPES = st.sampled_from(["wrote", "read", "7"])
EDGES = st.lists(st.tuples(IDS, IDS, TEXTS, LABELS, TIMES, TYPES, WEIGHTS), max_size=8)
NAMES = ["source", "target", "text", "label", "time", "edge_type", "weight"]
NODES = st.integers(0, 5)


def make_table(edges, *, bipartite=False, directed=True, fields=NAMES) -> EdgeTable:
    rows = [dict(zip(NAMES, edge, strict=False)) for edge in edges]
    return EdgeTable.from_rows(
        lambda: rows, fields=fields, origin="a test", bipartite=bipartite, directed=directed
    )


def rows(table):
    return table.to_arrow().to_pylist()
