"""Converts ids and edge attributes of networkx and PyG graphs to columns of an edge table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from edgeformers.data.table import EdgeTable, naive_utc
from edgeformers.errors import InputError

SIDES = ("source", "target")
EPOCH = datetime(1970, 1, 1)


def table_from_columns(
    columns: Mapping[str, Sequence[Any]], *, origin: str, bipartite: bool, directed: bool = True
) -> EdgeTable:
    """An edge table from converted columns, with the ids of `source` and `target` as strings."""
    names, values = list(columns), list(columns.values())
    return EdgeTable.from_rows(
        lambda: (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)),
        fields=names,
        origin=origin,
        bipartite=bipartite,
        directed=directed,
    )


def convert_column(name: str, values: Iterable[Any], where: Callable[[int], str]) -> list[Any]:
    """Attribute values in the type of the canonical column `name`; NaN becomes null.

    `where(i)` names edge i in error messages.
    """
    convert, expected = CONVERTERS[name]
    column: list[Any] = []
    for i, value in enumerate(values):
        try:
            column.append(None if value is None or _is_nan(value) else convert(value))
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"{where(i)}: the {name} is {value!r}, but must be {expected}"
            ) from None
    return column


def check_ids(ids: Iterable[tuple[Any, str]]) -> None:
    """Raise unless all (side, id) pairs are distinct and no id is empty."""
    seen = set()
    for side, id_ in ids:
        if not id_:
            raise InputError("a node has an empty id; every node needs an id")
        if (side, id_) in seen:
            raise InputError(f"two nodes have the id '{id_}'; ids must differ as strings")
        seen.add((side, id_))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating | datetime | np.datetime64) and value != value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _utc(value: Any) -> datetime:
    """A UTC datetime without a zone, from any common representation of a time."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return naive_utc(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return EPOCH + timedelta(seconds=value.item() if isinstance(value, np.number) else value)


#: Column -> its conversion, and what a value must be.
CONVERTERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text": (_text, "a string or None"),
    "label": (str, "a string"),
    "edge_type": (str, "a string"),
    "time": (_utc, "a datetime, an ISO date such as '2024-01-31T12:00', or seconds since 1970"),
    "weight": (float, "a number"),
}
