"""Hostile tables for `prepare`: every one ends in an error of this library or in a network."""

import gzip
import json
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.prepare import prepare
from edgeformers.data.table import EDGE_FIELDS, EdgeTable, NodeTable
from tests.torture.outcome import Case, Outcome, cases_in_turn, observe

Random = random.Random
Input = tuple[Any, dict[str, Any]]  # what `prepare` reads, and further arguments

STRINGS = (
    *(
        "",
        " ",
        "a",
        "b",
        "ada",
        "Ada",
        " a",
        "a ",
        "NULL",
        "None",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "-",
    ),
    *("0", "-0", "1", "1.0", "01", "1e5", "1e999", "9" * 25, "-" + "9" * 400, "0x1F", "1_000", "½"),
    *("true", "FALSE", "train", "val", "test", "Test ", "profile", "none", "holdout"),
    *("2023-05-31", "2023-13-45", "9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00-14:00"),
    *("1700000000", "99999999999999999999", "-62135596801", "12:30", "31.05.2023", "+1", "1e308"),
    *("\0", "a\0b", "\x1b[31mred", "\r", "a\rb", "a\nb", "\t", "\x0b\x0c", "\x1c\x1d", "\x7f"),
    *(
        "é",
        "ß",
        "ﬀ",
        "日本語",
        "🙂",
        "\u202eabc",
        "\u2028",
        "\ufeff",
        "\uffff",
        "\U0010ffff",
        "e\u0301",
    ),
    *('"', '""', 'a"b', '"a', "'", "a'b", "\\", "\\u0000", ",", ";", "|", "a,b", "$$", "\\$\\$"),
    *(
        "'; DROP TABLE edges; --",
        "${HOME}",
        "../../etc/passwd",
        "%s%n",
        "{0}",
        "<b>",
        "&#0;",
        "]]>",
    ),
    *("[1, 2]", "{}", '{"a": 1}', "[" * 300, "x" * 5_000, "word " * 3_000, "-1", "١٢٣", "²"),
)
OBJECTS: tuple[Callable[[], Any], ...] = (
    *(lambda: None, lambda: True, lambda: -1, lambda: 2**63, lambda: -(2**64), lambda: 10**400),
    *(lambda: 1.5, lambda: float("nan"), lambda: float("inf"), lambda: -0.0, lambda: 1e300),
    *(lambda: b"bytes", lambda: b"\xff\xfe", lambda: "a", lambda: "\ud800", lambda: "1"),
    *(lambda: [], lambda: ["a", None], lambda: [["a"], "b"], lambda: {"a": [1]}, lambda: {1, 2}),
    *(lambda: (1, "a"), lambda: Decimal("1.10"), lambda: Decimal("NaN"), lambda: 1 + 2j),
    *(lambda: date(1, 1, 1), lambda: datetime(9999, 12, 31, 23, 59), lambda: time(12, 30)),
    *(lambda: timedelta(days=999_999), lambda: pd.NaT, lambda: pd.NA, lambda: np.float32("nan")),
    *(lambda: np.datetime64("NaT"), lambda: np.array([1, 2]), object, lambda: int, lambda: print),
)
ARRAYS: tuple[Callable[[int], Any], ...] = (
    lambda n: pa.array([b"\xff\xfe"] * n, pa.binary()),
    lambda n: pa.array([b"ok"] * n, pa.large_binary()),
    lambda n: pa.array([b"1234"] * n, pa.binary(4)),
    lambda n: pa.array([2**64 - 1] * n, pa.uint64()),
    lambda n: pa.array([Decimal("1.50")] * n, pa.decimal128(38, 2)),
    lambda n: pa.array([Decimal(10) ** 60] * n, pa.decimal256(76, 2)),
    lambda n: pa.array([2**62] * n, pa.timestamp("s")),
    lambda n: pa.array([-(2**63)] * n, pa.timestamp("ns")),
    lambda n: pa.array([2**62] * n, pa.timestamp("us", "Europe/Berlin")),
    lambda n: pa.array([1] * n, pa.timestamp("us", "No/Where")),
    lambda n: pa.array([2**31 - 1] * n, pa.date32()),
    lambda n: pa.array([2**62] * n, pa.date64()),
    lambda n: pa.array([1] * n, pa.time64("ns")),
    lambda n: pa.array([2**62] * n, pa.duration("us")),
    lambda n: pa.array([True] * n),
    lambda n: pa.nulls(n),
    lambda n: pa.array(["a"] * n).dictionary_encode(),
    lambda n: pa.DictionaryArray.from_arrays(
        pa.array([0] * n, pa.int8()), pa.array([None], pa.string())
    ),
    lambda n: pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int8()), pa.array([b"\xff"])),
    lambda n: pa.array([["a"]] * n),
    lambda n: pa.array([["a", None]] * n, pa.large_list(pa.string())),
    lambda n: pa.array([[1, 2]] * n, pa.list_(pa.int8(), 2)),
    lambda n: pa.array([["a", "b"]] * n, pa.list_(pa.string(), 2)),
    lambda n: pa.array([{"a": 1}] * n),
    lambda n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int8())),
    lambda n: pa.array(["a"] * n, pa.string_view()),
    lambda n: pa.array([b"\xff"] * n, pa.binary_view()),
    lambda n: pa.array(["a"] * n, pa.large_string()),
    lambda n: pa.array([1.5, *[float("nan")] * n][:n], pa.float16()),
    lambda n: pa.array([float("inf")] * n, pa.float32()),
    lambda n: pa.array([1e300] * n),
    lambda n: pa.RunEndEncodedArray.from_arrays([n], ["a"]) if n else pa.array([]),
    lambda n: pa.Array.from_buffers(  # claims to be UTF-8
        pa.string(), n, [None, *map(pa.py_buffer, (np.arange(n + 1, dtype=np.int32), b"\xff" * n))]
    ),
)
COLUMNS = ("source", "target", "text", "label", "time", "split", "edge_type", "weight")
HEADERS = (
    *COLUMNS,
    *(" source", "target ", "TEXT", "Source", "", "a b", "é", '"', "source", "src", "dst", "row"),
    *("id", "name", "\0", "\x1b[2J", "x" * 300, "c0", "file_row_number", "__index_level_0__", "1"),
)


