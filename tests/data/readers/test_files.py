import gzip
import re

import pyarrow as pa
import pytest

from edgeformers.data.readers.files import (
    compression_of,
    expand_paths,
    numbered_lines,
    open_binary,
    plain_suffix,
)
from edgeformers.errors import InputError


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


def lines(path, **options):
    return list(numbered_lines(path, **options))


def test_lines_are_numbered_from_one_without_their_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\nfour")
    assert lines(path) == [(1, b"one"), (2, b"two"), (3, b""), (4, b"four")]
    assert [line for _, line in lines(path, keep_ends=True)] == [
        b"one\r\n",
        b"two\n",
        b"\n",
        b"four",
    ]


def test_a_line_longer_than_a_chunk_stays_whole(tmp_path):
    path = tmp_path / "a.txt"
    long = b"x" * (3 << 20)
    path.write_bytes(b"a\n" + long + b"\nb\n")
    assert lines(path) == [(1, b"a"), (2, long), (3, b"b")]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd)])
def test_compressed_files_of_several_members_are_read_to_the_end(tmp_path, suffix, pack):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(pack(b"one\ntwo\n") + pack(b"three\n"))
    assert lines(path) == [(1, b"one"), (2, b"two"), (3, b"three")]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd)])
def test_a_compressed_file_cut_short_is_named(tmp_path, suffix, pack):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(pack(bytes(range(256)) * 500)[:-9])
    with pytest.raises(InputError, match=r"a\.txt.*breaks off after line .*; fetch it again"):
        lines(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", gzip.compress(b"x"), "compressed with gzip, which its name does not tell"),
        ("a.csv", zstd(b"x"), "rename it to end in .zst"),
        ("a.csv.zst", gzip.compress(b"x"), "rename it to end in .gz"),
        ("a.csv.gz", b"source,target\n", "not compressed with gzip, as its name says"),
        ("a.csv", b"BZh91AY", "compressed with bzip2; unpack it, or use gzip or zstd"),
        ("a.csv", b"PK\x03\x04....", "compressed with zip; unpack it"),
        ("a.csv", "source".encode("utf-16"), "is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
        ("a.csv", b"PAR1....", "is a Parquet file; rename it to end in .parquet"),
    ],
)
def test_a_file_that_belies_its_name_is_told_what_it_is(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(words)):
        open_binary(path)


def test_globs_are_expanded_in_the_order_of_names(tmp_path):
    for name in ("b.csv", "a.csv", "c.tsv"):
        (tmp_path / name).touch()
    assert [path.name for path in expand_paths(str(tmp_path / "*.csv"))] == ["a.csv", "b.csv"]
    both = expand_paths([tmp_path / "c.tsv", str(tmp_path / "a*")])
    assert [path.name for path in both] == ["c.tsv", "a.csv"]


def test_a_name_that_looks_like_a_glob_is_a_file_where_there_is_one(tmp_path):
    (tmp_path / "a[1].csv").touch()
    assert [path.name for path in expand_paths(tmp_path / "a[1].csv")] == ["a[1].csv"]


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none-\*\.csv: no such file; give a path or a quoted"):
        expand_paths(str(tmp_path / "none-*.csv"))
    with pytest.raises(InputError, match="no file is named"):
        expand_paths([])


def test_suffixes_are_told_below_a_compression(tmp_path):
    assert plain_suffix(tmp_path / "a.JSON.gz") == ".json"
    assert plain_suffix(tmp_path / "a.csv") == ".csv"
    assert compression_of(tmp_path / "a.csv.ZST") == "zstd"
    assert compression_of(tmp_path / "a.csv") == "none"
