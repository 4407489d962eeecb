"""Plans of the catalogue and of the documentation fit the JSON Schema for editors, and manifests keep them as they are:
resuming relies on that.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from pgdyno.plan import Plan, catalogue, load_plan, planned_trials
from pgdyno.plan.output.json_schema import plan_schema, schema_text
from pgdyno.plan.output.new import new_plan
from pgdyno.plan.reading.plan_files import CatalogueEntry
from tests.unit.plan_sample import load, small_plan
from tests.unit.test_docs import plans

SCHEMA = plan_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
GOOD: dict[str, Any] = {
    "name": "mine",
    "target": {"pg18": {"kind": "embedded", "version": "18"}},
    "workload": {"scripts": ["select-only"]},
    "sweep": {"clients": [1, 4]},
    "trial": {"duration": "10s"},
}
WHOLE = """\
name = "whole"
[target.a]
kind = "embedded"
version = "18"
settings = { work_mem = "4MB", fsync = false }
initdb = ["--locale=C.UTF-8"]
[workload]
scripts = ["tpcb-like@9", "select-only"]
variables = { range = 100 }
[sweep]
clients = ["4..16 doubling", 20]
workers = "clients / 4"
rate = [500, 1000.5]
exclude = ["clients > 16"]
settings.work_mem = ["4MB", "8MB"]
variables.range = [10, 100]
[trial]
order = "randomised"
repeats = 2
pause = "1.5s"
max_errors = 0
min_free_disk = "5GB"
seed = 3
[hooks]
before_run = "sync"
before_trial = ["sync", "-f", "/"]
timeout = "90s"
[[phase]]
name = "rise"
duration = "3s"
rate = { from = 10, to = 20 }
mix = { tpcb-like = 1 }
"""
SHOWN = [(name, text) for name, text in plans() if "[sweep]" in text or "extends" in text]


def assert_kept(plan: Plan) -> None:
    # through JSON, as a manifest is stored
    back = Plan.from_resolved(json.loads(json.dumps(plan.as_resolved())))
    assert back.as_resolved() == plan.as_resolved()
    assert planned_trials(back, 5) == planned_trials(plan, 5)


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: str(entry.name))
def test_a_plan_of_the_catalogue_is_valid_described_and_kept(entry: CatalogueEntry) -> None:
    loaded = load_plan(entry.name)
    assert loaded.plan.name == entry.name
    assert entry.description
    VALIDATOR.validate(tomllib.loads(loaded.text))
    assert_kept(loaded.plan)


@pytest.mark.parametrize(("name", "text"), [("whole", WHOLE), ("new", new_plan(Path("mine.toml"))), *SHOWN])
def test_a_plan_of_the_documentation_is_valid_and_kept(name: str, text: str) -> None:
    document = tomllib.loads(text)
    VALIDATOR.validate(document)
    if "extends" not in document:
        assert_kept(Plan.model_validate(document))
    assert name


def test_seconds_without_a_unit_are_for_manifests_only() -> None:
    with pytest.raises(ValidationError, match="give the duration a unit"):
        Plan.model_validate({"trial": {"duration": 3.0}})


def test_a_small_plan_has_no_keys_of_what_it_does_not_use(tmp_path: Path) -> None:
    resolved = load(tmp_path, small_plan()).as_resolved()
    assert {section: " ".join(table) for section, table in resolved.items() if isinstance(table, dict)} == {
        "target": "pg18",
        "workload": "scripts dataset scale variables connect",
        "sweep": "clients workers protocol scale rate connect settings variables points exclude",
        "trial": "warmup duration transactions repeats order on_failure seed pause max_errors min_free_disk reconnect "
        "ledger",
        "reset": "method strategy file_copy_method snapshot checkpoint restart drop_cache prewarm analyze statistics "
        "consistency",
        "probe": "enabled waits_hz host server log statements standbys profile plans",
    }
    assert resolved.keys() - {"target", "workload", "sweep", "trial", "reset", "probe"} == {
        "format", "name", "description",
    }  # fmt: skip


def changed(path: str, value: object) -> dict[str, Any]:
    plan = json.loads(json.dumps(GOOD))
    node = plan
    *around, last = path.split("/")
    for key in around:
        node = node.setdefault(key, {})
    node[last] = value
    return plan  # type: ignore[no-any-return]


VALID = [
    ("sweep/clients", "1..256 doubling"), ("sweep/clients", ["1..8", 64]), ("sweep/workers", "max(1, clients / 2)"),
    ("sweep/rate", [0.5, 1000]), ("sweep/settings.work_mem", ["4MB", 8, True]), ("sweep/exclude", "clients > 4"),
    ("sweep/settings", {"work_mem": "4MB", "auto_explain": {"log_min_duration": 5}}), ("extends", "quick"),
    ("sweep/points", [{"clients": 4, "settings.work_mem": "1MB", "variables": {"x": 2}}]),
    ("target/pg18/version", 18), ("target/pg18/settings", {"jit": False}), ("trial/order", "randomised"),
]  # fmt: skip
INVALID = [
    ("nmae", "x"), ("format", 2), ("sweep/clients", 0), ("sweep/clients", []), ("sweep/clients", [1.5]),
    ("sweep/shared_buffers", "1GB"), ("sweep/setings.work_mem", "4MB"), ("sweep/settings.work_mem", []),
    ("sweep/points", [{"clents": 4}]), ("sweep/rate", 0), ("target/pg18/kind", "embeded"),
    ("target/pg18/bin", "/usr/bin"), ("trial/order", "random"), ("trial/duration", 10),
    ("workload/scripts", "select-only"),
]  # fmt: skip


def test_only_valid_plans_match_the_schema() -> None:
    assert [each for each in VALID if not VALIDATOR.is_valid(changed(*each))] == []
    assert [each for each in INVALID if VALIDATOR.is_valid(changed(*each))] == []


def test_the_schema_is_valid_and_describes_keys() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert "open loop" in SCHEMA["definitions"]["Sweep"]["properties"]["rate"]["description"]
    assert "null" not in schema_text()
    # only what extends another plan may leave sections out
    part = {"trial": {"repeats": 5}, "target": {"pg18": {"version": "17"}}}
    assert not VALIDATOR.is_valid(part)
    assert VALIDATOR.is_valid(part | {"extends": "quick"})
