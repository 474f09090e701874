"""Values as written: which are blank, which are numbers, and the numbers."""

import pyarrow as pa
import pyarrow.compute as pc

NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?"  # for Arrow and DuckDB


def is_blank(column: pa.Array) -> pa.Array:
    """Where a column is null, empty or only whitespace."""
    return pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)


def is_number(column: pa.Array) -> pa.Array:
    """Where a text column holds numbers."""
    return pc.match_substring_regex(column, rf"^\s*{NUMBER}\s*$")


def parse_numbers(column: pa.Array) -> pa.Array:
    """Numbers as written -> float64, null if unreadable or infinite."""
    stripped = pc.utf8_trim_whitespace(column)
    numbers = pc.if_else(is_number(stripped), stripped, None).cast(pa.float64())
    return pc.if_else(pc.is_finite(numbers), numbers, None)


def excerpt(value: str) -> str:
    """A value on one line of at most 60 characters, for messages."""
    line = " ".join(value.split())
    return line if len(line) <= 60 else line[:57] + "..."
