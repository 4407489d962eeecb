"""Reads what commands print with --json, and validates it against `docs/reference/json-output.schema.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "reference" / "json-output.schema.json").read_text())


def validated(name: str, printed: str) -> Any:  # noqa: ANN401 - any JSON
    """Returns the output `printed` of a command; `name` is its entry in the schema, which lists all of its keys."""
    found, schema = json.loads(printed), SCHEMA["$defs"][name]
    jsonschema.validate(found, {**SCHEMA, "$ref": f"#/$defs/{name}"})
    if isinstance(found, dict):
        assert found.keys() <= schema["properties"].keys()
    return found