TAMENESS = (1.0, 0.99, 0.97, 0.9, 0.6)  # shares of ordinary values in a table


def cases(seed: int = 0) -> Iterator[Case]:
    """Endless hostile tables of all kinds in turn; the same for the same seed."""
    return cases_in_turn(BUILDERS, seed)


def run(case: Case) -> Outcome:
    """Prepare the table; nothing may be left behind unless it becomes a valid network."""
    rng = Random(f"{case.seed}-{case.number}")
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        (folder / "in").mkdir()
        data, arguments = BUILDERS[case.kind](rng, folder / "in")
        arguments = {"tokenizer": None, "progress": False, **arguments}
        outcome = observe(lambda: _prepare(data, folder / "out", arguments))
        left = sorted(path.name for path in folder.iterdir() if path.name != "in")
    if outcome.kind == "rejected" and left:
        return Outcome(kind="crash", detail=f"left {left} behind; {outcome.detail}")
    return outcome


def _prepare(data: Any, out: Path, arguments: dict[str, Any]) -> str | None:
    prepare(data, out, **arguments)
    graph = EdgeTextGraph.open(out, verify=True)
    texts = [text for chunk in graph.iter_texts() for text in chunk]
    ends = np.concatenate([graph.src, graph.dst])
    graph.node_names(ends)
    if len(texts) != graph.num_edges or len(graph.edges()) != graph.num_edges:
        return f"{len(texts)} texts for {graph.num_edges} edges"
    return None


def _arguments(rng: Random, header: Sequence[str] = COLUMNS) -> dict[str, Any]:
    """Arguments that fit most tables; some contradict each other."""
    chosen: dict[str, Any] = {}
    for name in COLUMNS[3:]:
        if rng.random() < (0.5 if name in header else 0.01):
            chosen[name] = name
    for name, values in {
        "on_error": ["skip", "stop"],
        "bipartite": [False],
        "directed": [False],
        "label_kind": ["number", "class", "multi", "sentiment"],
        "label_separator": ["|", "", ",", "é", " "],
        "drop_repeats": [True],
        "min_degree": [2, 3, 100, 0],
        "keep": [["label"], ["text"], ["nothing"], ["time", "time"], ["src"], "label"],
        "classes": [["a", "b"], [], ["1", "2"]],
        "positive_labels": [["a"], ["1"], "a"],
        "delimiter": [",", ";", "\t", "||", " ", "\n", "", "abcde"],
        "quote": ["", "'", '"', '""', "\n"],
        "splits": [["chronological"], ["per-source"], ["link=per-source+new-pairs"], ["odd"], []],
        "format": ["csv", "jsonl", "parquet", "tsv", "xml", "amazon-reviews", "mbox"],
    }.items():
        if rng.random() < (0.3 if name == "on_error" else 0.025):
            chosen[name] = rng.choice(values)
    return chosen


