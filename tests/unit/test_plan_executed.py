"""The code that a plan runs, as `plan check` lists it."""

import json
from pathlib import Path

import pytest

from pgdyno.plan import load_plan
from pgdyno.plan.model import Plan
from pgdyno.plan.output.executed_code import executed, executed_lines
from pgdyno.plan.output.show_plan import show_json

PLAN = """\
name = "code"
[target.pg18]
kind = "embedded"
version = "18"
settings.archive_command = "cp %p /tmp"
initdb = ["-c", "log_statement=all"]
[target.pg18.environment]
variables = { LD_PRELOAD = "./mine.so", MALLOC_ARENA_MAX = 2 }
[target.far]
kind = "dsn"
dsn = "host=db"
[target.far.ssh]
host = "db"
config = "SOURCE/ssh_config"
[target.built]
kind = "build"
source = "SOURCE"
configure = ["--without-icu"]
build_variables = { CC = "./cc" }
patches = ["v1.patch"]
extensions = [{ source = "SOURCE", commit = "v0.9", make = ["A=b c"] }]
[workload]
scripts = ["shell.sql", "select-only"]
[sweep]
clients = 1
settings.session_preload_libraries = ["", "auto_explain"]
[trial]
duration = "10s"
[[event]]
at = "1s"
do = { command = "touch 'here'" }
[hooks]
before_run = ["./hook.sh", "a b"]
after_trial = "sync; date"
"""
SCRIPT = "SELECT 1;\n\\shell touch here\n\\setshell n echo 1\nCOPY t FROM PROGRAM 'id';\n"

SETTING = "the server runs or loads what its setting names"
BUILD = "builds the sources in SOURCE, v1.patch with CC=./cc configure --without-icu, and runs what is built"

EXTENSION = "builds the extension SOURCE, commit v0.9 with make 'A=b c', for the server to load"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "shell.sql").write_text(SCRIPT)
    for name in ("configure", "Makefile", "v1.patch"):
        (tmp_path / name).touch()
    (tmp_path / "ssh_config").touch()
    path = tmp_path / "code.toml"
    path.write_text(PLAN.replace("SOURCE", str(tmp_path)))
    return path


def test_everything_that_runs_code_is_listed_with_its_line(plan: Path) -> None:
    lines = [line.replace(f"{plan.parent}/", "") for line in executed_lines(load_plan(plan))]
    lines = [line.replace(str(plan.parent), "SOURCE") for line in lines]
    assert lines == [
        "this plan runs on this host:",
        "  code.toml:6: target.pg18.initdb: initdb -c log_statement=all",
        "  code.toml:8: target.pg18.environment.variables.LD_PRELOAD: the server starts with LD_PRELOAD=./mine.so",
        f"  code.toml:5: target.pg18.settings.archive_command: {SETTING}: cp %p /tmp",
        "  code.toml:14: target.far.ssh.config: commands that ssh_config names (ProxyCommand, Match exec)",
        f"  code.toml:17: target.built.source: {BUILD}",
        f"  code.toml:21: target.built.extensions[0]: {EXTENSION}",
        f"  code.toml:26: sweep.settings.session_preload_libraries: {SETTING}: ['', 'auto_explain']",
        "  code.toml:23: workload.scripts[0]: shell.sql:2: \\shell touch here",
        "  code.toml:23: workload.scripts[0]: shell.sql:3: \\setshell n echo 1",
        "  code.toml:23: workload.scripts[0]: shell.sql:4: PROGRAM 'id';",
        """  code.toml:31: event[0].do: /bin/sh -c 'touch '"'"'here'"'"''""",
        "  code.toml:33: hooks.before_run: ./hook.sh 'a b'",
        "  code.toml:34: hooks.after_trial: /bin/sh -c 'sync; date'",
    ]


@pytest.mark.parametrize(
    ("script", "listed"),
    [
        ("SELECT 1; \\shell touch it\n", "\\shell touch it"),
        ("SELECT 1\\;\\shell touch it\n", "\\shell touch it"),
        ("/* c */ \\setshell n touch it\n", "\\setshell n touch it"),
        ("\f\\shell touch it\n", "\\shell touch it"),
        ("\v\\SetShell n touch it\n", "\\SetShell n touch it"),
        ("\\shell\\\n touch \\\n it\n", "\\shell touch it"),
        ("COPY t FROM PROGRAM U&'touch it';\n", "PROGRAM U&'touch it';"),
        ("COPY t FROM PROGRAM/**/'touch it';\n", "PROGRAM/**/'touch it';"),
    ],
)
def test_no_way_of_writing_hides_a_command(plan: Path, script: str, listed: str) -> None:
    (plan.parent / "shell.sql").write_text(script)
    assert [each.what for each in executed(load_plan(plan)) if "scripts" in each.field] == [f"shell.sql:1: {listed}"]


@pytest.mark.parametrize("setting", ["basebackup_to_shell.command", "oauth_validator_libraries", "plperl.on_init"])
def test_settings_of_extensions_are_listed_too(plan: Path, setting: str) -> None:
    plan.write_text(plan.read_text().replace("archive_command", f'"{setting}"'))
    assert any(setting in each.field for each in executed(load_plan(plan)))


def test_the_list_is_in_json_too(plan: Path) -> None:
    listed = json.loads(show_json(load_plan(plan)))["executes"]
    assert listed[-1] == {
        "field": "hooks.after_trial",
        "file": str(plan),
        "line": 34,
        "what": "/bin/sh -c 'sync; date'",
        "inherited": False,
    }


def test_code_of_an_extended_plan_is_listed_with_that_plan_s_line(plan: Path) -> None:
    child = plan.parent / "child.toml"
    child.write_text('extends = "code"\nname = "child"\n[hooks]\nafter_run = "true"\n')
    found = {each.field: each for each in executed(load_plan(child))}
    hook, own = found["hooks.before_run"], found["hooks.after_run"]
    assert (Path(hook.file).name, hook.line, hook.inherited) == ("code.toml", 33, True)
    assert (Path(own.file).name, own.line, own.inherited) == ("child.toml", 4, False)
    given = load_plan(child, ["hooks.before_run='id'"])
    assert next(each for each in executed(given) if each.field == "hooks.before_run").line is None


LUA = """\
name = "lua"
target.pg18 = { kind = "embedded", version = "18" }
sweep.clients = 1
trial.duration = "1s"
[workload]
"""


def test_a_lua_script_is_listed_with_what_it_may(tmp_path: Path) -> None:
    path = tmp_path / "lua.toml"
    path.write_text(LUA + 'lua = "mine.lua"\n')
    loaded = load_plan(path)
    said = "lua.toml:6: workload.lua: the Lua script mine.lua, which may start programs and call C"
    assert executed_lines(loaded)[1].endswith(said)
    assert "allow_lua_system" not in loaded.plan.as_resolved()["workload"]
    path.write_text(LUA + 'lua = "mine.lua"\nallow_lua_system = true\n')
    # the key of earlier versions changes nothing
    assert executed_lines(load_plan(path))[1].endswith(said)
    assert load_plan(path).plan.as_resolved() == loaded.plan.as_resolved()
    assert Plan.from_resolved(loaded.plan.as_resolved()).workload.lua_script == "mine.lua"
    path.write_text(LUA + 'name = "oltp-insert"\n')
    assert executed_lines(load_plan(path)) == ["the plan has no hooks or commands that run on this host"]
