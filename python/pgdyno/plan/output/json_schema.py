"""The JSON Schema of plan files for editors: completion, descriptions, and detection of most mistakes.

It is generated from the models. `pgdyno plan check` also checks files, ranges, expressions, and fields that depend on
each other.
"""

import copy
import json
from typing import Any

from pydantic import create_model

from pgdyno.plan.model import Plan
from pgdyno.plan.sweeps.spec import GROUPS
from pgdyno.plan.values import ByOwnModel

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The dialect that TOML editors support; pydantic's is newer, but differs only in the place of definitions."""


def plan_schema() -> dict[str, Any]:
    token = ByOwnModel.builds_all.set(True)
    try:
        whole = create_model("Plan", __base__=Plan, __doc__=Plan.__doc__)
        schema = whole.model_json_schema(by_alias=True, mode="validation")
    finally:
        ByOwnModel.builds_all.reset(token)
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
    """Return the text of `plan.schema.json`, which `pgdyno plan schema` prints and the documentation has."""
    return json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
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
    required = schema.pop("required")
    # a replay has its clients and its length from its capture
    of_replay = [name for name in required if name not in ("sweep", "trial")]
    replays = {"required": of_replay, "properties": {"workload": {"required": ["replay"]}}}
    # groups have clients of their own, and steps a length
    groups = {"required": [*(name for name in required if name != "sweep"), "group"]}
    steps = {"required": [*of_replay, "group", "step"]}
    schema["anyOf"] = [{"required": required}, replays, groups, steps, {"required": ["extends"]}]
    # a part of a section may not show its kind
    schema["properties"]["workload"]["anyOf"] = schema["properties"]["workload"].pop("oneOf")
    target = schema["properties"]["target"]
    part = {"not": {"required": ["kind"]}}
    target["additionalProperties"] = {"anyOf": [target["additionalProperties"], part]}
    for field in schema["properties"].values():
        field.pop("title", None)


def _groups(definition: dict[str, Any]) -> None:
    """Allow `"settings.work_mem"` as well as `settings.work_mem`, whose name may contain further dots."""
    properties = definition["properties"]
    patterns = {}
    for group in GROUPS:
        items = properties[group]["additionalProperties"]
        patterns[rf"^{group}\."] = copy.deepcopy(items)
        # TOML treats an unquoted name with a dot as a table
        properties[group]["additionalProperties"] = {"anyOf": [*items["anyOf"], {"type": "object"}]}
    definition["patternProperties"] = patterns
