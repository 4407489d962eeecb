"""The text of a plan: line numbers of its keys, and the JSON Schema for editors; manifests keep plans as they are."""

import json
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pgdyno.plan import Plan, catalogue, load_plan, planned_trials
from pgdyno.plan.output.json_schema import plan_schema, schema_text
from pgdyno.plan.output.new import new_plan
from pgdyno.plan.plan_document import KeyPath, dotted_path, key_lines, nearest, split_assignment
from pgdyno.plan.reading.plan_files import CatalogueEntry
from tests.unit.plan_sample import load, small_plan
from tests.unit.test_docs import plans

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


def test_lines_by_hand_and_assignments() -> None:
    lines = key_lines(DOCUMENT)
    found = {dotted_path(path): line for path, line in lines.items()}
    assert found | {
        "name": 2, '"quoted key".its.x': 3, "target": 8, "target.pg18": 8, "target.pg18.settings.work_mem": 10,
        'target.pg18.settings."a.b"[1]': 10, 'target."p g"': 12, 'target."p g".bin': 13, "sweep.clients": 16,
        "sweep.clients[0]": 17, "sweep.clients[2]": 20, "sweep.workers": 22, "arms[0].x": 25, "arms[1].x": 27,
        "arms[1].deep.y": 29, "arms[1].many[0].z": 31,
    } == found  # fmt: skip
    for text in (DOCUMENT, DOCUMENT.replace("\n", "\r\n")):
        assert set(key_lines(text)) == set(_paths(tomllib.loads(text)))
    # a missing key has the line of its table
    assert lines[nearest(lines, ("target", "pg18", "version"))] == 8
    assert nearest(lines, ("workload", "scripts")) == ()
    for text in ("", "=1", "a", "a.=1", "a b=1", "[0]=1", '"a=1'):
        with pytest.raises(ValueError, match="expected"):
            split_assignment(text)
    assert dotted_path(("target", "p g", "settings", "a.b", 3)) == 'target."p g".settings."a.b"[3]'


def _paths(node: object, path: KeyPath = ()) -> list[KeyPath]:
    if isinstance(node, dict):
        below = [each for key, value in node.items() for each in _paths(value, (*path, key))]
    elif isinstance(node, list):
        below = [each for place, value in enumerate(node) for each in _paths(value, (*path, place))]
    else:
        below = []
    return below if path == () else [path, *below]


# ---- documents in every style ----

