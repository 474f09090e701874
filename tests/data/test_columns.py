"""Columns as arrays: words, numbers, times, and labels of every kind."""

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
    ColumnArrays,
    NodeLabels,
    WordCodes,
    recode,
    sorted_words,
    write_classes,
    write_label_sets,
)
from edgeformers.data.splits import NO_TIME
from edgeformers.data.table import edge_schema, rows_to_batches
from edgeformers.errors import InputError


@given(st.lists(st.lists(st.sampled_from([None, "", "a", "b", "ä", "1"])), max_size=5))
def test_words_are_coded_as_they_appear(batches):
    words = WordCodes("label")
    coded = [words.encode(pa.array(batch, pa.string())) for batch in batches]
    seen = list(dict.fromkeys(w for batch in batches for w in batch if w is not None))
    assert words.words == seen
    for batch, codes in zip(batches, coded, strict=True):
        assert codes.dtype == np.int32
        assert codes.tolist() == [-1 if word is None else seen.index(word) for word in batch]


def test_too_many_classes_get_a_sentence_at_once():
    words = WordCodes("label", limit=3)
    words.encode(pa.array(["a", "b", "c", "a"]))
    with pytest.raises(
        InputError,
        match=r"the label has more than 3 different values, such as 'a' and 'd'; is it a number "
        r"\(--label-kind number\), or not a label at all\?",
    ):
        words.encode(pa.array(["d"]))


def test_too_many_labels_of_nodes_get_a_sentence_too(tmp_path):
    many = pa.array([[f"title {i}"] for i in range(10_001)])
    match = (
        "the node label has more than 10,000 different values, .*; is it not a node label at all"
    )
    with NodeLabels(tmp_path) as labels, pytest.raises(InputError, match=match):
        labels.append(many)


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
def test_class_names_have_a_natural_order(words, expected):
    assert sorted_words(words) == expected


@given(st.permutations(["1", "1.0", "01", "nan", "inf", "2"]))
def test_the_order_of_names_does_not_depend_on_their_appearance(words):
    assert sorted_words(words) == sorted_words(sorted(words))
    numbers = [word for word in words if word not in ("nan", "inf")]
    assert sorted_words(numbers) == ["01", "1", "1.0", "2"]


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


def test_too_many_labels_get_a_sentence(tmp_path):
    words = ["|".join(str(i) for i in range(1001))]
    match = "the labels have 1,001 different names, such as '0' and '1000'; 1,000 at most can be"
    with pytest.raises(InputError, match=match):
        write_label_sets(tmp_path / "labels.npy", tmp_path / "codes.npy", words, "|")


@given(st.lists(st.integers(-1, 2)), st.integers(1, 9))
def test_codes_are_translated_in_chunks(tmp_path_factory, codes, chunk):
    folder = tmp_path_factory.mktemp("codes")
    meaning = np.array([[1, 2], [3, 4], [5, 6], [0, 0]], np.int16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "CHUNK", chunk)
        save_array(folder / "in.npy", np.array(codes, np.int32))
        recode(folder / "in.npy", folder / "out.npy", meaning)
    assert open_array(folder / "out.npy").tolist() == meaning[codes].tolist()


def write(folder, rows, kind="class"):
    schema = edge_schema(rows[0])
    with ColumnArrays(folder, schema, kind) as written:
        for batch in rows_to_batches(rows, schema, size=2):
            written.append(batch)
    return written


def test_every_column_has_its_array(tmp_path):
    new_year = datetime(2023, 1, 1)
    rows = [
        {"source": "a", "target": "b", "text": "äö", "time": new_year, "weight": 0.5},
        {"source": "a", "target": "b", "text": "", "time": None, "weight": None},
        {"source": "a", "target": "b", "text": "\U0001f600", "time": datetime(1960, 1, 1)},
    ]
    written = write(tmp_path, rows)
    assert written.rows == 3
    assert open_array(tmp_path / "text_lengths.npy").tolist() == [2, 0, 1]
    times = open_array(tmp_path / "time.npy")
    assert times[0] == np.datetime64(new_year, "us").astype(int)
    assert times[1] == NO_TIME
    assert times[2] < 0
    assert np.array_equal(
        open_array(tmp_path / "weight.npy"), [0.5, np.nan, np.nan], equal_nan=True
    )


def test_labels_that_are_numbers_are_kept_as_numbers(tmp_path):
    labels = ["1.5", None, " -2e3 "]
    rows = [{"source": "a", "target": "b", "text": "", "label": label} for label in labels]
    write(tmp_path, rows, "number")
    numbers = open_array(tmp_path / "label.npy")
    assert numbers.dtype == np.float32
    assert np.array_equal(numbers, [1.5, np.nan, -2000], equal_nan=True)


def test_a_number_too_large_to_keep_is_named(tmp_path):
    rows = [{"source": "a", "target": "b", "text": "", "weight": w} for w in (1.0, 2.0, -1e300)]
    with pytest.raises(
        InputError, match=r"edge 3: the weight -1e\+300 is too large; numbers up to"
    ):
        write(tmp_path, rows)


labels_of_nodes = st.lists(
    st.none() | st.lists(st.sampled_from(["x", "10", "9", None]), max_size=3), max_size=8
)


@given(st.lists(labels_of_nodes, max_size=4))
def test_labels_of_nodes_come_back_whatever_the_batches(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("nodes")
    with NodeLabels(folder) as labels:
        for batch in batches:
            labels.append(pa.array(batch, pa.list_(pa.string())))
    names = labels.finish()
    expected = [[name for name in one or [] if name] for batch in batches for one in batch]
    assert names == sorted_words(list({name for one in expected for name in one}))
    if names:
        offsets = open_array(folder / "node_labels.offsets.npy")
        codes = open_array(folder / "node_labels.codes.npy")
        found = [[names[code] for code in codes[a:b]] for a, b in pairwise(offsets)]
        assert found == expected
    else:
        assert not list(folder.iterdir())
