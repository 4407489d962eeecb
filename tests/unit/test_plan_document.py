"""The text of a plan: lines of its keys, JSON Schema, manifests; finding and reading it, overrides, `--on NAME`."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.errors import ExitCode, PlanError, UsageError
from pgdyno.plan import Plan, catalogue, load_plan, planned_trials
from pgdyno.plan.output.json_schema import plan_schema, schema_text
from pgdyno.plan.output.new import new_plan
from pgdyno.plan.plan_document import KeyPath, dotted_path, key_lines, nearest, split_assignment
from pgdyno.plan.reading.plan_files import CatalogueEntry
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.pool.schema import PoolTarget
from tests.unit.plan_sample import load, small_plan
from tests.unprivileged import unprivileged

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


MINE = """\
name = "mine"
target.pg18 = { kind = "embedded", version = "18" }
workload.scripts = ["select-only"]
sweep.clients = [1, 2]
trial.duration = "10s"
[target.old]
kind = "embedded"
version = "17"
[workload.variables]
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return path


def problems(plan: Path, *overrides: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load_plan(plan, overrides)
    return [each.message for each in caught.value.problems]


def test_a_file_comes_before_the_catalogue_and_a_folder_does_not(mine: Path) -> None:
    loaded = load_plan("mine.toml")
    assert (loaded.source, loaded.text, loaded.folder) == ("mine.toml", MINE, mine.parent)
    assert loaded.plan.trial.duration == 10.0
    (mine.parent / "quick").mkdir()
    assert load_plan("quick").plan.name == "quick"
    (mine.parent / "quick").rmdir()
    mine.rename("quick")
    assert load_plan("quick").plan.name == "mine"


@pytest.mark.usefixtures("mine")
def test_what_is_no_plan_that_can_be_read(mine: Path) -> None:
    # a TOML file that is no plan is not offered
    (mine.parent / "pyproject.toml").write_text("[project]\n")
    for source, hint in (
        ("quik", "did you mean quick?"), ("mnie.toml", "did you mean mine.toml?"), ("zzz", "files here: mine.toml"),
        ("./quick", "catalogue: "), ("mine.toml/x", "catalogue: "),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            load_plan(source)
        assert f"plan {source} does not exist" in caught.value.message
        assert hint in (caught.value.hint or "")
        assert "pyproject" not in (caught.value.hint or "")
    with pytest.raises(UsageError, match="is a folder"):
        load_plan(mine.parent)
    mine.chmod(0)
    with unprivileged():
        (message,) = problems(mine)
    assert "permission denied" in message


def test_files_that_are_not_toml(mine: Path) -> None:
    for content, line, message in (
        (b"a = 1\nname = quick\nb = 2\n", 2, "invalid value"),
        (b'a = 1\n\nname = "quick\nb = 2\n', 3, "does not end on this line"),
        (b"a = 1\na = 2\n", 2, "the key has a value above"),
        (b"[target.a]\nb = 1\n[target.a]\nc = 1\n", 3, "the table is above already: target.a"),
        (b"a = 1\n\nb = [1,\n", 3, "invalid TOML"),
        (b"a = " + b"9" * 5_000, None, "invalid TOML: a number has too many digits"),
        (b"a = 1\nb = '\xff'\n", 2, "not UTF-8"),
        (b"a = " + b"[" * 5000, None, "too deeply"),
    ):
        mine.write_bytes(content)
        with pytest.raises(PlanError) as caught:
            load_plan(mine)
        (problem,) = caught.value.problems
        assert problem.line == line
        assert message.lower() in problem.message.lower()
        assert caught.value.exit_code is ExitCode.PLAN


@pytest.mark.usefixtures("mine")
def test_overrides_and_those_that_make_no_sense() -> None:
    plan = load_plan(
        "mine.toml",
        [
            "trial.duration=5s", 'trial.warmup="1s"', "sweep.clients[1]=8", "sweep.workers=[1]",
            "target.pg18.settings.work_mem=64MB", "target.pg18.settings.jit=false", "target.old.version=18",
            'workload.variables = { range = 7, "x" = "a=b" }', "workload.scripts=['tpcb-like@2', 'select-only']",
            "description=two words",
        ],
    ).plan  # fmt: skip
    assert (plan.trial.duration, plan.trial.warmup, plan.sweep.clients, plan.sweep.workers) == (5.0, 1.0, [1, 8], [1])
    assert plan.target["pg18"].settings == {"work_mem": "64MB", "jit": "off"}
    assert isinstance(plan.target["old"], EmbeddedTarget)
    assert plan.target["old"].version == "18"
    assert plan.workload.variables == {"range": "7", "x": "a=b"}
    assert (plan.workload.scripts, plan.description) == (["tpcb-like@2", "select-only"], "two words")
    # they do not leak into the next plan
    assert load_plan("mine.toml").plan.sweep.clients == [1, 2]
    for override, message in (
        ("trial.repeats", "expected KEY=VALUE"), ("=5", "expected a key"), ("sweep.clients=[1,2", "not valid TOML"),
        ("sweep.clients[2]=1", "has 2 elements"), ("sweep.clients.x=1", "is a list"),
        ("sweep[0]=1", "is a table, not a list"), ("name.x=1", "is one value, not a table"),
        ("name[0].x=1", "is one value, not a list"), ("trial.repeats=1\nseed=2", "not TOML|one value"),
        ('sweep.clients."²"=1', "its elements are"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            load_plan("mine.toml", [override])


def test_deep_keys_endless_numbers_and_passwords_are_refused(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep, digits = "a." * 3_000 + "b = 1", "9" * 5_000
    assert problems(mine, deep) == ["is nested too deeply"]
    load_plan(mine, [f'target.pg18.settings.max_connections="{digits}"'])
    weight = problems(mine, f'workload.scripts=["select-only@{digits}"]')
    assert weight == ["the weight of select-only must be at most 2147483647"]
    mine.write_text(f"{deep}\n{MINE}")
    assert problems(mine) == ["is nested too deeply"]
    # the plan in a manifest has no password
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    loaded = load_plan("quick")
    assert "s3cret" not in repr(loaded) + str(loaded.plan.as_resolved())
    for place in ("target.pg18.password=s3cret", "workload.PGPASSWORD=s3cret", "password=s3cret"):
        with pytest.raises(PlanError) as caught:
            load_plan("quick", [place])
        assert [problem.message for problem in caught.value.problems] == ["unknown key"]
        assert "s3cret" not in str(caught.value.problems)


# ---- --on ----

RENTED = """\
name = "two"
[target.rds]
kind = "rds"
version = "17"
instance = "db.m7g.large"
[on.small.mine]
kind = "embedded"
version = "17"
settings = { work_mem = "8MB" }
[on.wrong.mine]
kind = "embedded"
vershun = "17"
[workload]
scripts = ["select-only"]
[sweep]
clients = 1
[trial]
duration = "5s"
"""


@pytest.fixture
def rented_plan(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(RENTED)
    return file


def test_other_targets_have_overrides_of_their_own_and_mistakes_with_lines(rented_plan: Path) -> None:
    loaded = load_plan(rented_plan).plan
    assert list(loaded.target) == ["rds"]
    # the others are no part of what runs
    assert "on" not in loaded.as_resolved()
    chosen = load_plan(rented_plan, ["target.mine.version=16"], "small").plan
    (target,) = chosen.target.values()
    assert isinstance(target, EmbeddedTarget)
    assert (list(chosen.target), target.version, target.settings) == (["mine"], "16", {"work_mem": "8MB"})
    with pytest.raises(PlanError) as caught:
        load_plan(rented_plan, on="wrong")
    assert [(each.path, each.line) for each in caught.value.problems if "vershun" in each.path] == [
        ("target.mine.vershun", 12)
    ]
    with pytest.raises(UsageError) as usage:
        load_plan(rented_plan, on="nowhere")
    assert usage.value.hint is not None
    assert "available: dsn, embedded, pool, small, wrong" in usage.value.hint


def test_every_plan_has_a_server_of_this_machine_and_one_that_libpq_finds(rented_plan: Path) -> None:
    (here,) = load_plan(rented_plan, on="embedded").plan.target.values()
    assert isinstance(here, EmbeddedTarget)
    (there,) = load_plan(rented_plan, on="dsn").plan.target.values()
    assert isinstance(there, DsnTarget)
    assert there.dsn == ""
    hosts = """target.host.hosts=[{host="db1"}]"""
    (borrowed,) = load_plan(rented_plan, [hosts], "pool").plan.target.values()
    assert isinstance(borrowed, PoolTarget)
    assert [each.host for each in borrowed.hosts] == ["db1"]
    with pytest.raises(PlanError) as caught:
        load_plan(rented_plan, on="pool")
    assert [(each.path, each.hint) for each in caught.value.problems] == [
        ("target.host.hosts", 'such as hosts = [{ host = "db1.example.net", user = "root" }]')
    ]


@pytest.mark.parametrize("name", ["aurora-sysbench", "graviton-pgbench", "pgecons-queries", "pgecons-tprocc"])
def test_a_plan_of_the_catalogue_that_rents_can_be_small(name: str) -> None:
    here = load_plan(name, on="embedded")
    assert here.warnings == []
    small = within_budget(here, "5m").plan
    assert all(isinstance(each, EmbeddedTarget) for each in small.target.values())
    assert load_plan(name, on="dsn").plan.points()
    (host,) = load_plan(name, ['target.host.hosts=[{host="db1"}]'], "pool").plan.target.values()
    assert isinstance(host, PoolTarget)
    assert host.version == "17"
