import gzip

import pyarrow as pa
import pytest

from edgeformers.data.readers.files import (
    compression_of,
    expand_paths,
    numbered_lines,
    open_binary,
    parse_lines,
    plain_suffix,
    read_head,
)
from edgeformers.data.table import RowErrors
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


def test_a_line_longer_than_a_chunk_is_one_line(tmp_path):
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
    with pytest.raises(InputError, match=r"a\.txt.*damaged after line"):
        lines(path)


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.csv", gzip.compress(b"x", mtime=0), "gzip"),
        ("a.csv", zstd(b"x"), ".zst"),
        ("a.csv.zst", gzip.compress(b"x", mtime=0), ".gz"),
        ("a.csv.gz", b"source,target\n", "gzip"),
        ("a.csv", b"BZh91AY", "bzip2"),
        ("a.csv", b"PK\x03\x04....", "zip"),
        ("a.csv", "source".encode("utf-16"), "UTF-16"),
        ("a.csv", "source".encode("utf-16-le"), "UTF-16"),
        ("a.csv", "source".encode("utf-16-be"), "UTF-16"),
        ("a.csv", b"PAR1....", "Parquet"),
    ],
)
def test_a_file_that_contradicts_its_name_is_rejected(tmp_path, name, content, word):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=word):
        open_binary(path)


def test_the_head_of_a_file_has_no_byte_order_mark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfsource,target\n")
    assert read_head(path, 9) == b"source"
    cut = tmp_path / "a.csv.gz"
    cut.write_bytes(gzip.compress(b"source" * 99)[:-9])
    with pytest.raises(InputError, match="damaged"):
        read_head(cut, 999)


def test_lines_that_cannot_be_parsed_are_reported_or_skipped(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"1\n\nx\n\xff\n4\n")
    with pytest.raises(InputError, match=r"a\.txt, line 3: .*'x'"):
        list(parse_lines(path, int, RowErrors()))
    errors = RowErrors("skip")
    assert list(parse_lines(path, int, errors)) == [(1, 1), (5, 4)]
    assert [example.split(":")[0] for example in errors.examples] == [
        f"{path}, line 3",
        f"{path}, line 4",
    ]


def test_globs_are_expanded_in_order_of_names(tmp_path):
    for name in ("b.csv", "a.csv", "c.tsv"):
        (tmp_path / name).touch()
    assert [path.name for path in expand_paths(str(tmp_path / "*.csv"))] == ["a.csv", "b.csv"]
    both = expand_paths([tmp_path / "c.tsv", str(tmp_path / "a*")])
    assert [path.name for path in both] == ["c.tsv", "a.csv"]


def test_an_existing_file_is_not_treated_as_a_glob(tmp_path):
    (tmp_path / "a[1].csv").touch()
    assert [path.name for path in expand_paths(tmp_path / "a[1].csv")] == ["a[1].csv"]


def test_missing_files_are_reported(tmp_path):
    with pytest.raises(InputError, match=r"none-\*\.csv: no such file"):
        expand_paths(str(tmp_path / "none-*.csv"))
    with pytest.raises(InputError, match="no files"):
        expand_paths([])


def test_suffixes_ignore_the_compression(tmp_path):
    assert plain_suffix(tmp_path / "a.JSON.gz") == ".json"
    assert plain_suffix(tmp_path / "a.csv") == ".csv"
    assert compression_of(tmp_path / "a.csv.ZST") == "zstd"
    assert compression_of(tmp_path / "a.csv") == "none"