def _rows(rng: Random, columns: int = 3) -> list[list[str]]:
    size = rng.choice((0, 1, 2, 5, 12, 30, 30, 30))
    tame = rng.choice(TAMENESS)
    return [
        [
            f"{'uvw'[min(c, 2)]}{rng.randrange(4)}" if rng.random() < tame else rng.choice(STRINGS)
            for c in range(columns)
        ]
        for _ in range(size)
    ]


def _header(rng: Random) -> list[str]:
    header = list(COLUMNS[: rng.choice((3, 3, 4, 8))])
    if rng.random() < 0.1:
        header[rng.randrange(len(header))] = rng.choice(HEADERS)
    if rng.random() < 0.15:
        header += rng.choices(HEADERS, k=rng.randrange(1, 4))
    rng.shuffle(header)
    return header


def _damage(rng: Random, content: bytes) -> bytes:
    """Up to three damages to the bytes of a file; often none."""
    for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 3))):
        place = rng.randrange(len(content) + 1)
        end = min(len(content), place + rng.choice((1, 3, 40)))
        content = rng.choice(
            (
                lambda c, a, b: c[:a],
                lambda c, a, b: c[a:],
                lambda c, a, b: c[:a] + c[b:],
                lambda c, a, b: c[:b] + c[a:],
                lambda c, a, b: c[:a] + bytes(x ^ (1 << rng.randrange(8)) for x in c[a:b]) + c[b:],
                lambda c, a, b: c[:a] + rng.randbytes(b - a) + c[b:],
                lambda c, a, b: c[:a] + b"\0" + c[a:],
                lambda c, a, b: c[:a] + b"\xff\xfe\xed\xa0\x80" + c[a:],
                lambda c, a, b: c[:a] + b'"' + c[a:],
                lambda c, a, b: c.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\x85"))),
            )
        )(content, place, end)
    return content


def _encode(rng: Random, text: str) -> bytes:
    encodings = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "cp1252")
    encoding = rng.choice(encodings) if rng.random() < 0.08 else "utf-8"
    return text.encode(encoding, "replace" if encoding != "utf-8" else "surrogatepass")


def _write(rng: Random, folder: Path, name: str, content: bytes) -> Path:
    """Write a damaged file, sometimes compressed, sometimes under a wrong suffix."""
    content = _damage(rng, content)
    odds = rng.random()
    if odds < 0.1:
        content, name = _damage(rng, gzip.compress(content)), name + ".gz"
    elif odds < 0.15:
        content, name = _damage(rng, pa.compress(content, "zstd", asbytes=True)), name + ".zst"
    elif odds < 0.2:
        name += rng.choice((".gz", ".zst", ".bz2", "", ".parquet", ".json", ".xml"))
    elif odds < 0.22:
        name = rng.choice(("[a]*", "a'b", "sp ace", "é\n", "%s")) + name
    path = folder / name
    path.write_bytes(content)
    return path


def _delimited(rng: Random, folder: Path) -> Input:
    suffix, sign = rng.choice((("csv", ","), ("tsv", "\t"), ("csv", ";")))
    header = _header(rng)
    rows = [header, *_rows(rng, len(header))]
    for row in rows:
        if rng.random() < 0.03:
            row += rng.choices(STRINGS, k=rng.randrange(1, 3))
        if rng.random() < 0.03:
            del row[rng.randrange(len(row)) :]
    quoting = rng.choice(("none", "all", "needed"))

    def cell(value: str) -> str:
        if quoting == "all" or (quoting == "needed" and {sign, '"', "\n", "\r"} & set(value)):
            return '"' + value.replace('"', '""') + '"'
        return value

    text = rng.choice(("\n", "\n", "\r\n", "\r")).join(sign.join(map(cell, row)) for row in rows)
    return _write(rng, folder, f"a.{suffix}", _encode(rng, text)), _arguments(rng, header)


