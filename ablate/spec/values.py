"""Types of the values of a spec -> what pydantic checks and the JSON Schema says of them; the base of its sections."""

import math
import re
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator
from pydantic.config import JsonDict

DURATION = re.compile(r"^(?:(\d{1,4})\s*h)?\s*(?:(\d{1,5})\s*m(?:in)?)?\s*(?:(\d{1,7})\s*s)?$")
LONGEST_TRIAL_S = 7 * 24 * 3600.0

Positive = Annotated[float, Field(gt=0, le=1e6)]
Interval = Annotated[list[Positive], Field(min_length=2, max_length=2)]
Text = Annotated[str, Field(max_length=2000)]
Place = Annotated[str, Field(min_length=1, max_length=1000)]  # a name, a file or an address
Seed = Annotated[int, Field(ge=0, lt=2**31)]


def parse_duration(value: Any) -> float:
    """Read seconds, or text such as `90s`, `30m`, `1h30m`."""
    seconds = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value) if abs(value) <= LONGEST_TRIAL_S else math.inf
    elif isinstance(value, str) and value.strip() and (match := DURATION.match(value.strip())):
        hours, minutes, rest = (int(part or 0) for part in match.groups())
        seconds = float(3600 * hours + 60 * minutes + rest)
    if not 0 < seconds <= LONGEST_TRIAL_S:
        raise ValueError("expected seconds, or a time such as 90s, 30m or 1h30m, up to 168h")
    return seconds


def parse_window(value: Any) -> int | str:
    """Read a restart window of the equivalence test: a step, `middle` or `end`."""
    if isinstance(value, str) and value in ("middle", "end"):
        return value
    if type(value) is int and 0 <= value <= 10**9:
        return value
    raise ValueError("expected a step from 0, 'middle' or 'end'")


Duration = Annotated[
    Any,
    PlainValidator(parse_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}),
]
Window = Annotated[
    Any,
    PlainValidator(parse_window),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"enum": ["middle", "end"]}]}),
]


class Section(BaseModel):
    """Base of every mapping in a spec: unknown keys, silent conversions, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)
    expects: ClassVar[str] = "a mapping of keys to values"


def _accept_alone(schema: JsonDict, model: type[Any]) -> None:
    mapping = dict(schema)
    key: Any = mapping["properties"]
    kind = {name: value for name, value in key[model.alone].items() if name in ("enum", "minLength", "maxLength")}
    schema.clear()
    schema["anyOf"] = [kind if "enum" in kind else {"type": "string", **kind}, mapping]


class ShortSection(Section):
    """A section that may also be written as the text of its key `alone`."""

    model_config = ConfigDict(json_schema_extra=_accept_alone)
    alone: ClassVar[str] = "use"

    @model_validator(mode="before")
    @classmethod
    def _key_alone(cls, value: Any) -> Any:
        return {cls.alone: value} if isinstance(value, str) else value
