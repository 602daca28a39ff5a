"""What pydantic found wrong -> faults with positions, in the words of a spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ablate.core.errors import did_you_mean
from ablate.spec import models
from ablate.spec.errors import Fault, clean
from ablate.spec.source import Path, Source

EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list such as [a, b]",
    "dict_type": "a mapping of keys to values",
}


def faults_of(error: ValidationError, source: Source) -> Iterator[Fault]:
    """Translate every error of a validation."""
    for details in error.errors(include_url=False):
        path = tuple(details["loc"])
        if details["type"] == "extra_forbidden":
            known = did_you_mean(path[-1], _keys_of(path[:-1]))
            text = f"unknown key '{clean(str(path[-1]))}'{known}"
            yield Fault(position=source.at_key(path), text=text)
        elif details["type"] == "missing":
            text = f"the key '{path[-1]}' is missing{_inside(path[:-1])}"
            yield Fault(position=source.at_value(path[:-1]), text=text)
        else:
            position, text = source.at_value(path), _sentence(details, path, source)
            label = "" if position.option else f"{_label(path, source)}: "
            yield Fault(position=position, text=label + text)


def _sentence(details: ErrorDetails, path: Path, source: Source) -> str:
    kind, context = details["type"], details.get("ctx", {})
    got = f", got {written(path, source)}"
    if kind == "int_type" and isinstance(details["input"], float):
        return f"expected a whole number without point or exponent{got}"
    if kind == "float_type" and isinstance(details["input"], int):
        return f"the number is too large{got}"
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}{got}"
    if kind in ("model_type", "model_attributes_type"):
        return f"expected {_section(context['class_name']).expects}{got}"
    if kind == "literal_error":
        choices = _choices(path)
        return f"expected {' or '.join([', '.join(choices[:-1]), choices[-1]])}{got}{_near(details['input'], choices)}"
    if kind == "string_pattern_mismatch":
        return f"expected lower-case letters, digits, '.', '_' or '-', up to 63 of them{got}"
    if kind == "value_error":
        return str(context["error"]) if source.nearest(path) not in source.raw else f"{context['error']}{got}"
    bound = _bound(kind, context)
    return f"{bound}{got}" if bound else f"{details['msg']}{got}"


def _bound(kind: str, context: dict[str, Any]) -> str:
    sentences = {
        "greater_than_equal": "must be at least {ge}",
        "greater_than": "must be greater than {gt}",
        "less_than_equal": "must be at most {le}",
        "less_than": "must be less than {lt}",
        "too_short": "needs at least {min_length} entries",
        "too_long": "takes at most {max_length} entries",
        "string_too_short": "must not be empty",
        "string_too_long": "takes at most {max_length} characters",
    }
    return sentences[kind].format(**context) if kind in sentences else ""


def written(path: Path, source: Source) -> str:
    """Return a value as the spec writes it, safe to print and short."""
    place = source.nearest(path)
    if place in source.raw:
        return f"'{clean(source.raw[place], 40)}'" if source.raw[place] else "nothing"
    value: Any = source.value
    for key in place:
        value = value[key]
    return f"a list of {len(value)}" if isinstance(value, (list, tuple)) else "a mapping"


def _near(value: Any, choices: list[str]) -> str:
    if isinstance(value, bool) and {"on", "off"} <= set(choices):
        return f"; write {'on' if value else 'off'}"
    near = did_you_mean(value, choices)
    return near if "did you mean" in near else ""


def _label(path: Path, source: Source) -> str:
    return ".".join(clean(str(part)) for part in source.nearest(path)) or "spec"


def _inside(path: Path) -> str:
    return f" in {'.'.join(map(str, path))}" if path else ""


def _section(name: str) -> type[models.Section]:
    section: type[models.Section] = getattr(models, name)
    return section


def _keys_of(path: Path) -> list[str]:
    section = _annotation(path)
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        return []
    return [info.alias or name for name, info in section.model_fields.items()]


def _choices(path: Path) -> list[str]:
    return [str(choice) for choice in _literals(_annotation(path))]


def _literals(annotation: Any) -> list[Any]:
    found: list[Any] = []
    for argument in get_args(annotation):
        if isinstance(argument, str):
            found.append(argument)
        elif get_args(argument):
            found += _literals(argument)
    return found


def _annotation(path: Path) -> Any:
    """Follow a path through the models to the annotation that stands there."""
    annotation: Any = models.SpecFile
    for key in path:
        section = _first_section(annotation)
        if section is None:
            return annotation
        names = {info.alias or name: info for name, info in section.model_fields.items()}
        if key in names:
            annotation = names[str(key)].annotation
        elif annotation is not section:
            annotation = section  # a key of a mapping from names to sections
    return _first_section(annotation) or annotation


def _first_section(annotation: Any) -> type[models.Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, models.Section):
        return annotation
    sections = [found for argument in get_args(annotation) if (found := _first_section(argument))]
    return sections[0] if sections else None
