"""The JSON Schema of plan files, for editors: completion, descriptions, and most mistakes while typing.

It is generated from the models. `pgdyno plan check` knows more: files, ranges, expressions, what suits what.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from pgdyno.plan.model import Plan

DIALECT = "http://json-schema.org/draft-07/schema#"
"""What editors for TOML understand; pydantic's own is newer, and nothing here differs but the place of definitions."""

_SECTIONS = ("target", "workload", "sweep", "trial")


def plan_schema() -> dict[str, Any]:
    """The schema of a plan file."""
    schema = Plan.model_json_schema(by_alias=True, mode="validation")
    schema = _without_null(json.loads(json.dumps(schema).replace("#/$defs/", "#/definitions/")))
    schema["definitions"] = schema.pop("$defs")
    schema = {"$schema": DIALECT, "title": "pgdyno plan", **{key: schema[key] for key in schema if key != "title"}}
    for definition in schema["definitions"].values():
        definition.pop("title", None)
        for field in definition.get("properties", {}).values():
            field.pop("title", None)
    _when_extending(schema)
    for name in ("Sweep", "PointSpec"):
        _groups(schema["definitions"][name])
    return schema


def schema_text() -> str:
    """The same as it stands in `docs/reference/plan.schema.json`."""
    return json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """`node` without what TOML has no word for: null, and a default of null."""
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if isinstance(value, dict):
            kept[key] = _without_null(value)
        elif isinstance(value, list):
            each = (_without_null(one) if isinstance(one, dict) else one for one in value)
            kept[key] = [one for one in each if one != {"type": "null"}]
        elif not (key == "default" and value is None):
            kept[key] = value
    choices = kept.get("anyOf")
    if isinstance(choices, list) and len(choices) == 1:
        del kept["anyOf"]
        kept = choices[0] | kept
    return kept


def _when_extending(schema: dict[str, Any]) -> None:
    """A plan that extends another one need not say what that says."""
    required = schema.pop("required")
    schema["anyOf"] = [{"required": required}, {"required": ["extends"]}]
    schema["definitions"]["Workload"].pop("required", None)
    target = schema["properties"]["target"]
    part = {"not": {"required": ["kind"]}}
    target["additionalProperties"] = {"anyOf": [target["additionalProperties"], part]}
    for field in schema["properties"].values():
        field.pop("title", None)


def _groups(definition: dict[str, Any]) -> None:
    """`"settings.work_mem"` beside `settings.work_mem`, whose name may have further dots."""
    properties = definition["properties"]
    patterns = {}
    for group in ("settings", "variables"):
        items = properties[group]["additionalProperties"]
        patterns[rf"^{group}\."] = copy.deepcopy(items)
        # a name with a dot in it is a table to TOML
        properties[group]["additionalProperties"] = {"anyOf": [*items["anyOf"], {"type": "object"}]}
    definition["patternProperties"] = patterns
