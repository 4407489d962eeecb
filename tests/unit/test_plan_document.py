"""The text of a plan: line numbers of its keys, and the JSON Schema for editors; manifests keep plans as they are."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from pgdyno.plan import Plan, catalogue, load_plan, planned_trials
from pgdyno.plan.output.json_schema import plan_schema, schema_text
from pgdyno.plan.output.new import new_plan
from pgdyno.plan.plan_document import KeyPath, dotted_path, key_lines, nearest, split_assignment
from pgdyno.plan.reading.plan_files import CatalogueEntry
from tests.unit.plan_sample import load, small_plan

DOCUMENT = '''# a comment = 1
name = "quick" # [not.a.header]
"quoted key".'it''s'.x = """
first = 1
[second]
"""

[target.pg18] # = "
kind = "embedded"
settings = { work_mem = "4MB", "a.b" = [1, 2] }

  [ target . "p g" ]
  bin = 'C:\\new = 1'

[sweep]
clients = [
  1, # one
  2,
  # none
  16,
]
workers = 1

[[arms]]
x = 1
[[arms]]
x = 2
[arms.deep]
y = """a \\""" b = 3 """
[[arms.many]]
z = 1
'''.replace("'it''s'", "'its'")
STYLES = '''
'a.b' . "c\\"d" . e_1 = 'L02 # = [ ' # x = 1
"é # x" = "L03 \\" ] # "

# [a]
[tab."x y"] # [x]
text = """L07
[x]
 y = 1 """
literal = QQQL10 QQ
]QQQ
escaped = """L12\\
  "" \\""" # """
quotes = """L14"""""
list = [ # ] }
  "L16", # ] }
  ["L17", { c = "L17", "e f" = ["L17", [], {}], g.h = 'L17' }],
  "L18", "L18" ,
]
none = { a = 1 }
 [[ many ]]
[[many.below . deep]]
x = "L23"
[[many.below.deep]]
x.y = "L25"
[many.below.deep.x.z]
"" = "L27"
[[many]]
below = [ { x = "L29" }, { x = """L29
""", y = "L30" } ]
'''.replace("Q", "'")
"""Keys in every style; each text says its line."""


def test_lines_by_hand_and_assignments() -> None:
    lines = key_lines(DOCUMENT)
    found = {dotted_path(path): line for path, line in lines.items()}
    assert found | {
        "name": 2, '"quoted key".its.x': 3, "target": 8, "target.pg18": 8, "target.pg18.settings.work_mem": 10,
        'target.pg18.settings."a.b"[1]': 10, 'target."p g"': 12, 'target."p g".bin': 13, "sweep.clients": 16,
        "sweep.clients[0]": 17, "sweep.clients[2]": 20, "sweep.workers": 22, "arms[0].x": 25, "arms[1].x": 27,
        "arms[1].deep.y": 29, "arms[1].many[0].z": 31,
    } == found  # fmt: skip
    for text in (STYLES, DOCUMENT, DOCUMENT.replace("\n", "\r\n")):
        assert set(key_lines(text)) == set(_values(tomllib.loads(text)))
    said = {path: int(value[1:3]) for path, value in _values(tomllib.loads(STYLES)).items() if isinstance(value, str)}
    assert key_lines(STYLES) | said == key_lines(STYLES)
    # a missing key has the line of its table
    assert lines[nearest(lines, ("target", "pg18", "version"))] == 8
    assert nearest(lines, ("workload", "scripts")) == ()
    for text in ("", "=1", "a", "a.=1", "a b=1", "[0]=1", '"a=1'):
        with pytest.raises(ValueError, match="expected"):
            split_assignment(text)
    assert split_assignment("""a."é \\"x".'y z'[3] . b_1= v=[1]""") == (("a", 'é "x', "y z", 3, "b_1"), " v=[1]")
    assert dotted_path(("target", "p g", "settings", "a.b", 3)) == 'target."p g".settings."a.b"[3]'


def _values(node: object, path: KeyPath = ()) -> dict[KeyPath, object]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    found: dict[KeyPath, object] = {path: node} if path else {}
    for key, value in pairs:
        found |= _values(value, (*path, key))
    return found


schema = cache(plan_schema)
validator = cache(lambda: jsonschema.Draft7Validator(schema()))
GOOD = tomllib.loads(small_plan(sweep="clients = [1, 4]"))


def assert_kept(plan: Plan) -> None:
    # through JSON, as a manifest is stored
    back = Plan.from_resolved(json.loads(json.dumps(plan.as_resolved())))
    assert back.as_resolved() == plan.as_resolved()
    assert planned_trials(back, 5) == planned_trials(plan, 5)


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: str(entry.name))
def test_a_plan_of_the_catalogue_is_valid_described_and_kept_without_warnings(entry: CatalogueEntry) -> None:
    loaded = load_plan(entry.name)
    assert (loaded.plan.name, loaded.warnings) == (entry.name, [])
    assert entry.description
    validator().validate(tomllib.loads(loaded.text))
    assert_kept(loaded.plan)


def test_only_valid_plans_match_the_schema_which_describes_keys() -> None:
    assert [each for each in VALID if not validator().is_valid(changed(*each))] == []
    assert [each for each in INVALID if validator().is_valid(changed(*each))] == []
    validator().validate(tomllib.loads(new_plan(Path("mine.toml"))))
    jsonschema.Draft7Validator.check_schema(schema())
    assert "open loop" in schema()["definitions"]["Sweep"]["properties"]["rate"]["description"]
    assert "null" not in schema_text()
    # only what extends another plan may leave sections out
    part = {"trial": {"repeats": 5}, "target": {"pg18": {"version": "17"}}}
    assert not validator().is_valid(part)
    assert validator().is_valid(part | {"extends": "quick"})
    # seconds without a unit are for manifests only
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
    ("phase", [{"name": "a", "duration": "3s", "rate": {"from": 1, "to": 20}, "mix": {"tpcb-like": 1}}]),
    ("target/pg18/version", 18), ("target/pg18/settings", {"jit": False}), ("trial/order", "randomised"),
]  # fmt: skip
INVALID = [
    ("nmae", "x"), ("format", 2), ("sweep/clients", 0), ("sweep/clients", []), ("sweep/clients", [1.5]),
    ("sweep/shared_buffers", "1GB"), ("sweep/setings.work_mem", "4MB"), ("sweep/settings.work_mem", []),
    ("sweep/points", [{"clents": 4}]), ("sweep/rate", 0), ("target/pg18/kind", "embeded"),
    ("target/pg18/bin", "/usr/bin"), ("trial/order", "random"), ("trial/duration", 10),
    ("workload/scripts", "select-only"),
]  # fmt: skip
