"""Plans, their problems and the code that they run as text; `pgdyno plan new`."""

import io
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pgdyno.errors import PlanError, Problem, StoreError, UsageError
from pgdyno.plan import LoadedPlan, Plan, load_plan
from pgdyno.plan.output.executed_code import executed_lines, list_executed_code
from pgdyno.plan.output.new import new_plan, write_new_plan
from pgdyno.plan.output.plan_output import check_text, problem_lines, total
from pgdyno.plan.output.show_plan import show_json, show_lines
from pgdyno.plan.reading.problems import SECTIONS
from tests.unit.plan_sample import loaded, small_plan

PROBLEMS = [
    Problem("target.pg18.version", "is missing", 12, 'such as version = "18"'),
    Problem("workload.scripts[0]", "it is " + "very " * 30 + "wrong"),
    Problem("", "is invalid TOML: invalid value", 3),
]


def shown(plan: LoadedPlan, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(show_lines(plan))
    return out.getvalue()


def shown_quick(*overrides: str) -> str:
    return shown(load_plan("quick", overrides))


def test_problems_name_file_line_and_field() -> None:
    lines = check_text(PROBLEMS, "quick.toml").splitlines()
    assert problem_lines(PlanError("quick.toml", PROBLEMS)) == lines
    assert lines[0] == "quick.toml:12: target.pg18.version: is missing"
    assert lines[1] == '    such as version = "18"'
    assert lines[2].startswith("quick.toml: workload.scripts[0]: it is very")
    assert lines[-1] == "quick.toml:3: is invalid TOML: invalid value"
    assert max(map(len, lines)) <= 80
    assert check_text([], "quick.toml") == "quick.toml: no problems"
    # a long path is not torn
    path = "/" + "x" * 100
    assert path in check_text([Problem("target.a.bin", f"there is no folder {path}")], "p.toml", 40).splitlines()[-1]


def test_the_trials_of_a_plan_hold_80_columns() -> None:
    text = shown_quick("sweep.workers=[1]", 'sweep.protocol=["simple","prepared"]', "target.pg18.settings.jit=off")
    assert max(len(line) for line in text.splitlines()) <= 80
    rows = [line.split() for line in text.splitlines()]
    assert ["1", "pg18", "2", "1", "simple", "10", "1", "1s", "+", "4s"] in rows
    assert ["36", "pg18", "64", "1", "prepared", "10", "3", "1s", "+", "4s"] in rows
    assert "36 trials, 3 min of measurement, plus starting servers and loading (1 dataset)" in text
    assert "target pg18: PostgreSQL 18, embedded, 1 setting changed" in text
    assert "before each trial: vacuum tellers and branches, empty the history; checkpoint" in text
    assert "plus about 1 min 03 s for the steps before each trial and the checks after it" in text
    assert "load from" not in text
    lines = shown_quick('generators=["local:2", "ssh://a"]').splitlines()
    assert "load from local:2, ssh://a" in [each.rstrip() for each in lines]
    # settings have columns while there is room, and share one afterwards
    text = shown_quick('sweep.settings.work_mem=["4MB","8MB"]', "sweep.settings.jit=off", "sweep.clients=4")
    assert "every trial: jit off" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["trial", "target", "clients", "protocol", "scale", "work_mem", "repeat", "length"] in rows
    # the other value comes first where no seed is given
    assert ["2", "pg18", "4", "prepared", "10", "4MB", "1", "1s", "+", "4s"] in rows
    names = ("shared_buffers", "synchronous_commit", "wal_compression", "auto_explain.log_min_duration")
    text = shown_quick(*(f"sweep.settings.{name}=[1,2]" for name in names), "sweep.clients=4", "trial.repeats=1")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:5] == ["1", "pg18", "4", "prepared", "10"] for line in lines)
    assert all(name in text.replace("\n", "").replace(" ", "") for name in names[:3])


def test_loads_without_a_protocol_and_without_a_time() -> None:
    for name in ("pgecons-tprocc", "aurora-sysbench"):
        text = shown(load_plan(name), 200)
        assert " clients " in text
        assert "protocol" not in text
    # an override cannot remove a key
    quick = load_plan("quick")
    trial = quick.plan.trial.model_copy(update={"duration": None, "warmup": 0.0, "transactions": 1000})
    text = shown(replace(quick, plan=quick.plan.model_copy(update={"trial": trial})))
    assert "1,000 tx/client" in text
    assert "18 trials; each ends after 1,000 transactions per client" in text


