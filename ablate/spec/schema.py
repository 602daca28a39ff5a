"""The models of a spec -> its JSON Schema, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

from ablate.spec.models import SpecFile


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a spec file."""
    schema = SpecFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "ablate study"}
