"""`pgdyno ab`: the plan that it writes, and questions that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.commands.ab import How, ab
from pgdyno.commands.run import Output
from pgdyno.errors import PlanError, TargetError, UsageError
from pgdyno.plan.ab_plan import Question, ab_plan
from pgdyno.plan.model import Plan
from pgdyno.plan.reading.read_plan import LoadedPlan, load_text
from pgdyno.plan.trials import planned_trials
from pgdyno.targets.server import session_options

DSN = "host=db.example.net user=bench dbname=app"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGDATABASE", raising=False)
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    return tmp_path


def loaded(folder: Path, **options: object) -> LoadedPlan:
    return load_text(ab_plan(Question(**options), folder), folder, "ab")  # type: ignore[arg-type]


def test_settings_of_a_server_of_yours_apply_per_session_and_nothing_is_written(folder: Path) -> None:
    plan = loaded(folder, dsn=[DSN], settings=["work_mem=4MB,64MB"], scripts=["q.sql"]).plan
    target, trials = plan.target["server"], planned_trials(plan)
    assert (target.database, target.allow_existing, target.settings) == ("app", True, {})  # type: ignore[attr-defined]
    assert (plan.workload.dataset, plan.reset.checkpoint, plan.trial.repeats) == ("none", False, "6..20")
    assert [trial.point.settings["work_mem"] for trial in trials[:4]] == ["4MB", "64MB", "64MB", "4MB"]
    assert plan.session_settings("server", trials[0].point) == {
        "default_transaction_read_only": "on",
        "work_mem": "4MB",
    }
    assert plan.server_settings("server", trials[0].point) == {}


def test_writes_only_when_asked(folder: Path) -> None:
    plan = loaded(folder, dsn=[DSN], settings=["work_mem=4MB,64MB"], scripts=["q.sql"], writes=True).plan
    assert plan.target["server"].session_settings == {}


def test_settings_of_servers_that_pgdyno_starts_are_those_of_the_server(folder: Path) -> None:
    plan = loaded(folder, versions=["18"], settings=["shared_buffers=64MB,1GB"]).plan
    point = planned_trials(plan)[0].point
    assert plan.server_settings("pg18", point) == {"shared_buffers": "64MB"}
    assert plan.session_settings("pg18", point) == {}
    assert (plan.workload.scripts, plan.workload.dataset, plan.workload.scale) == (["select-only"], "pgbench", 10)


@pytest.mark.parametrize(
    ("options", "targets"),
    [
        ({"versions": ["17", "18"]}, ["pg17", "pg18"]),
        ({"dsn": ["host=old dbname=app", "host=new dbname=app"], "scripts": ["q.sql"]}, ["old", "new"]),
        ({"dsn": ["postgresql://h/app", "postgresql://h/app2"], "scripts": ["q.sql"]}, ["app", "app2"]),
        ({"dsn": ["host=/tmp dbname=a", "host=/run dbname=a"], "scripts": ["q.sql"]}, ["tmp", "run"]),
    ],
)
def test_each_server_has_a_name(folder: Path, options: dict[str, object], targets: list[str]) -> None:
    assert list(loaded(folder, **options).plan.target) == targets


def test_stops_when_decided_unless_a_number_is_given(folder: Path) -> None:
    assert loaded(folder, versions=["17", "18"]).plan.trial.repeats == "6..20"
    trial = loaded(folder, versions=["17", "18"], pairs="8..30", margin="3%").plan.trial
    assert (trial.repeats, trial.margin) == ("8..30", "3%")
    assert loaded(folder, versions=["17", "18"], pairs="10").plan.trial.repeats == 10


def test_one_value_of_a_setting_applies_to_both_arms(folder: Path) -> None:
    plan = loaded(folder, versions=["17", "18"], settings=["work_mem=4MB"]).plan
    assert {trial.point.settings["work_mem"] for trial in planned_trials(plan)} == {"4MB"}


def test_a_setting_that_is_given_several_times_keeps_its_commas(folder: Path) -> None:
    plan = loaded(folder, dsn=[DSN], scripts=["q.sql"], settings=["search_path=a, b", "search_path=c"]).plan
    assert plan.sweep.session_settings == {"search_path": ["a, b", "c"]}


def test_scripts_are_relative_to_the_plan(folder: Path) -> None:
    (folder / "plans").mkdir()
    text = ab_plan(Question(dsn=[DSN], settings=["jit=on,off"], scripts=["q.sql@3"]), folder / "plans")
    assert 'scripts = ["../q.sql@3"]' in text
    assert load_text(text, folder / "plans", "ab").plan.workload.scripts == ["../q.sql@3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dsn": [DSN], "scripts": ["q.sql"]}, "nothing to compare"),
        ({"settings": ["work_mem=1MB,2MB"]}, "no server to measure"),
        ({"dsn": [DSN], "versions": ["18"]}, "servers of several kinds"),
        ({"versions": ["17", "18"], "settings": ["jit=on,off"]}, "several questions at once: --set jit, 2 servers"),
        ({"versions": ["18"], "settings": ["jit=on,on"]}, "--set jit has a value twice"),
        ({"versions": ["18"], "settings": ["jit"]}, "--set jit is not NAME=VALUE"),
        ({"versions": ["17", "17"]}, "--version names one server twice"),
        ({"versions": ["17", "18"], "pairs": "3"}, "3 pairs are too few for a verdict"),
        ({"versions": ["17", "18"], "pairs": "3..9"}, "--pairs: write a range from 6 or more to 1,000 or less"),
        ({"versions": ["17", "18"], "pairs": "few"}, "--pairs: write a number, such as 6, or a range"),
        ({"versions": ["17", "18"], "margin": "70%"}, "--margin: '70%' is not a margin"),
        ({"versions": ["17", "18"], "pairs": "8", "margin": "2%"}, "--margin is valid only with a range of pairs"),
        ({"versions": ["17", "18"], "writes": True}, "--writes applies only to --dsn"),
        ({"dsn": [DSN], "settings": ["jit=on,off"]}, "no --script"),
        ({"dsn": [DSN], "settings": ["jit=on,off"], "scripts": ["select-only"]}, "needs pgbench's tables"),
        (
            {"dsn": [DSN], "settings": ["jit=on,off"], "scripts": ["q.sql"], "scale": 5},
            "--scale applies to servers that",
        ),
        ({"dsn": [f"{DSN} password=secret"]}, "--dsn has a password"),
        ({"dsn": ["host=db"]}, "--dsn names no database"),
        ({"dsn": ["host=db secret"]}, "--dsn is not a connection string"),
    ],
)
def test_refuses_what_is_no_single_question(folder: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(folder, **options)
    assert message in caught.value.message
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("name", ["shared_buffers", "max_wal_size"])
def test_settings_that_no_session_can_have_are_refused_with_the_remedy(folder: Path, name: str) -> None:
    with pytest.raises(PlanError) as caught:
        loaded(folder, dsn=[DSN], settings=[f"{name}=1GB,2GB"], scripts=["q.sql"])
    problem = caught.value.problems[0]
    assert (problem.path, problem.line) == (f"sweep.session_settings.{name}", None)
    assert "cannot be set for a session" in problem.message
    assert "compare the two runs" in str(problem.hint)


EXISTING = """\
name = "far"
[target.app]
kind = "dsn"
dsn = "host=db"
database = "app"
allow_existing = true
{target}
[workload]
scripts = ["q.sql"]
dataset = "none"
[sweep]
clients = 2
{sweep}
[trial]
duration = "1s"
[reset]
checkpoint = false
"""


@pytest.mark.parametrize(
    ("target", "sweep", "path", "remedy"),
    [
        ('settings = { jit = "off" }', "", "target.app.settings.jit", "target.app.session_settings.jit"),
        ("", 'settings.jit = ["on", "off"]', "sweep.settings.jit", "sweep.session_settings.jit"),
        ('session_settings = { fsync = "off" }', "", "target.app.session_settings.fsync", "a server that pgdyno"),
        ("", 'session_settings.jit = "on"\nsettings.jit = "on"', "sweep.session_settings.jit", "remove one of them"),
        ("", 'session_settings.jit = ["on", "on"]', "sweep.session_settings.jit[1]", "trial.repeats"),
    ],
)
def test_a_plan_for_an_existing_database_uses_session_settings(
    folder: Path, target: str, sweep: str, path: str, remedy: str
) -> None:
    with pytest.raises(PlanError) as caught:
        load_text(EXISTING.format(target=target, sweep=sweep), folder, "plan")
    found = {problem.path: problem.hint for problem in caught.value.problems}
    assert remedy in str(found[path])


def test_session_settings_survive_the_manifest(folder: Path) -> None:
    plan = loaded(folder, dsn=[DSN], settings=["work_mem=4MB,64MB"], scripts=["q.sql"]).plan
    resolved = plan.as_resolved()
    assert Plan.from_resolved(resolved).sweep == plan.sweep
    assert "session_settings" not in loaded(folder, versions=["17", "18"]).plan.as_resolved()["sweep"]


def test_options_of_a_session_quote_spaces_and_backslashes() -> None:
    assert session_options({"search_path": "a, b", "app.x": "c:\\d"}) == ["-c search_path=a,\\ b", "-c app.x=c:\\\\d"]


def test_a_script_that_is_no_file_and_a_wrong_dsn_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--script select 1: it is neither a built-in script nor a file"):
        ab_plan(Question(dsn=[DSN], settings=["jit=on,off"], scripts=["select 1"]), tmp_path)
    with pytest.raises(UsageError, match='connection string: invalid connection option "dbnme"'):
        ab_plan(Question(settings=["work_mem=4MB,64MB"], dsn=["host=localhost dbnme=x"]), tmp_path)
    with pytest.raises(UsageError) as hidden:
        ab_plan(Question(settings=["work_mem=4MB,64MB"], dsn=["host=localhost password=a secret=x"]), tmp_path)
    assert "secret" not in hidden.value.message


def test_the_same_question_again_needs_no_other_file(folder: Path) -> None:
    """A server that refuses the first connection must not make the corrected command a mistake."""
    asked = Question(dsn=["host=127.0.0.1 port=1 dbname=app"], settings=["work_mem=4MB,64MB"], scripts=["q.sql"])
    output = Output(html=None, csv=None, quiet=True, json=True)
    how = How(folder / "runs", output, check_first=False, save=folder / "plan.toml")
    for _ in range(2):
        with pytest.raises(TargetError, match="cannot connect"):
            ab(asked, how)
    other = Question(dsn=asked.dsn, settings=["work_mem=4MB,1GB"], scripts=["q.sql"])
    with pytest.raises(UsageError, match="already exists, and asks something else"):
        ab(other, how)
