"""Columns as arrays: categories, numbers, times, and labels of every kind."""

from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data import columns
from edgeformers.data.arrays import open_array, save_array
from edgeformers.data.columns import (
    CategoryEncoder,
    EdgeColumnWriter,
    NodeLabelWriter,
    natural_order,
    recode,
    write_classes,
    write_label_sets,
)
from edgeformers.data.splits import NO_TIME
from edgeformers.data.table import edge_schema, rows_to_batches
from edgeformers.errors import InputError


@given(st.lists(st.lists(st.sampled_from([None, "", "a", "b", "ä", "1"])), max_size=5))
def test_categories_are_numbered_in_order_of_appearance(batches):
    encoder = CategoryEncoder("label")
    coded = [encoder.encode(pa.array(batch, pa.string())) for batch in batches]
    seen = list(dict.fromkeys(w for batch in batches for w in batch if w is not None))
    assert encoder.categories == seen
    for batch, codes in zip(batches, coded, strict=True):
        assert codes.dtype == np.int32
        assert codes.tolist() == [-1 if word is None else seen.index(word) for word in batch]


def test_too_many_categories_are_an_error(tmp_path):
    encoder = CategoryEncoder("label", limit=3)
    encoder.encode(pa.array(["a", "b", "c", "a"]))
    with pytest.raises(InputError, match=r"'a' and 'd'.*--label-kind"):
        encoder.encode(pa.array(["d"]))
    titles = pa.array([[f"title {i}"] for i in range(10_001)])
    with NodeLabelWriter(tmp_path) as labels, pytest.raises(InputError, match="node label"):
        labels.append(titles)
    label_set = "|".join(map(str, range(1001)))
    with pytest.raises(InputError, match="1,001"):
        write_label_sets(tmp_path / "labels.npy", tmp_path / "codes.npy", [label_set], "|")


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


def test_classes_are_coded_in_their_natural_order(tmp_path):
    save_array(tmp_path / "codes.npy", np.array([0, 1, -1, 2, 0], np.int32))
    names = write_classes(tmp_path / "labels.npy", tmp_path / "codes.npy", ["10", "9", "1"])
    assert names == ["1", "9", "10"]
    labels = open_array(tmp_path / "labels.npy")
    assert labels.dtype == np.int16
    assert labels.tolist() == [2, 1, -1, 0, 2]
    assert not (tmp_path / "codes.npy").exists()


def test_label_sets_are_rows_of_a_table(tmp_path):
    save_array(tmp_path / "codes.npy", np.array([1, -1, 0, 2], np.int32))
    words = ["b|a", " c ", "|a|a"]
    names = write_label_sets(tmp_path / "labels.npy", tmp_path / "codes.npy", words, "|")
    assert names == ["a", "b", "c"]
    sets = open_array(tmp_path / "labels.npy")
    assert sets.tolist() == [
        [False, False, True],
        [False, False, False],
        [True, True, False],
        [True, False, False],
    ]


@given(st.lists(st.integers(-1, 2)), st.integers(1, 9))
def test_codes_are_recoded_in_chunks(tmp_path_factory, codes, chunk):
    folder = tmp_path_factory.mktemp("codes")
    values = np.array([[1, 2], [3, 4], [5, 6], [0, 0]], np.int16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "CHUNK", chunk)
        save_array(folder / "in.npy", np.array(codes, np.int32))
        recode(folder / "in.npy", folder / "out.npy", values)
    assert open_array(folder / "out.npy").tolist() == values[codes].tolist()


def write(folder, rows, kind="class"):
    schema = edge_schema(rows[0])
    with EdgeColumnWriter(folder, schema, kind) as writer:
        for batch in rows_to_batches(rows, schema, size=2):
            writer.append(batch)
    return writer


def test_every_column_has_its_array(tmp_path):
    new_year = datetime(2023, 1, 1)
    rows = [
        {"source": "a", "target": "b", "text": "äö", "time": new_year, "weight": 0.5},
        {"source": "a", "target": "b", "text": "", "time": None, "weight": None},
        {"source": "a", "target": "b", "text": "\U0001f600", "time": datetime(1960, 1, 1)},
    ]
    writer = write(tmp_path, rows)
    assert writer.rows == 3
    assert open_array(tmp_path / "text_lengths.npy").tolist() == [2, 0, 1]
    times = open_array(tmp_path / "time.npy")
    assert times[0] == np.datetime64(new_year, "us").astype(int)
    assert times[1] == NO_TIME
    assert times[2] < 0
    assert np.array_equal(
        open_array(tmp_path / "weight.npy"), [0.5, np.nan, np.nan], equal_nan=True
    )


def test_numeric_labels_are_stored_as_numbers(tmp_path):
    labels = ["1.5", None, " -2e3 "]
    rows = [{"source": "a", "target": "b", "text": "", "label": label} for label in labels]
    write(tmp_path, rows, "number")
    numbers = open_array(tmp_path / "label.npy")
    assert numbers.dtype == np.float32
    assert np.array_equal(numbers, [1.5, np.nan, -2000], equal_nan=True)


def test_a_number_beyond_float32_is_an_error(tmp_path):
    rows = [{"source": "a", "target": "b", "text": "", "weight": w} for w in (1.0, 2.0, -1e300)]
    with pytest.raises(InputError, match="edge 3: the weight"):
        write(tmp_path, rows)


labels_of_nodes = st.lists(
    st.none() | st.lists(st.sampled_from(["x", "10", "9", None]), max_size=3), max_size=8
)


@given(st.lists(labels_of_nodes, max_size=4))
def test_node_labels_round_trip_whatever_the_batches(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("nodes")
    with NodeLabelWriter(folder) as labels:
        for batch in batches:
            labels.append(pa.array(batch, pa.list_(pa.string())))
    names = labels.finish()
    expected = [[name for name in node or [] if name] for batch in batches for node in batch]
    assert names == natural_order(list({name for node in expected for name in node}))
    if names:
        offsets = open_array(folder / "node_labels.offsets.npy")
        codes = open_array(folder / "node_labels.codes.npy")
        stored = [[names[code] for code in codes[a:b]] for a, b in pairwise(offsets)]
        assert stored == expected
    else:
        assert not list(folder.iterdir())
