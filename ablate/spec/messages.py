"""What pydantic found wrong -> faults with positions, in the words of a spec."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ablate.core.errors import did_you_mean
from ablate.spec.errors import Fault, clean
from ablate.spec.models import SpecFile
from ablate.spec.source import Path, Source
from ablate.spec.values import Section

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


def faults_of(
    error: ValidationError,
    source: Source,
    model: type[Section] = SpecFile,
    locate: Callable[[Path], Path] = lambda path: path,
) -> Iterator[Fault]:
    """Translate every error of a validation.

    Args:
        error: What a model found wrong.
        source: Places in the spec.
        model: The model.
        locate: Path inside the model -> path inside the spec.
    """
    for details in error.errors(include_url=False):
        inside = tuple(details["loc"])
        path = locate(inside)
        annotation = _annotation(model, inside[:-1] if details["type"] == "extra_forbidden" else inside)
        if details["type"] == "extra_forbidden":
            text = f"unknown key '{clean(str(path[-1]))}'{did_you_mean(path[-1], _keys_of(annotation))}"
            yield Fault(position=source.at_key(path), text=text)
        elif details["type"] == "missing":
            text = f"the key '{path[-1]}' is missing{_inside(path[:-1])}"
            yield Fault(position=source.at_value(path[:-1]), text=text)
        else:
            position, text = source.at_value(path), _sentence(details, annotation, path, source)
            label = "" if position.option else f"{_label(path, source)}: "
            yield Fault(position=position, text=label + text)


def _sentence(details: ErrorDetails, annotation: Any, path: Path, source: Source) -> str:
    kind, context = details["type"], details.get("ctx", {})
    got = f", got {written(path, source)}"
    if kind == "int_type" and isinstance(details["input"], float):
        return f"expected a whole number without point or exponent{got}"
    if kind == "float_type" and isinstance(details["input"], int):
        return f"the number is too large{got}"
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}{got}"
    if kind in ("model_type", "model_attributes_type"):
        section = _first_section(annotation)
        return f"expected {section.expects if section else EXPECTED['dict_type']}{got}"
    if kind == "literal_error":
        choices = [str(choice) for choice in _literals(annotation)]
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


def _keys_of(section: Any) -> list[str]:
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        return []
    return [info.alias or name for name, info in section.model_fields.items()]


def _literals(annotation: Any) -> list[Any]:
    found: list[Any] = []
    for argument in get_args(annotation):
        if isinstance(argument, str):
            found.append(argument)
        elif get_args(argument):
            found += _literals(argument)
    return found


def _annotation(model: type[Section], path: Path) -> Any:
    """Follow a path through a model to the annotation that stands there."""
    annotation: Any = model
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


def _first_section(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    sections = [found for argument in get_args(annotation) if (found := _first_section(argument))]
    return sections[0] if sections else None
