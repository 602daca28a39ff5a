"""A frozen dataclass -> plain JSON values, and back, checked against the type hints (standard library only)."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def to_dict(value: Any) -> Any:
    """Turn dataclasses, mappings and sequences into dicts and lists; every other value is kept as it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = (f for f in dataclasses.fields(value) if f.metadata.get("stored", True))
        return {f.name: to_dict(getattr(value, f.name)) for f in kept}
    if isinstance(value, Mapping):
        return {str(key): to_dict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [to_dict(item) for item in items]
    return value


def from_dict(cls: type[T], data: Mapping[str, Any]) -> T:
    """Build the dataclass `cls` from plain values.

    Keys that `cls` does not know are ignored (a newer writer), absent keys take the field's default (an older one).

    Raises:
        TypeError: a required field is absent or a value does not have the field's type.
    """
    hints = _hints_of(cls)  # type: ignore[arg-type]  # mypy: a type[T] is hashable
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    given = {f.name: _convert(hints[f.name], data[f.name], f.name) for f in fields if f.name in data}
    return cls(**given)


@functools.cache
def _hints_of(cls: type) -> dict[str, Any]:
    """Type hints of a class; looking them up anew is most of the work of reading a thousand records."""
    return typing.get_type_hints(cls)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(args, value, where)
    if origin is typing.Literal:
        if value not in args:
            raise TypeError(f"{where}: {value!r} is not one of {', '.join(map(repr, args))}")
        return value
    if origin is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise TypeError(f"{where}: expected a list, got {type(value).__name__}")
        kinds = [args[0]] * len(value) if len(args) == 2 and args[1] is Ellipsis else list(args)
        if len(kinds) != len(value):
            raise TypeError(f"{where}: expected {len(kinds)} items, got {len(value)}")
        return tuple(_convert(kind, item, where) for kind, item in zip(kinds, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise TypeError(f"{where}: expected a mapping, got {type(value).__name__}")
        return {key: _convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and not isinstance(value, hint):
        raise TypeError(f"{where}: expected {hint.__name__}, got {type(value).__name__}")
    return value


def _convert_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    problems = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _convert(option, value, where)
        except TypeError as error:
            problems.append(str(error))
    raise TypeError("; ".join(problems))
