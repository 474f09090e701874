import gzip
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from edgeformers.data.readers.sources import ParquetSource
from edgeformers.data.readers.tables import read_edges
from edgeformers.errors import InputError
from tests.data.readers.table_files import (
    HEADER,
    INTACT,
    QUIET,
    WRITERS,
    as_parquet,
    error_of,
    rows,
    save,
    tables,
    zstd,
)


@QUIET
@given(table=tables)
def test_any_frame_is_read_exactly(table):
    columns = dict(
        zip(("source", "target", "text"), map(list, zip(*table, strict=True)), strict=True)
    )
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pl.LazyFrame(columns)):
        assert rows(read_edges(frame)) == table
    arrow = pa.table(columns)
    assert rows(read_edges(arrow)) == rows(read_edges(arrow.to_batches()[0])) == table


@pytest.mark.parametrize("name", ["a[1].csv", "source=x,text=y.csv", "it's {a}.csv", "a*.csv"])
def test_any_file_name_works(tmp_path, name):
    (tmp_path / "source=z").mkdir()
    path = save(tmp_path / "source=z", HEADER + b"a,b,c\n", name)
    assert rows(read_edges(path)) == [("a", "b", "c")]


@pytest.mark.parametrize("name", ["a.csv", "e.jsonl"])
def test_a_text_too_long_for_duckdb_is_read(tmp_path, name):
    table = [("a", "b", "c"), ("d", "e", "x" * (5 << 20)), ("f", "g", "h")]
    assert rows(read_edges(save(tmp_path, WRITERS[name](table), name))) == table


DAMAGED = bytearray(as_parquet([("a", "b", "c" * 500)] * 50))
DAMAGED[20:60] = b"\xff" * 40


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.xlsx", b"x", "suffix; .*`format=`"),
        ("edges.parquet", b"something else", "edges.parquet .*not a Parquet file"),
        ("edges.parquet", bytes(DAMAGED), "edges.parquet is damaged"),
        ("edges.parquet", as_parquet(INTACT).replace(b"text", b"te\xff\xfe"), "is damaged"),
        ("edges.parquet.gz", gzip.compress(b"x", mtime=0), "unpack"),
        ("edges.csv", gzip.compress(b"x", mtime=0), "compressed with gzip"),
        ("edges.csv.gz", gzip.compress(HEADER * 99, mtime=0)[:-9], "damaged after line"),
        ("edges.jsonl.zst", zstd(b'{"a": 1}\n' * 99)[:-3], "damaged after line"),
    ],
)
def test_a_file_of_another_kind_is_reported(tmp_path, name, content, message):
    assert re.search(message, error_of(save(tmp_path, content, name)))


def test_what_is_wrong_with_a_frame_is_reported():
    edge = {"source": ["a"], "target": ["b"], "text": ["c"]}
    names = ["source", "target", "text", "text"]
    with pytest.raises(InputError, match="unique name"):
        read_edges(pd.DataFrame([["a", "b", "c", "d"]], columns=names))
    with pytest.raises(InputError, match="two columns 'text'"):
        read_edges(pa.table([["a"]] * 4, names=names))
    with pytest.raises(InputError, match="single type"):
        read_edges(pd.DataFrame({**edge, "odd": [object()]}))
    with pytest.raises(InputError, match=r"column 'text' \(text\) holds struct"):
        read_edges(pa.table({**edge, "text": [{"a": 1}]}))


def test_row_groups_of_a_parquet_file_are_not_kept_in_memory(tmp_path):
    numbers = np.random.default_rng(0).integers(2**60, size=2_000_000)
    pq.write_table(pa.table({"a": numbers}), tmp_path / "a.parquet", row_group_size=50_000)
    before = pa.total_allocated_bytes()
    used = [
        pa.total_allocated_bytes() - before
        for _ in ParquetSource(tmp_path / "a.parquet").batches(["a"])
    ]
    assert len(used) == 40
    assert max(used) < numbers.nbytes / 3