def _json_value(rng: Random) -> Any:
    odds = rng.random()
    if odds < 0.6:
        return rng.choice(STRINGS)
    nested: Any = rng.choice(STRINGS)
    if odds > 0.97:
        for _ in range(rng.choice((3, 50, 500))):
            nested = rng.choice(([nested], {"a": nested}))
        return nested
    return rng.choice(
        (None, True, 0, -1, 2**63, 10**30, 1.5, 1e300, [], {}, [nested], {"a": nested}, [[None]])
    )


def _json_text(rng: Random, header: list[str]) -> str:
    size, tame = rng.choice((0, 1, 3, 12, 12)), rng.choice(TAMENESS)
    records = [
        {
            name: f"u{rng.randrange(4)}" if rng.random() < tame else _json_value(rng)
            for name in header
        }
        for _ in range(size)
    ]
    lines = [json.dumps(record, ensure_ascii=rng.random() < 0.5) for record in records]
    for place in range(len(lines)):
        if rng.random() < 0.02:
            odd = (
                "[]",
                "3",
                "null",
                "NaN",
                "{",
                "}",
                '"a"',
                "[" * 100_000,
                '{"source": "\\ud800"}',
            )
            lines[place] = rng.choice((*odd, '{"a":1,"a":2}', lines[place] + ",", '{"a":' * 5_000))
    joined = rng.choice(("\n", "\n", "\n", "\n\n", "\r\n", " ", ",\n")).join(lines)
    return f"[{joined}]" if rng.random() < 0.1 else joined


def _json_lines(rng: Random, folder: Path) -> Input:
    name = rng.choice(("a.jsonl", "a.json", "a.ndjson"))
    header = _header(rng)
    content = _encode(rng, _json_text(rng, header))
    return _write(rng, folder, name, content), _arguments(rng, header)


def _arrow_table(rng: Random) -> pa.Table:
    size = rng.choice((0, 1, 3, 20, 20))
    tame = rng.choice((0.95, 0.8, 0.5))

    def column() -> pa.Array:
        if rng.random() < tame:
            return pa.array([f"u{rng.randrange(4)}" for _ in range(size)], pa.string())
        if rng.random() < 0.3:
            return pa.array([rng.choice((None, *STRINGS)) for _ in range(size)], pa.string())
        return rng.choice(ARRAYS)(size)

    names = _header(rng)
    return pa.Table.from_arrays([column() for _ in names], names=names)


def _parquet(rng: Random, folder: Path) -> Input:
    sink = pa.BufferOutputStream()
    while True:
        table = _arrow_table(rng)
        try:
            compression = rng.choice(("none", "snappy", "zstd", "gzip"))
            pq.write_table(table, sink, row_group_size=7, compression=compression)
            break
        except (pa.ArrowException, ValueError, OSError):  # a type that Parquet does not have
            sink = pa.BufferOutputStream()
    name = rng.choice(("a.parquet", "a.parquet", "a.pq"))
    path = _write(rng, folder, name, sink.getvalue().to_pybytes())
    return path, _arguments(rng, table.schema.names)


def _arrow_frame(rng: Random, folder: Path) -> Input:
    table = _arrow_table(rng)
    if table.num_rows and rng.random() < 0.2:
        return table.to_batches()[0], _arguments(rng, table.schema.names)
    return table, _arguments(rng, table.schema.names)


def _pandas_frame(rng: Random, folder: Path) -> Input:
    size = rng.choice((0, 1, 3, 15))
    header = _header(rng)

    def column() -> Any:
        odds = rng.random()
        if odds < 0.7:
            return [f"u{rng.randrange(4)}" for _ in range(size)]
        if odds < 0.8:
            return [rng.choice(STRINGS) for _ in range(size)]
        if odds < 0.9:
            return [rng.choice(OBJECTS)() for _ in range(size)]
        kinds = ("category", "float32", "Int64", "complex", "datetime64[ns]", "timedelta64[ns]")
        kind = rng.choice((*kinds, "bool", "Sparse[float]", "period[D]", "string", "uint64"))
        return pd.Series([rng.randrange(9)] * size, dtype=object).astype(kind, errors="ignore")

    columns = [pd.Series(column(), dtype=None, name=name) for name in header]
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame()
    odds = rng.random()
    if odds < 0.03:
        frame.columns = pd.MultiIndex.from_tuples([(name, "x") for name in header])
    elif odds < 0.06:
        frame.columns = range(len(header))
    elif odds < 0.12 and size:
        frame.index = [rng.choice(STRINGS) for _ in range(len(frame))]
    elif odds < 0.15:
        return frame.get("source", frame), _arguments(rng)  # often a Series
    return frame, _arguments(rng, header)


