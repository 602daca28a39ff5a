"""A spec with places -> its pydantic model and what is wrong; parts that are wrong do not hide the others."""

from __future__ import annotations

import copy
from typing import Any

from pydantic import ValidationError

from ablate.spec.errors import Fault
from ablate.spec.messages import faults_of
from ablate.spec.models import SpecFile
from ablate.spec.source import Path, Source

PLACEHOLDERS: dict[str, Any] = {"study": "x", "workloads": ["x"], "data": {"dataset": "look-alike"}}


def validate(source: Source) -> tuple[SpecFile, set[str], list[Fault]]:
    """Validate a spec; what is wrong is left out or takes its default, so that everything else is checked too.

    Returns:
        The model; the top-level keys with something wrong in them; the faults.
    """
    value, wrong, faults = source.value, set[str](), list[Fault]()
    while True:
        try:
            return SpecFile.model_validate(value), wrong, faults
        except ValidationError as error:
            paths = [tuple(details["loc"]) for details in error.errors(include_url=False)]
            if not wrong:
                faults = list(faults_of(error, source))
            value = copy.deepcopy(value)
        # A second refusal means that leaving a part out made its section incomplete: leave out the section.
        again = bool(wrong)
        for path in paths:
            top = str(path[0])
            wrong.add(top)
            _leave_out(value, path[:1] if again else path)
            if top in PLACEHOLDERS and top not in value:
                value[top] = PLACEHOLDERS[top]


def _leave_out(value: dict[str, Any], path: Path) -> None:
    """Delete the deepest key of a mapping on a path; the items of a list stand or fall together."""
    holder, last = value, path[0]
    for key in path[1:]:
        inside = holder.get(str(last))
        if not isinstance(inside, dict) or key not in inside:
            break
        holder, last = inside, key
    holder.pop(str(last), None)
