"""The JSON Schema for editors: it accepts valid plans, and refuses invalid ones."""

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pgdyno.plan import catalogue, load_plan
from pgdyno.plan.output.json_schema import plan_schema, schema_text
from pgdyno.plan.output.new import new_plan

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = plan_schema()
GOOD: dict[str, Any] = {
    "name": "mine",
    "target": {"pg18": {"kind": "embedded", "version": "18"}},
    "workload": {"scripts": ["select-only"]},
    "sweep": {"clients": [1, 4]},
    "trial": {"duration": "10s"},
}


def plans() -> dict[str, str]:
    texts = {"new": new_plan(Path("mine.toml"))}
    for name in (entry.name for entry in catalogue()):
        texts[name] = load_plan(name).text
    for page in sorted(DOCS.rglob("*.md")):
        for number, text in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)):
            if "[sweep]" in text or "extends" in text:
                texts[f"{page.name}-{number}"] = text
    return texts


def changed(path: str, value: object) -> dict[str, Any]:
    plan: dict[str, Any] = {key: dict(table) if isinstance(table, dict) else table for key, table in GOOD.items()}
    node = plan
    *around, last = path.split("/")
    for key in around:
        node[key] = dict(node.get(key, {}))
        node = node[key]
    node[last] = value
    return plan


def test_the_schema_is_a_valid_json_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("name", "text"), plans().items())
def test_every_plan_that_is_shipped_or_shown_fits(name: str, text: str) -> None:
    jsonschema.validate(tomllib.loads(text), SCHEMA, jsonschema.Draft7Validator)
    assert name


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sweep/clients", "1..256 doubling"),
        ("sweep/clients", ["1..8", 64]),
        ("sweep/workers", "max(1, clients / 2)"),
        ("sweep/rate", [0.5, 1000]),
        ("sweep/settings.work_mem", ["4MB", 8, True]),
        ("sweep/settings", {"work_mem": "4MB", "auto_explain": {"log_min_duration": 5}}),
        ("sweep/points", [{"clients": 4, "settings.work_mem": "1MB", "variables": {"x": 2}}]),
        ("sweep/exclude", "clients > 4"),
        ("target/pg18/version", 18),
        ("target/pg18/settings", {"jit": False}),
        ("trial/order", "randomised"),
        ("extends", "quick"),
    ],
)
def test_valid_plans_match_the_schema(path: str, value: object) -> None:
    jsonschema.validate(changed(path, value), SCHEMA, jsonschema.Draft7Validator)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("nmae", "x"),
        ("format", 2),
        ("sweep/clients", 0),
        ("sweep/clients", []),
        ("sweep/clients", [1.5]),
        ("sweep/shared_buffers", "1GB"),
        ("sweep/setings.work_mem", "4MB"),
        ("sweep/settings.work_mem", []),
        ("sweep/points", [{"clents": 4}]),
        ("sweep/rate", 0),
        ("target/pg18/kind", "embeded"),
        ("target/pg18/bin", "/usr/bin"),
        ("trial/order", "random"),
        ("trial/duration", 10),
        ("workload/scripts", "select-only"),
    ],
)
def test_invalid_plans_do_not_match_the_schema(path: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(path, value), SCHEMA, jsonschema.Draft7Validator)


def test_only_what_extends_another_plan_may_leave_sections_out() -> None:
    part = {"trial": {"repeats": 5}, "target": {"pg18": {"version": "17"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(part, SCHEMA, jsonschema.Draft7Validator)
    jsonschema.validate(part | {"extends": "quick"}, SCHEMA, jsonschema.Draft7Validator)


def test_keys_are_described() -> None:
    sweep = SCHEMA["definitions"]["Sweep"]["properties"]
    assert "open loop" in sweep["rate"]["description"]
    assert "null" not in schema_text()