def _polars_frame(rng: Random, folder: Path) -> Input:
    size = rng.choice((1, 3, 12))
    columns: dict[str, pl.Series] = {}
    for name in _header(rng):
        odd = rng.choice(([rng.choice(STRINGS)], [rng.choice(OBJECTS)()], [["a"]], [None]))
        tame = [f"u{rng.randrange(4)}" for _ in range(size)]
        if isinstance(odd[0], Decimal):  # polars panics on Decimal("NaN") before we see it
            odd = [Decimal("1.10")]
        try:
            columns[name] = pl.Series(name, tame if rng.random() < 0.8 else odd * size)
        except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
            columns[name] = pl.Series(name, tame, dtype=pl.Categorical)
    frame = pl.DataFrame(list(columns.values()))
    if rng.random() < 0.2:
        lazy = frame.lazy()
        return (lazy.filter(pl.col("gone") == 1) if rng.random() < 0.5 else lazy), _arguments(rng)
    return frame, _arguments(rng, tuple(columns))


def _object(rng: Random, folder: Path) -> Input:
    """Things that are no table, and lists of them."""
    missing = folder / "missing.csv"
    data = rng.choice(
        (
            *(make() for make in OBJECTS),
            *(missing, str(missing), folder, "", "~nobody/x.csv", "a\0b", "x" * 5000, "*", "**/*"),
            *([], [None], [missing], [[1, 2], [3, 4]], [{"source": "a"}], {"source": ["a"]}),
            *(
                np.zeros((3, 3)),
                np.array(["a.csv"]),
                iter(["a.csv"]),
                pd.Series(["a"]),
                pa.array([]),
            ),
            *("simulated", ["simulated", "x"], "amazon-apps", ["amazon-apps"], "amazon-app"),
            *(
                b"a.csv",
                Path("/dev/null"),
                Path("/proc/self/mem"),
                Path("/"),
                range(3),
                Exception(),
            ),
        )
    )
    arguments = {} if rng.random() < 0.5 else _arguments(rng)
    if rng.random() < 0.3:
        name = rng.choice(
            (*COLUMNS[:5], "keep", "nodes", "splits", "format", "min_degree", "quote")
        )
        arguments[name] = rng.choice(OBJECTS)()
    if isinstance(data, str) and data == "simulated":
        arguments |= {
            "num_edges": rng.choice((0, 1, -3, 2, 30, "x", 10**12)),
            "seed": rng.choice((0, -1, "x")),
        }
    return data, arguments


def _edge_table(rng: Random, folder: Path) -> Input:
    """Edge tables made by hand, whose batches may contradict the schema."""
    batch = pa.RecordBatch.from_pylist(
        [{"source": rng.choice(("a", None, "")), "target": "b", "text": rng.choice(("x", None))}]
        * 3,
        schema=pa.schema({name: EDGE_FIELDS[name] for name in COLUMNS[:3]}),
    )
    schema = batch.schema
    if rng.random() < 0.3:
        schema = schema.append(
            pa.field(rng.choice(HEADERS), rng.choice(list(EDGE_FIELDS.values())))
        )
    if rng.random() < 0.2:
        schema = schema.remove(rng.randrange(3))
    if rng.random() < 0.3:
        table = _arrow_table(rng)
        batch = (table.to_batches() or [batch])[0]
        schema = table.schema if rng.random() < 0.5 else schema
    kind = NodeTable if rng.random() < 0.1 else EdgeTable
    extra = {} if kind is NodeTable else {"bipartite": rng.random() < 0.5}
    batches = rng.choice(([batch], [batch, batch], [], [None], [["a"]]))
    return kind(schema=schema, open=lambda: iter(batches), origin="a", **extra), _arguments(rng, ())


