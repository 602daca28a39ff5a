"""YAML text -> plain values with the position of every key and item; nothing is constructed or evaluated."""

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ablate.spec.errors import Fault, Position, clean

Path = tuple[str | int, ...]
MOST_BYTES = 128 * 1024
MOST_VALUES = 10_000
DEEPEST = 20
REFUSED = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST_NUMBER = 400
TOO_NESTED = re.compile(r"(?:[\[{]\s*){20}")
TAG = "tag:yaml.org,2002:"


class NotReadableError(Exception):
    """The text is no YAML mapping at all; carries the one fault that says so."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


@dataclass(kw_only=True)
class Source:
    """Plain values of a spec with their places.

    Attributes:
        value: Nested dicts, lists and scalars.
        keys: Position of the key (or list item) at a path.
        values: Position of the value at a path.
        raw: Text of the scalar at a path, as written.
        faults: Duplicate keys, tags and other things that a plain spec does not have.
    """

    value: dict[str, Any]
    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)
    raw: dict[Path, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def nearest(self, path: Path) -> Path:
        """Return the longest beginning of a path that the spec has."""
        while path and path not in self.values:
            path = path[:-1]
        return path

    def at_key(self, path: Path) -> Position:
        """Return the position of a key, or of the nearest thing around it."""
        return self.keys.get(self.nearest(path), Position())

    def at_value(self, path: Path) -> Position:
        """Return the position of a value, or of the nearest thing around it."""
        return self.values.get(self.nearest(path), Position())


def read_source(text: str) -> Source:
    """Read YAML text.

    Raises:
        NotReadableError: not YAML, empty, not a mapping, too deep, or an alias bomb.
    """
    root = _compose(text)
    if root is None:
        raise NotReadableError(Fault(position=Position(), text="the spec is empty; start with a line `study: my-name`"))
    if not isinstance(root, MappingNode):
        raise NotReadableError(
            Fault(position=_position(root), text="a spec is a mapping of keys to values, such as `study: my-name`")
        )
    walker = _Walker()
    value = walker.walk(root, (), _position(root))
    source = walker.source
    source.value = value
    return source


def _compose(text: str) -> Node | None:
    if found := REFUSED.search(text):
        raise _not_readable(
            f"character U+{ord(found.group()):04X} is not allowed; is this a text file?", _place(text, found.start())
        )
    if found := TOO_NESTED.search(text):
        raise _not_readable("lists and mappings are nested too deeply", _place(text, found.start()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            node: Node | None = YAML(typ="rt").compose(text)
            return node
    except MarkedYAMLError as error:
        problem = clean(str(error.problem or "it cannot be parsed"), 120)
        raise _not_readable(f"not YAML: {problem}", _where(error, text)) from error
    except YAMLError as error:
        raise _not_readable(f"not YAML: {clean(str(error), 120)}") from error
    except RecursionError as error:
        raise _not_readable("lists and mappings are nested too deeply") from error


def _not_readable(sentence: str, position: Position | None = None) -> NotReadableError:
    return NotReadableError(Fault(position=position or Position(), text=sentence))


def _where(error: MarkedYAMLError, text: str) -> Position:
    """Place of a YAML error; what was never finished is shown where it began, not at the empty line after it."""
    lines = text.split("\n")
    for mark in (error.problem_mark, error.context_mark):
        if mark is not None and mark.line < len(lines) and lines[mark.line].strip():
            return Position(line=mark.line + 1, column=mark.column + 1)
    return Position()


def _place(text: str, index: int) -> Position:
    return Position(line=text.count("\n", 0, index) + 1, column=index - text.rfind("\n", 0, index))


class _Walker:
    """Turns nodes into values, remembering places; stops at limits that only an attack reaches."""

    def __init__(self) -> None:
        self.source = Source(value={})
        self.seen = 0

    def walk(self, node: Node, path: Path, key_position: Position) -> Any:
        empty = isinstance(node, ScalarNode) and not node.value and node.style is None
        position = key_position if empty else _position(node)
        self.seen += 1
        if len(path) > DEEPEST or self.seen > MOST_VALUES:
            limit = "nested too deeply" if len(path) > DEEPEST else f"more than {MOST_VALUES} values (aliases counted)"
            raise NotReadableError(Fault(position=position, text=f"too much for a spec: {limit}"))
        self.source.keys[path] = key_position
        self.source.values[path] = position
        if isinstance(node, MappingNode):
            self._check_tag(node, "map", position)
            return {key: self.walk(child, (*path, key), place) for key, child, place in self._entries(node)}
        if isinstance(node, SequenceNode):
            self._check_tag(node, "seq", position)
            return [self.walk(child, (*path, i), _position(child)) for i, child in enumerate(node.value)]
        if not isinstance(node, ScalarNode):
            raise TypeError(f"ruamel.yaml gave a {type(node).__name__}")
        self.source.raw[path] = node.value
        return self._scalar(node, position)

    def _entries(self, node: MappingNode) -> Iterator[tuple[str, Node, Position]]:
        first: dict[str, Position] = {}
        for key_node, child in node.value:
            position = _position(key_node)
            if not isinstance(key_node, ScalarNode):
                self._fault(position, "a key must be plain text")
                continue
            key = key_node.value
            if key in first:
                self._fault(
                    position, f"duplicate key '{clean(key)}', first given in line {first[key].line}; remove one"
                )
                continue
            first[key] = position
            yield key, child, position

    def _scalar(self, node: ScalarNode, position: Position) -> Any:
        text, kind = node.value, str(node.tag).removeprefix(TAG)
        if kind in ("str", "timestamp"):
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        try:
            if kind == "int":
                return _integer(text)
            if kind == "float":
                return _float(text)
        except ValueError:
            return text
        self._check_tag(node, "str", position)
        return text

    def _check_tag(self, node: Node, plain: str, position: Position) -> None:
        if str(node.tag) != TAG + plain:
            tag = clean(str(node.tag).replace(TAG, "!!"))
            self._fault(position, f"the tag {tag} is not allowed; write a plain value")

    def _fault(self, position: Position, text: str) -> None:
        self.source.faults.append(Fault(position=position, text=text))


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    if len(digits) > LONGEST_NUMBER:
        largest: int = 10**LONGEST_NUMBER
        return -largest if digits.startswith("-") else largest
    prefixed = digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b")
    return int(digits, 0) if prefixed else int(digits)


def _float(text: str) -> float:
    digits = text.replace("_", "").lower()
    if digits.endswith((".inf", ".nan")):
        return float(digits.replace(".inf", "inf").replace(".nan", "nan"))
    value = float(digits)
    return value if math.isfinite(value) else math.inf


def _position(node: Node) -> Position:
    return Position(line=node.start_mark.line + 1, column=node.start_mark.column + 1)
