"""Helpers that write tables in every format and read them back."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from edgeformers.data.readers.tables import read_edges
from edgeformers.errors import InputError

HEADER = b"source,target,text\n"
ODD_IDS = ["007", " a", "a ", "NA", "null", "nan", "None", "1e5", 'say "hi"', "new\nline", "é😀"]
QUIET = settings(
    derandomize=True,
    deadline=None,
    max_examples=15,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


def rows(table):
    return [tuple(row.values()) for row in table.to_arrow().to_pylist()]


def rows_or_none(table):
    """The rows, or None if the table is rejected with a one-line message that names it."""
    try:
        return rows(table)
    except InputError as error:
        message = str(error)
    assert message.count(table.origin) >= 1
    assert "\n" not in message
    return None


def save(folder, content, name="edges.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def error_of(path, **columns):
    """The error message for a file, without its folder."""
    with pytest.raises(InputError) as raised:
        read_edges(path, **columns).to_arrow()
    message = str(raised.value)
    assert "\n" not in message
    return message.replace(f"{path.parent}/", "")


def as_csv(table, delimiter=",", line_end="\r\n", quoting=csv.QUOTE_MINIMAL):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    writer.writerow(["source", "target", "text"])
    writer.writerows(table)
    return out.getvalue().encode()


def as_jsonl(table, ascii_only=False):
    records = (dict(zip(("source", "target", "text"), row, strict=True)) for row in table)
    return "".join(json.dumps(r, ensure_ascii=ascii_only) + "\n" for r in records).encode()


def as_parquet(table):
    out = io.BytesIO()
    columns = zip(*table, strict=True)
    arrays = [pa.array(column, pa.string()) for column in columns]
    pq.write_table(pa.table(arrays, names=["source", "target", "text"]), out)
    return out.getvalue()


WRITERS = {
    "a.csv": as_csv,
    "b.csv.gz": lambda table: gzip.compress(as_csv(table, line_end="\n", quoting=csv.QUOTE_ALL)),
    "c.csv.zst": lambda table: zstd(as_csv(table)),
    "d.tsv": lambda table: as_csv(table, delimiter="\t"),
    "e.jsonl": as_jsonl,
    "f.json.gz": lambda table: gzip.compress(as_jsonl(table, ascii_only=True)),
    "g.ndjson.zst": lambda table: zstd(as_jsonl(table)),
    "h.parquet": as_parquet,
}
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
tricky = st.text(st.sampled_from(list("ab \t\r\n\",;'\\|#0\x00é\u2028\ufeff")), max_size=8)
ids = (text | tricky | st.sampled_from(ODD_IDS)).filter(lambda value: value.strip())
tables = st.lists(st.tuples(ids, ids, text | tricky), min_size=1, max_size=9)
INTACT = [("a", "b", 'he said, "no"\n'), (" x", "007", ""), ("é", "c d", "NA")] * 3