AMAZON = ("reviewerID", "asin", "reviewText", "overall", "unixReviewTime")
AMAZON_2023 = ("user_id", "parent_asin", "text", "rating", "timestamp")
GOODREADS = ("user_id", "book_id", "review_text", "rating", "date_added")
METADATA = ("asin", "category", "title", "description")


def _raw_json(rng: Random, folder: Path) -> Input:
    keys = rng.choice((AMAZON, AMAZON, AMAZON_2023, GOODREADS, METADATA))
    lines = []
    for _ in range(rng.choice((1, 3, 12))):
        tame = dict(zip(keys, ("u1", "i2", "fine", 5.0, 1400000000), strict=False))
        for key in keys:
            if rng.random() < 0.15:
                tame[key] = _json_value(rng)
            if rng.random() < 0.03:
                del tame[key]
        lines.append(repr(tame) if rng.random() < 0.1 else json.dumps(tame))
    content = _encode(rng, "\n".join(lines))
    nodes = {"nodes": _raw_nodes(rng, folder)} if rng.random() < 0.3 else {}
    name = rng.choice(("a.json", "reviews.jsonl", "meta_a.json"))
    return _write(rng, folder, name, content), {**_raw_arguments(rng), **nodes}


def _raw_nodes(rng: Random, folder: Path) -> Path:
    items = [
        {"asin": rng.choice(("i2", "", 3, None)), "category": _json_value(rng), "title": "<b>x"}
        for _ in range(3)
    ]
    lines = [repr(item) if rng.random() < 0.5 else json.dumps(item) for item in items]
    return _write(rng, folder, "meta.json", "\n".join(lines).encode("utf-8", "replace"))


def _raw_arguments(rng: Random) -> dict[str, Any]:
    return {"on_error": "skip"} if rng.random() < 0.4 else _arguments(rng, ())


def _stackexchange(rng: Random, folder: Path) -> Input:
    root = rng.choice(("posts", "comments"))
    numbers = ("1", "2", "7", "", "x", "9" * 30, "-3", "²", "1.5", "9223372036854775808")
    times = (
        "2020-01-01T00:00:00.000",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "x",
    )
    odd = tuple(s for s in STRINGS if all(c.isprintable() for c in s))
    rows = []
    for number in range(rng.choice((0, 2, 10))):
        values = {
            **{"Id": str(number), "PostTypeId": rng.choice(("1", "2", "2", "3"))},
            **{"OwnerUserId": "5", "UserId": "5", "ParentId": "0", "PostId": "0", "Score": "3"},
            **{"Body": "<p>fine</p>", "Text": "fine", "CreationDate": times[0], "Tags": "<a><b>"},
            "AcceptedAnswerId": "1",
        }
        for name in values:
            if rng.random() < 0.08:
                values[name] = rng.choice((*numbers, *times, rng.choice(odd), "<div>" * 2_000))
        values = {k: v for k, v in values.items() if rng.random() > 0.02}
        rows.append("  <row " + " ".join(f"{k}={quoteattr(v)}" for k, v in values.items()) + " />")
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>' if rng.random() < 0.05 else ""
    start = '<?xml version="1.0" encoding="utf-8"?>\n' if rng.random() < 0.9 else ""
    text = "\n".join([f"{start}{bomb}<{root}>", *rows, f"</{root}>"])
    return _write(rng, folder, f"{root.title()}.xml", _encode(rng, text)), _raw_arguments(rng)


def _mbox(rng: Random, folder: Path) -> Input:
    mails = []
    for number in range(rng.choice((1, 3, 10))):
        headers = {
            "From": "Ada <ada@x.org>",
            "Message-ID": f"<{number}@x>",
            "In-Reply-To": f"<{max(0, number - 1)}@x>",
            "Date": "Mon, 1 Jan 2024 00:00:00 +0000",
            "Subject": "Re: x",
            "Content-Type": "text/plain; charset=utf-8",
        }
        types = (
            "multipart/mixed; boundary=a",
            "text/html",
            "text/plain; charset=\0",
            "a",
            "x/y;;=",
        )
        dates = (
            "Mon, 99 Foo 99999 00:00 +9999",
            "1 Jan 0001 00:00 +1400",
            "1 Jan 9999 23:59 -1400",
        )
        for name in headers:
            if rng.random() < 0.15:
                odd = (*types, *dates, "=?utf-8?b?////?=", "=?x?q?=FF?=", rng.choice(STRINGS))
                headers[name] = rng.choice(odd).replace("\n", " ")
        lines = [f"{name}: {value}" for name, value in headers.items() if rng.random() > 0.05]
        body = rng.choice(
            ("fine", "> quoted\n\nfine", "--a\n\nb\n--a--", "<p>" * 3_000, "=FF", "\0")
        )
        mails.append("\n".join(["From ada@x.org Mon Jan  1 00:00:00 2024", *lines, "", body, ""]))
    content = "\n".join(mails).encode(rng.choice(("utf-8", "latin-1")), "replace")
    return _write(rng, folder, "a.mbox", content), _raw_arguments(rng)


