"""The `profiles` of a spec -> which of them can be merged, and what is wrong with the others."""

from __future__ import annotations

from ablate.spec.errors import Fault, Position, clean, did_you_mean
from ablate.spec.source import Source

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
