"""Reads what commands print with --json, and validates it against `pgdyno/json-output.schema.json`."""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jsonschema

SCHEMA = json.loads(resources.files("pgdyno").joinpath("json-output.schema.json").read_text(encoding="utf-8"))


def validated(name: str, printed: str) -> Any:  # noqa: ANN401 - any JSON
    """Returns the output `printed` of a command; `name` is its entry in the schema, which lists all of its keys."""
    found, schema = json.loads(printed), {"$ref": f"#/$defs/{name}"}
    jsonschema.validate(found, {**SCHEMA, **schema})
    if isinstance(found, dict):
        assert found.keys() <= keys(schema)
    return found


def keys(schema: Mapping[str, Any]) -> set[str]:
    """Returns all keys that a schema lists for an object, in any of its alternatives."""
    found = set(schema.get("properties", ()))
    if "$ref" in schema:
        found |= keys(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    return found.union(*(keys(each) for each in (*schema.get("anyOf", ()), *schema.get("allOf", ()))))