KEYS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\x7f", exclude_categories=["Cs"]), max_size=5),
)
LEAF = object()
TREES = st.recursive(
    st.just(LEAF),
    lambda below: st.one_of(st.dictionaries(KEYS, below, max_size=4), st.lists(below, max_size=4)),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(KEYS, TREES, max_size=5)


@dataclass
class _Author:
    """Writes a tree as TOML, each leaf with a mark of its own that tells later where it went."""

    draw: Any
    lines: list[str] = field(default_factory=list)
    marks: dict[KeyPath, str] = field(default_factory=dict)

    def choose(self, *options: str) -> str:
        return str(self.draw(st.sampled_from(options)))

    def table(self, tree: dict[str, Any], path: KeyPath) -> None:
        headers = []
        for key, value in tree.items():
            as_header = isinstance(value, dict) and self.choose("header", "here") == "header"
            of_tables = isinstance(value, list) and value and all(isinstance(each, dict) for each in value)
            if as_header or (of_tables and self.choose("header", "here") == "header"):
                headers.append((key, value))
            else:
                self.assignment([key], value, (*path, key))
        for key, value in headers:
            for place, each in enumerate(value if isinstance(value, list) else [value]):
                below: KeyPath = (*path, key, place) if isinstance(value, list) else (*path, key)
                written = ".".join(self.key(part) for part in (*path, key) if isinstance(part, str))
                opening, closing = ("[[", "]]") if isinstance(value, list) else ("[", "]")
                self.lines.append(f"{opening} {written} {closing}{self.choose('', ' # [x]', '  ')}")
                self.table(each, below)

    def assignment(self, keys: list[str], value: object, path: KeyPath) -> None:
        if isinstance(value, dict) and value and self.choose("dotted", "inline") == "dotted":
            for key, below in value.items():
                self.assignment([*keys, key], below, (*path, key))
            return
        written = self.choose(".", " . ").join(self.key(key) for key in keys)
        comment = self.choose("", " # x = 1", "\n\n# [a]\n")
        self.lines += f"{written} = {self.value(value, path, 1)}{comment}".split("\n")

    def key(self, key: str) -> str:
        bare = key and key.isascii() and all(letter.isalnum() or letter in "_-" for letter in key)
        if bare and self.choose("bare", "quoted") == "bare":
            return key
        literal = all(letter.isprintable() and letter != "'" for letter in key)
        return f"'{key}'" if literal and self.choose("'", '"') == "'" else json.dumps(key, ensure_ascii=False)

    def value(self, value: object, path: KeyPath, depth: int) -> str:
        if value is LEAF:
            mark = self.marks[path] = f"m{len(self.marks):04d}m"
            return self.choose(
                f'"{mark}"',
                f"'{mark} # = [ '",
                f'"{mark} \\" ] # "',
                f'"""{mark}\n[x]\n y = 1 """',
                f"'''{mark} ''\n]'''",
                f'"""{mark}\\\n  "" \\""" # """',
            )
        if isinstance(value, dict):
            pairs = [f"{self.key(key)} = {self.value(each, (*path, key), 9)}" for key, each in value.items()]
            return "{ " + ", ".join(pairs) + " }"
        blank = self.choose("", " ", "\n", " # ] }\n  ") if depth < 9 else ""
        assert isinstance(value, list)
        elements = [self.value(each, (*path, place), depth) for place, each in enumerate(value)]
        return "[" + blank + f",{blank}".join(elements) + (f"{blank},{blank}" if elements else "") + "]"


@pytest.mark.slow
@settings(max_examples=50)
@given(tree=DOCUMENTS, data=st.data())
def test_lines_of_generated_documents(tree: dict[str, Any], data: st.DataObject) -> None:
    author = _Author(data.draw)
    author.table(tree, ())
    text = "\n".join(author.lines)
    # a document with a table written in two ways is refused: nothing to find then
    parsed = tomllib.loads(text)
    lines = key_lines(text)
    assert set(lines) == set(_paths(parsed))
    written = text.split("\n")
    for path, mark in author.marks.items():
        assert mark in written[lines[path] - 1]


@given(KEYS.filter(bool), st.integers(0, 99), st.text(max_size=5))
def test_an_assignment_splits_where_it_was_put_together(key: str, place: int, value: str) -> None:
    written = f"a.{json.dumps(key, ensure_ascii=False)}[{place}].b={value}"
    assert split_assignment(written) == (("a", key, place, "b"), value)


schema = cache(plan_schema)
validator = cache(lambda: jsonschema.Draft7Validator(schema()))
GOOD = tomllib.loads(small_plan(sweep="clients = [1, 4]"))
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
    validator().validate(tomllib.loads(loaded.text))
    assert_kept(loaded.plan)


@pytest.mark.parametrize(("name", "text"), [("whole", WHOLE), ("new", new_plan(Path("mine.toml"))), *SHOWN])
def test_a_plan_of_the_documentation_is_valid_and_kept(name: str, text: str) -> None:
    document = tomllib.loads(text)
    validator().validate(document)
    if "extends" not in document:
        assert_kept(Plan.model_validate(document))
    assert name


def test_only_valid_plans_match_the_schema_which_describes_keys() -> None:
    assert [each for each in VALID if not validator().is_valid(changed(*each))] == []
    assert [each for each in INVALID if validator().is_valid(changed(*each))] == []
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
    ("target/pg18/version", 18), ("target/pg18/settings", {"jit": False}), ("trial/order", "randomised"),
]  # fmt: skip
INVALID = [
    ("nmae", "x"), ("format", 2), ("sweep/clients", 0), ("sweep/clients", []), ("sweep/clients", [1.5]),
    ("sweep/shared_buffers", "1GB"), ("sweep/setings.work_mem", "4MB"), ("sweep/settings.work_mem", []),
    ("sweep/points", [{"clents": 4}]), ("sweep/rate", 0), ("target/pg18/kind", "embeded"),
    ("target/pg18/bin", "/usr/bin"), ("trial/order", "random"), ("trial/duration", 10),
    ("workload/scripts", "select-only"),
]  # fmt: skip
