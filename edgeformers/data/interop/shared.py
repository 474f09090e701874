"""What networkx and PyG graphs have in common: sides, ids, and values of any kind in a row."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from edgeformers.errors import InputError

Row = dict[str, Any]

SIDES = ("source", "target")
EPOCH = datetime(1970, 1, 1)


def check_ids(ids: Iterable[tuple[Any, str]]) -> None:
    """Ids, each with its side, must not be empty and must differ."""
    seen = set()
    for side, id_ in ids:
        if not id_:
            raise InputError("a node is written as ''; every node needs an id that is not empty")
        if (side, id_) in seen:
            raise InputError(f"two nodes are both written as '{id_}'; ids must differ as strings")
        seen.add((side, id_))


def checked_row(row: Row, where: str) -> Row:
    """The row in the types of an edge table; NaN, where a value is missing, becomes null."""
    row = {column: None if _is_nan(value) else value for column, value in row.items()}
    if not isinstance(row["text"], str | None):
        raise InputError(f"{where}: the text is {row['text']!r}; a text must be a string or None")
    for column in ("label", "edge_type"):
        if row.get(column) is not None:
            row[column] = str(row[column])
    if row.get("time") is not None:
        row["time"] = _utc(row["time"], where)
    if row.get("weight") is not None:
        row["weight"] = _weight(row["weight"], where)
    return row


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating | datetime | np.datetime64) and value != value


def _weight(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: the weight is {value!r}; a weight must be a number") from None


def _utc(value: Any, where: str) -> datetime:
    """A naive datetime in UTC from a datetime, a date, an ISO string or seconds since 1970."""
    try:
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        return EPOCH + timedelta(seconds=value.item() if isinstance(value, np.number) else value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{where}: the time is {value!r}; a time must be a datetime, an ISO date "
            "such as '2024-01-31T12:00', or seconds since 1970"
        ) from None
