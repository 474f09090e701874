import gzip
import json
import subprocess

import pytest

from edgeformers.data.readers.detect import RAW_READERS, detect_raw_format

FILES = {
    "amazon-reviews": [
        '{"reviewerID": "A", "asin": "B", "overall": 5.0}\n',
        '{"user_id": "A", "parent_asin": "B", "asin": "B", "rating": 5.0}\n',
        '{"reviewerID": "A", "overall": 1}\n{"asin": "B"}\n',
    ],
    "amazon-metadata": [
        "{'asin': 'B', 'categories': [['x']]}\n",
        '{"asin": "B", "category": ["x"]}\n',
        '{"parent_asin": "B", "categories": ["x"]}\n',
    ],
    "goodreads-reviews": ['{"user_id": "a", "book_id": "1", "review_text": "t", "rating": 3}'],
    "bigquery-comments": [
        "id,text,creation_date,post_id,user_id,user_display_name,score\n1,a,2014,3,4,,0\n",
        '{"user_id": "1", "post_id": "2", "text": "t", "creation_date": "2014", "score": "0"}\n',
    ],
    "stackexchange-posts": ['\ufeff<?xml version="1.0" encoding="utf-8"?>\n<posts>\n</posts>'],
    "stackexchange-comments": ["<comments>\n</comments>"],
    "mbox": ["From ada@x.org Fri Jul 05 10:22:02 2013\nSubject: hi\n\nbody\n"],
}
CASES = [(name, text) for name, texts in FILES.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), CASES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_a_file_is_recognized_by_its_content(tmp_path, name, text, packed):
    file = tmp_path / ("data.gz" if packed else "data")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert detect_raw_format(file) == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (r"text\$\$0\$\$1\$\$2", "authors-edges"),
        (r"u\*\*\*\*\$\$i\*\*\*\*\$\$1", "authors-pairs"),
    ],
)
def test_folders_of_the_authors_are_recognized(tmp_path, line, name):
    (tmp_path / "train.tsv").write_text(line + "\n")
    assert detect_raw_format(tmp_path) == name


@pytest.mark.parametrize("bare", [False, True], ids=["work tree", "bare"])
def test_git_repositories_are_recognized(tmp_path, bare):
    command = ["git", "init", "-q", *(["--bare"] if bare else []), str(tmp_path)]
    subprocess.run(command, check=True)
    assert detect_raw_format(tmp_path) == "git"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe" * 100,
        b"source,target,text\n1,2,a\n",
        b'{"broken": ',
        b"[1, 2]\n",
        b"{'a': " + b"(" * 5000,
        b'"' + b"x" * 300_000,
        json.dumps({"source": 1}).encode(),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_other_content_is_no_raw_format(tmp_path, content, suffix):
    file = tmp_path / f"odd{suffix}"
    file.write_bytes(content)
    assert detect_raw_format(file) is None


def test_truncated_and_missing_files_and_empty_folders_are_no_raw_format(tmp_path):
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 10_000)[:40])
    assert detect_raw_format(cut) is None
    assert detect_raw_format(tmp_path / "missing") is None
    assert detect_raw_format(tmp_path) is None


def test_the_reader_of_a_format_reads_it(tmp_path):
    file = tmp_path / "Comments.xml"
    file.write_text('<comments>\n<row Id="1" PostId="2" UserId="3" Text="t" />\n</comments>')
    reader = RAW_READERS[detect_raw_format(file)]
    table = reader(file, on_error="skip").to_arrow()
    assert table["source"].to_pylist() == ["3"]


def test_every_format_of_edges_has_a_reader():
    edges = {*FILES, "authors-edges", "authors-pairs", "dtgb", "git"} - {"amazon-metadata"}
    assert set(RAW_READERS) == edges
