import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from edgeformers.decode import decode, decode_json
from edgeformers.errors import ConfigError, FormatError


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Drawing:
    name: str
    points: list[Point] = field(default_factory=list)
    by_name: dict[str, Point] = field(default_factory=dict)
    size: tuple[int, int] = (1, 1)
    ids: tuple[int, ...] = ()
    style: Literal["thin", "thick"] | None = None
    parent: Point | None = None
    width: float | str = 1.0
    tags: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    labeled: int = 0
    visible: bool = True
    version: int = 1


FULL = Drawing(
    name="plan",
    points=[Point(1.0, 2.0)],
    by_name={"a": Point(3.0)},
    size=(3, 4),
    ids=(5, 6, 7),
    style="thick",
    parent=Point(0.5),
    width="wide",
    tags=["a"],
    extra={"anything": [1, None]},
)


def test_a_dataclass_survives_json():
    assert decode(Drawing, json.loads(json.dumps(asdict(FULL)))) == FULL


def test_missing_fields_take_their_defaults():
    assert decode(Drawing, {"name": "plan"}) == Drawing(name="plan")


def test_integers_and_numpy_scalars_are_accepted_as_numbers():
    decoded = decode(Point, {"x": 1, "y": np.float32(2.0)})
    assert (type(decoded.x), type(decoded.y)) == (float, float)
    assert decode(Drawing, {"name": "n", "size": [np.int64(1), 2]}).size == (1, 2)


def test_a_word_can_stand_for_none():
    assert decode(Drawing, {"name": "none", "parent": "none"}, none="none").name == "none"
    with pytest.raises(FormatError, match="parent"):
        decode(Drawing, {"name": "none", "parent": "none"})


def test_old_field_names_are_read():
    assert decode(Drawing, {"name": "n", "labelled": 3}).labeled == 3


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "name is missing"),
        ([], r"Drawing must be a table of fields \(got \[\]\)"),
        ({"name": 3}, r"name must be of type str \(got 3\)"),
        ({"nme": "a"}, "unknown name 'nme'; did you mean 'name'"),
        ({"name": "a", "points": [{"x": 1}, {"x": "2"}]}, r"points\[1\].x must be of type float"),
        ({"name": "a", "points": [{"z": 1}]}, r"unknown name 'z' in points\[0\]"),
        ({"name": "a", "by_name": {"b": {"x": None}}}, r"by_name.b.x .*got None"),
        ({"name": "a", "by_name": [1]}, r"by_name must be of type dict \(got \[1\]\)"),
        ({"name": "a", "size": [1, 2, 3]}, r"size must have 2 items"),
        ({"name": "a", "ids": [1, True]}, r"ids\[1\] must be of type int \(got True\)"),
        ({"name": "a", "style": "bold"}, r"style must be one of thin, thick \(got 'bold'\)"),
        ({"name": "a", "width": None}, r"width must be of type float or str \(got None\)"),
        ({"name": "a", "visible": 1}, r"visible must be of type bool"),
        ({"name": "a", "tags": "abc"}, r"tags must be of type Sequence \(got 'abc'\)"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_path(values, words):
    with pytest.raises(FormatError, match=words):
        decode(Drawing, values)


def test_the_error_type_and_the_path_can_be_chosen():
    with pytest.raises(ConfigError, match=r"train\.x must"):
        decode(Point, {"x": "far"}, path="train", raises=ConfigError)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1 is not valid JSON"),
        ("[]", "expected version 1"),
        ('{"version": 2}', r"expected version 1 \(got 2\)"),
        ('{"version": 1}', "name is missing"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_its_source_and_remedy(text, words):
    with pytest.raises(FormatError, match=f"^plan.json: {words}.*; draw it again$"):
        decode_json(Drawing, text, source="plan.json", version=1, remedy="draw it again")


def test_json_is_read():
    text = json.dumps(asdict(FULL))
    assert decode_json(Drawing, text, source="f", version=1, remedy="") == FULL