def _authors(rng: Random, folder: Path) -> Input:
    sign = r"\$\$"
    for part in ("train", "val", "test")[: rng.choice((1, 3, 3))]:
        fields = [[rng.choice((*STRINGS, "a", "b", "c")) for _ in range(4)] for _ in range(5)]
        lines = [sign.join(rng.choice((row, row, row[:2], [*row, "x"]))) for row in fields]
        if rng.random() < 0.4:
            node = r"\*\*".join(("1", "text", "2"))
            lines = [rng.choice((f"{node}{sign}{node}{sign}1", line)) for line in lines]
        (folder / f"{part}.tsv").write_bytes(_damage(rng, _encode(rng, "\n".join(lines))))
    return folder, _raw_arguments(rng)


def _git(rng: Random, folder: Path) -> Input:
    """Folders that only look like a repository."""
    git = folder / rng.choice((".git", "bare"))
    for name in ("objects", "refs/heads"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_bytes(_damage(rng, b"ref: refs/heads/main\n"))
    (git / "config").write_bytes(_damage(rng, b"[core]\n\trepositoryformatversion = 0\n"))
    (git / "refs/heads/main").write_bytes(_damage(rng, b"0123456789" * 4 + b"\n"))
    if rng.random() < 0.2:
        (git / "shallow").write_bytes(rng.randbytes(50))
    return (git if git.name == "bare" else folder), _raw_arguments(rng)


def _several(rng: Random, folder: Path) -> Input:
    """Several files of one or several kinds, and tables of nodes."""
    files = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        build = rng.choice((_delimited, _delimited, _json_lines, _parquet))
        files.append(build(rng, folder / name)[0])
    arguments = _arguments(rng)
    if rng.random() < 0.5:
        (folder / "nodes").mkdir()
        build = rng.choice((_delimited, _json_lines, _arrow_frame, _pandas_frame, _object))
        arguments["nodes"] = build(rng, folder / "nodes")[0]
    if rng.random() < 0.2:
        return str(folder / "*" / "a*"), arguments
    return files, arguments


def _large_field(rng: Random, folder: Path) -> Input:
    """Fields of megabytes, thousands of columns, and quotes that are never closed."""
    size = rng.choice((1 << 16, 1 << 21, 3 << 20))
    text = rng.choice(
        (
            "source,target,text\na,b," + "x" * size,
            'source,target,text\na,b,"' + "x\n" * (size // 2),
            "source,target,text" + ",c" * 3_000 + "\na,b,x",
            ",".join(f"c{i}" for i in range(3_000)) + "\na,b,x",
            "source,target,text\n" + "a,b,x\n" * 2_000 + 'a,b,"open\n',
            "source,target,text\n" + "\n" * 10_000 + "a,b,x",
            "source,target,text\n" + "x" * size + ",b,c",
            "x" * size,
        )
    )
    return _write(rng, folder, "a.csv", text.encode()), _arguments(rng)


BUILDERS: dict[str, Callable[[Random, Path], Input]] = {
    "delimited": _delimited,
    "delimited again": _delimited,
    "json lines": _json_lines,
    "json lines again": _json_lines,
    "parquet": _parquet,
    "parquet again": _parquet,
    "arrow": _arrow_frame,
    "pandas": _pandas_frame,
    "polars": _polars_frame,
    "object": _object,
    "edge table": _edge_table,
    "raw json": _raw_json,
    "stack exchange": _stackexchange,
    "mbox": _mbox,
    "authors": _authors,
    "git": _git,
    "several": _several,
    "large field": _large_field,
}
