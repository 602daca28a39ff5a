"""A spec, a profile inside it, options of the command line -> one spec that still knows where each value came from."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ablate.spec.errors import Position
from ablate.spec.source import Path, Source


def with_profile(source: Source, profile: str) -> Source:
    """Return the spec with `profiles.<profile>` merged over it, key by key; lists and scalars are replaced."""
    merged = copy.deepcopy(source)
    _merge(merged, source, source.value["profiles"][profile], (), ("profiles", profile))
    return merged


def with_overrides(source: Source, overrides: Mapping[str, Any]) -> Source:
    """Return the spec with top-level keys replaced by options of the command line, e.g. `blocks` by `--blocks`."""
    merged = copy.deepcopy(source)
    for key, value in overrides.items():
        option = "--" + {"workloads": "workload"}.get(key, key).replace("_", "-")
        _forget(merged, (key,))
        merged.value[key] = value
        _place(merged, (key,), value, Position(option=option))
    return merged


def _merge(merged: Source, source: Source, profile: Any, path: Path, origin: Path) -> None:
    for key, value in profile.items():
        target, place = (*path, key), (*origin, key)
        parent = _at(merged.value, path)
        if isinstance(value, dict) and isinstance(parent.get(key), dict):
            _merge(merged, source, value, target, place)
            continue
        _forget(merged, target)
        parent[key] = copy.deepcopy(value)
        _copy_places(merged, source, target, place)


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _forget(source: Source, path: Path) -> None:
    for places in (source.keys, source.values, source.raw):
        for known in [p for p in places if p[: len(path)] == path]:
            del places[known]


def _copy_places(merged: Source, source: Source, target: Path, origin: Path) -> None:
    size = len(origin)
    for path in [p for p in source.values if p[:size] == origin]:
        renamed = (*target, *path[size:])
        merged.keys[renamed], merged.values[renamed] = source.keys[path], source.values[path]
        if path in source.raw:
            merged.raw[renamed] = source.raw[path]


def _place(source: Source, path: Path, value: Any, position: Position) -> None:
    source.keys[path] = source.values[path] = position
    if isinstance(value, Mapping):
        for key, item in value.items():
            _place(source, (*path, key), item, position)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _place(source, (*path, i), item, position)
    else:
        source.raw[path] = str(value)
