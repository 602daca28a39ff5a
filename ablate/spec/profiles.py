"""A spec, a profile inside it, options of the command line -> one spec that still knows where each value came from."""

import copy
from collections.abc import Mapping
from typing import Any

from ablate.core.errors import did_you_mean
from ablate.spec.errors import Fault, Position, clean
from ablate.spec.source import Path, Source

DEVICES = ("cpu", "cuda")
NOT_IN_A_PROFILE = ("study", "device", "profiles")


def read_profiles(source: Source) -> tuple[tuple[str, ...], list[Fault]]:
    """Return the names of the profiles that can be merged over the spec."""
    profiles = source.value.get("profiles")
    if profiles is None:
        return (), []
    if not isinstance(profiles, dict):
        text = "profiles: expected a mapping such as {cpu: {blocks: 1}}"
        return (), [Fault(position=source.at_value(("profiles",)), text=text)]
    usable, faults = [], []
    for name, content in profiles.items():
        path = ("profiles", name)
        if name not in DEVICES:
            text = f"unknown profile '{clean(name)}'{did_you_mean(name, DEVICES)}"
            faults.append(Fault(position=source.at_key(path), text=text))
        elif not isinstance(content, dict):
            text = f"profiles.{name}: expected a mapping of changes such as {{blocks: 1}}"
            faults.append(Fault(position=source.at_value(path), text=text))
        else:
            usable.append(name)
            text = "'{}' cannot be changed by a profile; remove it"
            wrong = [key for key in NOT_IN_A_PROFILE if key in content]
            faults += [Fault(position=source.at_key((*path, key)), text=text.format(key)) for key in wrong]
    return tuple(usable), faults


def places_of(source: Source, profile: str) -> set[Position]:
    """Return the positions of everything inside a profile."""
    inside = [path for path in source.values if path[:2] == ("profiles", profile)]
    return {place[path] for path in inside for place in (source.keys, source.values)}


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
