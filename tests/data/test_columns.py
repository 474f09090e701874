"""Columns as arrays: categories, numbers, times, and labels of every kind."""

from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeformers.data import columns
from edgeformers.data.columns import CategoryEncoder, natural_order, write_label_sets
from edgeformers.data.splits import NO_TIME
from edgeformers.data.storage import open_array
from edgeformers.data.table import rows_to_batches
from edgeformers.errors import InputError


@given(st.lists(st.lists(st.sampled_from([None, "", "a", "b", "ä", "1"])), max_size=5))
def test_categories_are_numbered_in_order_of_appearance(batches):
    encoder = CategoryEncoder("label")
    coded = [encoder.encode(pa.array(batch, pa.string())) for batch in batches]
    seen = list(dict.fromkeys(w for batch in batches for w in batch if w is not None))
    assert list(encoder.codes) == seen
    for batch, codes in zip(batches, coded, strict=True):
        assert codes.dtype == np.int32
        assert codes.tolist() == [-1 if word is None else seen.index(word) for word in batch]


def test_too_many_categories_are_an_error(tmp_path, make_network, make_nodes):
    encoder = CategoryEncoder("label", limit=3)
    encoder.encode(pa.array(["a", "b", "c", "a"]))
    with pytest.raises(InputError, match=r"'a' and 'd'.*label_kind="):
        encoder.encode(pa.array(["d"]))
    titles = [{"id": "ann", "labels": [f"title {i}" for i in range(10_001)]}]
    with pytest.raises(InputError, match="node label"):
        make_network(nodes=[make_nodes(titles)])
    label_set = "|".join(map(str, range(1001)))
    with pytest.raises(InputError, match="1,001"):
        write_label_sets(tmp_path / "labels.npy", np.zeros(1, np.int32), [label_set], "|")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["10", "9", "1"], ["1", "9", "10"]),
        (["-1", "2.5", "1e3", "0"], ["-1", "0", "2.5", "1e3"]),
        (["10", "9", "few"], ["10", "9", "few"]),
        (["b", "a"], ["a", "b"]),
        (["3", "nan", "1"], ["1", "3", "nan"]),
        (["inf", "2"], ["2", "inf"]),
        ([], []),
    ],
)
def test_class_names_are_in_natural_order(words, expected):
    assert natural_order(words) == expected


@given(st.permutations(["1", "1.0", "01", "nan", "inf", "2"]))
def test_natural_order_does_not_depend_on_appearance(words):
    assert natural_order(words) == natural_order(sorted(words))
    numbers = [word for word in words if word not in ("nan", "inf")]
    assert natural_order(numbers) == ["01", "1", "1.0", "2"]


def test_classes_are_coded_in_their_natural_order():
    encoder = CategoryEncoder("label")
    codes = encoder.encode(pa.array(["10", "9", None, "1", "10"]))
    names, labels = encoder.sort(codes, np.int16)
    assert names == ["1", "9", "10"]
    assert labels.dtype == np.int16
    assert labels.tolist() == [2, 1, -1, 0, 2]


@given(st.lists(st.integers(-1, 2)), st.integers(1, 9))
def test_label_sets_are_rows_of_a_table(tmp_path_factory, codes, chunk):
    path = tmp_path_factory.mktemp("sets") / "labels.npy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "CHUNK", chunk)
        names = write_label_sets(path, np.array(codes, np.int32), ["b|a", " c ", "|a|a"], "|")
    assert names == ["a", "b", "c"]
    sets = [[True, True, False], [False, False, True], [True, False, False], [False] * 3]
    assert open_array(path).tolist() == [sets[code] for code in codes]


def test_label_sets_may_all_be_empty(tmp_path):
    path = tmp_path / "labels.npy"
    assert write_label_sets(path, np.array([0, -1], np.int32), [" | "], "|") == []
    assert open_array(path).shape == (2, 0)


def edges(**columns):
    """Rows of edges between two nodes, with the given columns."""
    rows = zip(*columns.values(), strict=True)
    return [
        {"source": "a", "target": "b", "text": "", **dict(zip(columns, r, strict=True))}
        for r in rows
    ]


def test_every_column_has_its_array(make_network):
    new_year = datetime(2023, 1, 1)
    times, weights = [new_year, None, datetime(1960, 1, 1)], [0.5, None, None]
    texts = ["äö", "", "\U0001f600"]
    graph = make_network(edges(text=texts, time=times, weight=weights))
    assert graph.text_lengths.tolist() == [2, 0, 1]
    assert graph.times[0] == np.datetime64(new_year, "us").astype(int)
    assert graph.times[1] == NO_TIME
    assert graph.times[2] < 0
    assert np.array_equal(graph.weights, [0.5, np.nan, np.nan], equal_nan=True)


def test_numeric_labels_are_stored_as_numbers(make_network):
    graph = make_network(edges(label=["1.5", None, " -2e3 "]), label_kind="number")
    assert graph.labels.dtype == np.float32
    assert np.array_equal(graph.labels, [1.5, np.nan, -2000], equal_nan=True)


def test_a_number_beyond_float32_is_an_error(make_network):
    with pytest.raises(InputError, match="edge 3: the weight"):
        make_network(edges(weight=[1.0, 2.0, -1e300]))


labels_of_nodes = st.lists(
    st.none() | st.lists(st.sampled_from(["x", "10", "9", None]), max_size=3), max_size=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(labels_of_nodes, max_size=4))
def test_node_labels_round_trip_whatever_the_batches(make_network, make_nodes, batches):
    rows = [[{"labels": labels} for labels in batch] for batch in batches]
    for number, row in enumerate(row for batch in rows for row in batch):
        row["id"] = f"n{number}"
    nodes = make_nodes([])
    nodes = replace(
        nodes,
        open=lambda: (b for batch in rows for b in rows_to_batches(batch, nodes.schema)),
    )
    ids = [row["id"] for batch in rows for row in batch] or ["n0"]
    graph = make_network(
        [{"source": id, "target": id, "text": ""} for id in ids],
        nodes=[nodes],
        bipartite=False,
        overwrite=True,
    )
    expected = [[name for name in node or [] if name] for batch in batches for node in batch]
    names = graph.node_label_names
    assert names == natural_order(list({name for node in expected for name in node}))
    if names:
        offsets, codes = graph.node_labels
        stored = [[names[code] for code in codes[a:b]] for a, b in pairwise(offsets)]
        assert stored == expected
    else:
        assert graph.node_labels is None
        assert not list(graph.path.glob("node_labels*"))