def test_a_server_that_exists_is_not_started_and_a_search_is_counted_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1;")
    for dataset, loading in (("none", "\n"), ("pgbench", ", plus loading (1 dataset)\n")):
        text = small_plan(f'scripts = ["q.sql"]\ndataset = "{dataset}"', "clients = [1, 4]", 'duration = "30s"')
        theirs = 'kind = "dsn"\ndsn = "host=db"\ndatabase = "app"\nallow_existing = true'
        plan = loaded(tmp_path, text.replace('kind = "embedded"\nversion = "18"', theirs)).plan
        assert f"2 trials, 1 min of measurement{loading}" in total(plan)
    assert total(load_plan("quick", ["search.find=peak"]).plan) == (
        "searches for the peak of throughput from 2 to 64 clients; 3 trials per step; "
        "the number of steps depends on the results"
    )


def test_show_as_json() -> None:
    data = json.loads(show_json(load_plan("quick", ["trial.repeats=1"])))
    assert (data["source"], data["measuring_s"], len(data["trials"])) == ("quick", 30.0, 6)
    nothing = dict.fromkeys(("workers", "rate", "group", "step", "connect"))
    assert data["trials"][2] == {**nothing, "settings": {}, "variables": {}, "groups": {}} | {
        "number": 3, "slug": "0003-pg18-c8", "target": "pg18", "repeat": 1, "block": 1, "control": False, "clients": 8,
        "protocol": "prepared", "scale": 10,
    }  # fmt: skip
    assert data["plan"]["trial"]["on_failure"] == "continue"


# ---- what runs code ----

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


def test_everything_that_runs_code_is_listed_with_its_line_also_of_an_extended_plan(plan: Path) -> None:
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
    listed = json.loads(show_json(load_plan(plan)))["executes"]
    assert listed[-1] == {
        "field": "hooks.after_trial", "file": str(plan), "line": 34, "what": "/bin/sh -c 'sync; date'",
        "inherited": False,
    }  # fmt: skip
    child = plan.parent / "child.toml"
    child.write_text('extends = "code"\nname = "child"\n[hooks]\nafter_run = "true"\n')
    found = {each.field: each for each in list_executed_code(load_plan(child))}
    hook, own = found["hooks.before_run"], found["hooks.after_run"]
    assert (Path(hook.file).name, hook.line, hook.inherited) == ("code.toml", 33, True)
    assert (Path(own.file).name, own.line, own.inherited) == ("child.toml", 4, False)
    given = load_plan(child, ["hooks.before_run='id'"])
    assert next(each for each in list_executed_code(given) if each.field == "hooks.before_run").line is None


def test_no_way_of_writing_hides_a_command(plan: Path) -> None:
    for script, listed in (
        ("SELECT 1; \\shell touch it\n", "\\shell touch it"), ("SELECT 1\\;\\shell touch it\n", "\\shell touch it"),
        ("/* c */ \\setshell n touch it\n", "\\setshell n touch it"), ("\f\\shell touch it\n", "\\shell touch it"),
        ("\v\\SetShell n touch it\n", "\\SetShell n touch it"), ("\\shell\\\n touch \\\n it\n", "\\shell touch it"),
        ("COPY t FROM PROGRAM U&'touch it';\n", "PROGRAM U&'touch it';"),
        ("COPY t FROM PROGRAM/**/'touch it';\n", "PROGRAM/**/'touch it';"),
    ):  # fmt: skip
        (plan.parent / "shell.sql").write_text(script)
        assert [each.what for each in list_executed_code(load_plan(plan)) if "scripts" in each.field] == [
            f"shell.sql:1: {listed}"
        ]
    # settings of extensions are listed, too
    text = plan.read_text()
    for setting in ("basebackup_to_shell.command", "oauth_validator_libraries", "plperl.on_init"):
        plan.write_text(text.replace("archive_command", f'"{setting}"'))
        assert any(setting in each.field for each in list_executed_code(load_plan(plan)))


def test_a_lua_script_is_listed_with_what_it_may(tmp_path: Path) -> None:
    text = small_plan('lua = "mine.lua"')
    of = loaded(tmp_path, text)
    said = "mine.toml:6: workload.lua: the Lua script mine.lua, which may start programs and call C"
    assert executed_lines(of)[1].endswith(said)
    # the key of earlier versions changes nothing
    older = loaded(tmp_path, text.replace("[sweep]", "allow_lua_system = true\n[sweep]"))
    assert executed_lines(older)[1].endswith(said)
    assert older.plan.as_resolved() == of.plan.as_resolved()
    assert "allow_lua_system" not in of.plan.as_resolved()["workload"]
    assert Plan.from_resolved(of.plan.as_resolved()).workload.lua_script == "mine.lua"
    none = "the plan has no hooks or commands that run on this host"
    assert executed_lines(loaded(tmp_path, small_plan('name = "oltp-insert"'))) == [none]


