"""Dataclasses from plain values such as parsed JSON or TOML; errors name the field and its value.

Written by hand so that training and inference do not depend on pydantic.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from edgeformers.aliases import current_field
from edgeformers.errors import EdgeformersError, FormatError, suggest

T = TypeVar("T")


def decode(
    kind: type[T],
    value: Any,
    *,
    path: str = "",
    raises: type[EdgeformersError] = FormatError,
    none: str | None = None,
) -> T:
    """Convert a plain value to an instance of the dataclass or annotated type `kind`.

    Nested dataclasses, Literal, Optional and other unions, lists, dicts and tuples are converted
    recursively. Integers are accepted for floats and numpy scalars for numbers. Missing fields
    take their defaults. Error messages begin with the field's path, below `path`. Where None is
    allowed, the word `none` is read as None (TOML has no null).
    """
    decoded: T = _Decoder(raises, none).decode(kind, value, path)
    return decoded


def decode_json(kind: type[T], text: str, *, source: str, version: int, remedy: str) -> T:
    """Parse JSON that was written with a `version` field; errors begin with `source`."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{source}: line {error.lineno} is not valid JSON ({error.msg}); {remedy}"
        ) from error
    except (ValueError, RecursionError) as error:  # huge numbers, deep nesting
        raise FormatError(f"{source} cannot be read ({error}); {remedy}") from error
    found = values.get("version") if isinstance(values, dict) else None
    if found != version:
        raise FormatError(f"{source}: expected version {version} (got {found}); {remedy}")
    try:
        return decode(kind, values)
    except EdgeformersError as error:
        raise FormatError(f"{source}: {error}; {remedy}") from error


@dataclass(frozen=True)
class _Decoder:
    raises: type[EdgeformersError]
    none: str | None

    def decode(self, kind: Any, value: Any, path: str) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        if kind is Any or kind is object:
            return value
        if is_dataclass(kind):
            return self._decode_dataclass(kind, value, path)
        if origin in (Union, UnionType):
            return self._decode_union(kind, value, path)
        if origin is Literal:
            if value in args:
                return value
            choices = ", ".join(map(str, args))
            raise self.raises(f"{path} must be one of {choices} (got {value!r})")
        if origin is not None:
            return self._decode_container(kind, value, path)
        return self._decode_scalar(kind, value, path)

    def _decode_dataclass(self, kind: Any, value: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            raise self.raises(f"{path or kind.__name__} must be a table of fields (got {value!r})")
        known, decoded = _typed_fields(kind), {}
        for key, item in value.items():
            name = current_field(key, known)
            if name not in known:
                where = f" in {path}" if path else ""
                raise self.raises(f"unknown name '{name}'{where}; {suggest(name, known)}")
            decoded[name] = self.decode(known[name][1], item, _join(path, name))
        for name, (field, _) in known.items():
            has_default = field.default is not MISSING or field.default_factory is not MISSING
            if name not in decoded and not has_default:
                raise self.raises(f"{_join(path, name)} is missing")
        try:
            return kind(**decoded)
        except (ArithmeticError, TypeError, ValueError) as error:  # of its own checks
            if isinstance(error, EdgeformersError):
                raise
            raise self.raises(f"{path or kind.__name__}: {error}") from error

    def _decode_union(self, kind: Any, value: Any, path: str) -> Any:
        options = [option for option in get_args(kind) if option is not NoneType]
        if NoneType in get_args(kind) and (value is None or value == self.none is not None):
            return None
        if len(options) == 1:
            return self.decode(options[0], value, path)
        for option in options:
            try:
                return self.decode(option, value, path)
            except EdgeformersError:
                continue
        raise self._type_error(options, value, path)

    def _decode_container(self, kind: Any, value: Any, path: str) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        if issubclass(origin, Mapping) and isinstance(value, Mapping):
            return {k: self.decode(args[1], item, _join(path, k)) for k, item in value.items()}
        if issubclass(origin, Mapping) or not isinstance(value, list | tuple):
            raise self._type_error([kind], value, path)
        kinds = [args[0]] * len(value)
        if origin is tuple and args[-1] is not Ellipsis:
            kinds = list(args)
            if len(kinds) != len(value):
                raise self.raises(f"{path} must have {len(kinds)} items (got {value!r})")
        pairs = enumerate(zip(kinds, value, strict=True))
        items = [self.decode(k, item, f"{path}[{i}]") for i, (k, item) in pairs]
        return tuple(items) if origin is tuple else items

    def _decode_scalar(self, kind: Any, value: Any, path: str) -> Any:
        value = value.item() if hasattr(value, "item") else value  # numpy and torch scalars
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise self._type_error([kind], value, path) from None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise self._type_error([kind], value, path)
        return value

    def _type_error(self, kinds: Collection[Any], value: Any, path: str) -> EdgeformersError:
        names = " or ".join((get_origin(kind) or kind).__name__ for kind in kinds)
        return self.raises(f"{path} must be of type {names} (got {value!r})")


@cache
def _typed_fields(kind: type[Any]) -> dict[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {field.name: (field, hints[field.name]) for field in fields(kind) if field.init}


def _join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)