def test_new_plans_and_scenarios_are_right_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "my first.toml"
    write_new_plan(path)
    plan = load_plan(path).plan
    assert (plan.name, list(plan.target)) == ("my-first", ["pg18"])
    with pytest.raises(UsageError, match="already exists"):
        write_new_plan(path)
    assert load_plan(path).plan == plan
    with pytest.raises(UsageError, match="already exists"):
        write_new_plan(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        write_new_plan(tmp_path / "no" / "mine.toml")
    with pytest.raises(StoreError, match="cannot write"):
        write_new_plan(tmp_path / ("x" * 300))
    path = tmp_path / "beside.toml"
    write_new_plan(path, template="scenario.toml")
    plan = load_plan(path).plan
    assert (plan.name, [group.name for group in plan.group]) == ("beside", ["orders", "reports", "sleepers"])
    assert len(plan.points()) == 3
    # its steps are valid, too
    lines = path.read_text().splitlines()
    begin = lines.index("# [[step]]")
    (tmp_path / "indexes.sql").write_text("SELECT 1;\n")
    steps = [line.removeprefix("# ") for line in lines[begin:]]
    kept = [line for line in lines[:begin] if not line.startswith(("warmup", "duration"))]
    path.write_text("\n".join([*kept, *steps]))
    assert [step.name for step in load_plan(path).plan.step] == ["fill", "index", "reports beside orders"]


def test_a_new_plan_has_every_section_and_the_name_of_its_file() -> None:
    text = new_plan(Path("mine.toml"))
    for section in SECTIONS:
        assert f"[{section}]" in text
    assert max(map(len, text.splitlines())) <= 120
    for file, name in (("a.toml", "a"), ("ä.toml", "plan"), ("-.toml", "plan"), ("x y.z", "x-y-z")):
        assert tomllib.loads(new_plan(Path(file)))["name"] == name


def test_commented_out_lines_are_valid(tmp_path: Path) -> None:
    lines = new_plan(tmp_path / "mine.toml").splitlines()
    options = [at for at, line in enumerate(lines) if re.match(r"# [\w.]+ = ", line)]
    assert len(options) > 10
    for at in options:
        changed = list(lines)
        changed[at] = lines[at].removeprefix("# ")
        back = at - 1
        while lines[back].startswith("# ") and not lines[back].startswith("# ["):
            back -= 1
        if lines[back].startswith("# ["):
            # of a table that is commented out: all of it
            end = next(number for number in range(back, len(lines) + 1) if not "".join(lines[number : number + 1]))
            changed = [line.removeprefix("# ") if back <= number < end else line for number, line in enumerate(lines)]
        if "[[phase]]" in changed:
            changed = [line for line in changed if not line.startswith(("warmup", 'duration = "10s"'))]
        if "[[step]]" in changed:
            changed = [line for line in changed if not line.startswith(("warmup", 'duration = "10s"'))]
            changed += ["[[group]]", 'name = "orders"', 'scripts = ["select-only"]']
        if "[[group]]" in changed and "background = true" not in changed:
            changed = [line for line in changed if not line.startswith("clients = [")]
        (tmp_path / "mine.toml").write_text("\n".join(changed))
        assert load_plan(tmp_path / "mine.toml").plan.points(), lines[at]


def test_the_kind_of_target_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no plan for targets of kind embeded") as caught:
        new_plan(Path("x"), "embeded")
    assert caught.value.hint == "did you mean embedded?"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pgdyno.plan.output.new._INSTALLED", str(tmp_path))
    with pytest.raises(UsageError, match="found no PostgreSQL"):
        new_plan(tmp_path / "mine.toml", "local")
    # the newest of Debian's, unless a pg_config is on the path
    for name in ("9.6/bin/initdb", "9.6/bin/postgres", "17/bin/initdb", "17/bin/postgres"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert str(tmp_path / "17" / "bin") in new_plan(tmp_path / "mine.toml", "local")
    for name in ("pg_config", "initdb", "postgres"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    write_new_plan(tmp_path / "mine.toml", "local")
    assert load_plan(tmp_path / "mine.toml").plan.target["local"].model_dump()["bin"] == str(tmp_path)
