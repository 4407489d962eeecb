"""`pgdyno ab`: the plan that it writes, and questions that it refuses."""

import os
from pathlib import Path
from typing import Any

import pytest

from pgdyno.commands.comparison import ab_answer
from pgdyno.commands.comparison.ab_answer import measure_and_answer
from pgdyno.commands.support.carry_out import How, Output, resume_run, run_plan
from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.effect.read_only import first_escape
from pgdyno.errors import ExitCode, PlanError, StoreError, TargetError, UsageError
from pgdyno.plan import Plan, load_plan
from pgdyno.plan.ab_plan import Question, ab_plan, question_of_plan
from pgdyno.plan.loaded_plan import load_text
from pgdyno.plan.output.new import write_new_plan
from pgdyno.plan.trials import planned_trials
from pgdyno.targets.connection import given_parameters
from pgdyno.targets.server import session_options
from tests.unit.plan_sample import small_plan
from tests.unprivileged import unprivileged

QUIET = Output(html=None, csv=None, quiet=True, json=True)
DSN = "host=db.example.net user=bench dbname=app"
NOBODY = "host=127.0.0.1 port=1 dbname=app"
YOURS: dict[str, Any] = {"dsn": [DSN], "settings": ["jit=on,off"], "scripts": ["q.sql"]}
MEMORY: dict[str, Any] = YOURS | {"settings": ["work_mem=4MB,64MB"]}
OLD_AND_NEW: dict[str, Any] = {"versions": ["17", "18"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGDATABASE", raising=False)
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    return tmp_path


def ab(folder: Path, **options: Any) -> Plan:  # noqa: ANN401 - of any type
    return load_text(ab_plan(Question(**options), folder), folder, "ab").plan


def how_to_run(folder: Path, save: Path | None = None, output: Output = QUIET, budget: str | None = None) -> How:
    return How(folder / "runs", output, check_first=False, save=save, budget=budget)


def test_settings_apply_per_session_to_a_server_of_yours_and_to_servers_that_pgdyno_starts(folder: Path) -> None:
    plan = ab(folder, **MEMORY)
    target, trials = plan.target["server"], planned_trials(plan)
    assert (target.database, target.allow_existing, target.settings) == ("app", True, {})  # type: ignore[attr-defined]
    assert (plan.workload.dataset, plan.reset.checkpoint, plan.trial.repeats) == ("none", False, "6..20")
    values = [trial.point.settings["work_mem"] for trial in trials[:4]]
    assert set(values[:2]) == set(values[2:]) == {"4MB", "64MB"}
    assert plan.session_settings("server", trials[0].point) == {
        "default_transaction_read_only": "on",
        "work_mem": values[0],
    }
    assert plan.server_settings("server", trials[0].point) == {}
    assert Plan.from_resolved(plan.as_resolved()).sweep == plan.sweep
    # writes only when asked
    assert ab(folder, **MEMORY, writes=True).target["server"].session_settings == {}
    # servers that pgdyno starts
    plan = ab(folder, versions=["18"], settings=["shared_buffers=64MB,1GB"])
    point = next(trial.point for trial in planned_trials(plan) if trial.point.settings["shared_buffers"] == "64MB")
    assert plan.server_settings("pg18", point) == {"shared_buffers": "64MB"}
    assert plan.session_settings("pg18", point) == {}
    assert (plan.workload.scripts, plan.workload.dataset, plan.workload.scale) == (["select-only"], "pgbench", 10)
    # one value applies to both arms
    plan = ab(folder, **OLD_AND_NEW, settings=["work_mem=4MB"])
    assert {trial.point.settings["work_mem"] for trial in planned_trials(plan)} == {"4MB"}
    assert "session_settings" not in plan.as_resolved()["sweep"]


def test_each_server_has_a_name(folder: Path) -> None:
    for options, targets in (
        ({"versions": ["17", "18"]}, ["pg17", "pg18"]),
        ({"dsn": ["host=old dbname=app", "host=new dbname=app"], "scripts": ["q.sql"]}, ["old", "new"]),
        ({"dsn": ["postgresql://h/app", "postgresql://h/app2"], "scripts": ["q.sql"]}, ["app", "app2"]),
        ({"dsn": ["host=/tmp dbname=a", "host=/run dbname=a"], "scripts": ["q.sql"]}, ["tmp", "run"]),
    ):
        assert list(ab(folder, **options).target) == targets


def test_stops_when_decided_unless_a_number_is_given(folder: Path) -> None:
    assert ab(folder, **OLD_AND_NEW).trial.repeats == "6..20"
    trial = ab(folder, **OLD_AND_NEW, pairs="8..30", margin="3%").trial
    assert (trial.repeats, trial.margin) == ("8..30", "3%")
    assert ab(folder, **OLD_AND_NEW, pairs="10").trial.repeats == 10


def test_a_backslash_makes_a_comma_a_part_of_the_value(folder: Path) -> None:
    for given in ([r"search_path=a\, b,c"], [r"search_path=a\, b", "search_path=c"]):
        plan = ab(folder, **YOURS | {"settings": given})
        assert plan.sweep.session_settings == {"search_path": ["a, b", "c"]}
    assert ab(folder, **OLD_AND_NEW, settings=[r"search_path=a\, b"]).sweep.settings == {"search_path": ["a, b"]}
    error = refusal_of_question(folder, **OLD_AND_NEW, settings=["search_path=a, b"])
    assert "several questions at once" in error.message
    assert r"write a comma within a value as \," in str(error.hint)
    quoted = session_options({"search_path": "a, b", "app.x": "c:\\d"})
    assert quoted == ["-c search_path=a,\\ b", "-c app.x=c:\\\\d"]


def test_scripts_are_files_whose_names_may_have_an_at_sign(folder: Path) -> None:
    (folder / "plans").mkdir()
    text = ab_plan(Question(**YOURS | {"scripts": ["q.sql@3"]}), folder / "plans")
    # relative to the plan
    assert load_text(text, folder / "plans", "ab").plan.workload.scripts == ["../q.sql@3"]
    (folder / "q@3.sql").write_text("SELECT 3;\n")
    (folder / "q.sql@2").write_text("SELECT 4;\n")
    plan = ab(folder, **YOURS | {"scripts": ["q@3.sql", "q.sql@2", "q@3.sql@5"]})
    assert plan.workload.scripts == ["q@3.sql@1", "q.sql@2@1", "q@3.sql@5"]


def refusal_of_question(folder: Path, **options: Any) -> UsageError:  # noqa: ANN401 - of any type
    with pytest.MonkeyPatch.context() as patch:
        # what is not refused must not be measured
        patch.setattr(ab_answer, "carry_out", lambda *_: pytest.fail("is not refused"))
        with pytest.raises(UsageError) as caught:
            measure_and_answer(Question(**options), how_to_run(folder))
    return caught.value


def test_refuses_what_is_no_single_question(folder: Path) -> None:
    (folder / "empty.sql").touch()
    (folder / "pg").mkdir()
    (folder / "pg" / "configure").touch()
    for options, message in (
        ({"dsn": [DSN], "scripts": ["q.sql"]}, "nothing to compare"),
        ({"settings": ["work_mem=1MB,2MB"]}, "no server to measure"),
        ({"dsn": [DSN], "versions": ["18"]}, "servers of several kinds"),
        (OLD_AND_NEW | {"settings": ["jit=on,off"]}, "several questions at once: --set jit, 2 servers"),
        ({"versions": ["18"], "settings": ["jit=on,on"]}, "--set jit has a value twice"),
        ({"versions": ["18"], "settings": ["jit"]}, "--set jit is not NAME=VALUE"),
        ({"versions": ["18"], "settings": ["a.b=1,2", "a.b=3"]}, "--set a.b is given several times, and once with a"),
        ({"versions": ["18"], "settings": ["a.b=3", "a.b=1,2"]}, "--set a.b is given several times, and once with a"),
        (YOURS | {"settings": ["jit=4,6", "JIT=8"]}, "--set jit and --set JIT name one setting"),
        (
            YOURS | {"settings": ["jit=on,off", "Transaction_Read_Only=off"]},
            "--set Transaction_Read_Only decides whether scripts may write",
        ),
        (
            YOURS | {"settings": ["default_transaction_read_only=off,on"]},
            "--set default_transaction_read_only decides whether scripts may write",
        ),
        ({"versions": ["17", "17"]}, "--version names one server twice"),
        ({"versions": ["17.", "18"]}, "--version: '17.' is not a PostgreSQL version"),
        ({"versions": ["abc", "18"]}, "--version: 'abc' is not a PostgreSQL version"),
        (OLD_AND_NEW | {"pairs": "3"}, "3 pairs are too few for a verdict"),
        (OLD_AND_NEW | {"pairs": "3..9"}, "--pairs: write a range from 6 or more to 1,000 or less"),
        (OLD_AND_NEW | {"pairs": "few"}, "--pairs: write a number, such as 6, or a range"),
        (OLD_AND_NEW | {"margin": "70%"}, "--margin: '70%' is not a margin"),
        (OLD_AND_NEW | {"pairs": "8", "margin": "2%"}, "--margin is valid only with a range of pairs"),
        (OLD_AND_NEW | {"writes": True}, "--writes applies only to --dsn"),
        (YOURS | {"scripts": []}, "no --script"),
        (YOURS | {"scripts": ["select-only"]}, "needs pgbench's tables"),
        (YOURS | {"scripts": ["select 1"]}, "--script select 1: it is neither a built-in script nor a file"),
        (YOURS | {"scripts": ["empty.sql"]}, "--script: the script "),
        (YOURS | {"scale": 5}, "--scale applies to servers that"),
        ({"dsn": [f"{DSN} password=secret"]}, "--dsn has a password"),
        ({"dsn": ["host=db"]}, "--dsn names no database"),
        ({"dsn": ["host=db secret"]}, "--dsn is not a connection string"),
        (YOURS | {"dsn": ["host=localhost dbnme=x"]}, 'connection string: invalid connection option "dbnme"'),
        (YOURS | {"dsn": ["host=localhost password=a secret=x"]}, "--dsn"),
        (YOURS | {"settings": ["shared_buffers=1GB,2GB"]}, "--set shared_buffers: cannot be set for a session"),
        (YOURS | {"clients": 1_000_000}, "--clients: 1,000,000 clients are more than PostgreSQL accepts"),
        (YOURS | {"rate": float("nan")}, "--rate: "),
        (YOURS | {"rate": -5.0}, "--rate: "),
        (YOURS | {"duration": "x"}, "--duration: 'x' is not a duration"),
        (YOURS | {"warmup": "y"}, "--warmup: 'y' is not a duration"),
        (
            YOURS | {"duration": "x", "warmup": "y"},
            "--duration: 'x' is not a duration; --warmup: 'y' is not a duration",
        ),
        ({"dsn": [DSN], "load_dsn": "host=pool", "scripts": ["q.sql"]}, "--load-dsn"),
        ({"dsn": [DSN], "poolers": ["none", "pgbouncer"], "scripts": ["q.sql"]}, "--pooler"),
        ({"versions": ["18"], "poolers": ["none", "odyssey"]}, "--pooler"),
        ({"versions": ["18"], "poolers": ["none", "none"]}, "--pooler"),
        ({"versions": ["18"], "load_dsn": "host=pool"}, "--load-dsn"),
        ({"versions": ["18"], "patches": ["none", "x.patch"]}, "--commit, --patch and --configure apply to"),
        ({"versions": ["17", "18"], "extensions": ["bw"]}, "--extension needs --bin or --source"),
        ({"sources": ["pg"], "patches": ["none", "x.patch"]}, "--patch: there is no file"),
        ({"sources": ["pg", "gone"]}, "--source: there is no folder"),
        ({"sources": ["pg"], "extensions": ["gone"], "commits": ["a", "b"]}, "--extension: there is no folder"),
        ({"sources": ["pg"]}, "nothing to compare"),
    ):
        error = refusal_of_question(folder, **options)
        assert message in error.message
        assert "secret" not in f"{error.message} {error.hint}"
        assert error.exit_code is ExitCode.USAGE


def test_settings_of_an_existing_database_are_those_of_its_sessions(folder: Path) -> None:
    for name in ("shared_buffers", "max_wal_size"):
        with pytest.raises(PlanError) as caught:
            ab(folder, **YOURS | {"settings": [f"{name}=1GB,2GB"]})
        problem = caught.value.problems[0]
        assert (problem.path, problem.line) == (f"sweep.session_settings.{name}", None)
        assert "cannot be set for a session" in problem.message
        assert "compare the two runs" in str(problem.hint)
    for target, sweep, path, remedy in (
        ('settings = { jit = "off" }', "", "target.app.settings.jit", "target.app.session_settings.jit"),
        ("", 'settings.jit = ["on", "off"]', "sweep.settings.jit", "sweep.session_settings.jit"),
        ('session_settings = { fsync = "off" }', "", "target.app.session_settings.fsync", "a server that pgdyno"),
        ("", 'session_settings.jit = "on"\nsettings.jit = "on"', "sweep.session_settings.jit", "remove one of them"),
        ("", 'session_settings.jit = ["on", "on"]', "sweep.session_settings.jit[1]", "trial.repeats"),
    ):
        with pytest.raises(PlanError) as caught:
            load_text(EXISTING.format(target=target, sweep=sweep), folder, "plan")
        assert remedy in str({problem.path: problem.hint for problem in caught.value.problems}[path])


EXISTING = small_plan('scripts = ["q.sql"]\ndataset = "none"', "clients = 2\n{sweep}", app="18").replace(
    'kind = "embedded"\nversion = "18"',
    'kind = "dsn"\ndsn = "host=db"\ndatabase = "app"\nallow_existing = true\n{target}',
)
EXISTING += "[reset]\ncheckpoint = false\n"


def test_names_of_settings_that_differ_only_in_case_are_refused_in_plans(folder: Path) -> None:
    def paths(target: str, sweep: str) -> list[str]:
        with pytest.raises(PlanError) as caught:
            load_text(EXISTING.format(target=target, sweep=sweep), folder, "plan")
        return [each.path for each in caught.value.problems if "is the same setting as" in each.message]

    per_session = 'session_settings = { jit = "on", JIT = "off" }'
    assert paths(per_session, "") == ["target.app.session_settings.JIT"]
    assert paths("", per_session) == ["sweep.session_settings.JIT"]
    assert paths('session_settings = { jit = "on" }', 'session_settings.JIT = ["on", "off"]') == [
        "sweep.session_settings.JIT"
    ]
    assert paths("", 'session_settings.jit = "on"\npoints = [{ session_settings = { Jit = "off" } }]') == [
        "sweep.points[0].session_settings.Jit"
    ]
    assert "target.app.settings.JIT" in paths('settings = { jit = "on", JIT = "off" }', "")
    assert "sweep.settings.JIT" in paths("", 'settings = { jit = "on", JIT = "off" }')


def test_the_same_question_again_needs_no_other_file(folder: Path) -> None:
    """A server that refuses the first connection must not make the corrected command a mistake."""
    asked = Question(**MEMORY | {"dsn": [NOBODY]})
    for _ in range(2):
        with pytest.raises(TargetError, match="cannot connect"):
            measure_and_answer(asked, how_to_run(folder, folder / "plan.toml"))
    with pytest.raises(UsageError, match="already exists, with another plan"):
        measure_and_answer(Question(**YOURS | {"dsn": [NOBODY]}), how_to_run(folder, folder / "plan.toml"))


def test_a_script_must_be_a_regular_file_that_may_be_read(folder: Path) -> None:
    (folder / "loop.sql").symlink_to("loop.sql")
    os.mkfifo(folder / "pipe.sql")
    neither = "it is neither a built-in script nor a file"
    # statements in place of a file may be longer than a name
    for script, reason in (
        ("SELECT 1;" * 40, neither),
        (f"no/{'x' * 300}.sql", neither),
        ("loop.sql", "too many levels of symbolic links"),
        ("pipe.sql", "it is not a regular file"),
        (".", "it is not a regular file"),
    ):
        assert refusal_of_question(folder, **YOURS | {"scripts": [script]}).message == f"--script {script}: {reason}"
    (folder / "latin.sql").write_bytes(b"SELECT '\xe4';\n")
    error = refusal_of_question(folder, **YOURS | {"scripts": ["latin.sql"]})
    assert error.message.endswith("latin.sql is not UTF-8 in line 1")
    assert error.hint == "save the file as UTF-8"
    (folder / "plan.toml").write_text(EXISTING.format(target="", sweep="").replace("q.sql", "pipe.sql"))
    with pytest.raises(PlanError) as caught:
        load_plan(folder / "plan.toml")
    assert caught.value.problems[0].message == f"{folder}/pipe.sql is not a regular file"
    for save in (folder / "pipe.sql", Path("/dev/null"), folder):
        with pytest.raises(UsageError, match="it is not a regular file"):
            measure_and_answer(Question(**YOURS), how_to_run(folder, save))
    (folder / "closed").mkdir(mode=0)
    with unprivileged():
        error = refusal_of_question(folder, **YOURS | {"scripts": ["closed/q.sql"]})
    assert error.message == "--script closed/q.sql: permission denied"
    # the script would be found through that folder
    with unprivileged(), pytest.raises(UsageError, match=r"closed/../q.sql: permission denied"):
        measure_and_answer(Question(**YOURS), how_to_run(Path(), Path("closed/plan.toml")))


def test_arguments_plans_and_overrides_must_be_utf_8(folder: Path) -> None:
    (folder / "q\udce9.sql").write_text("SELECT 1;\n")
    for options, message in (
        ({"scripts": ["q\udce9.sql"]}, "--script q\udce9.sql is not valid UTF-8"),
        ({"dsn": ["host=\udce9 dbname=app"]}, "--dsn is not valid UTF-8"),
        ({"settings": ["app.x=\udce9,b"]}, "--set app.x=\udce9,b is not valid UTF-8"),
    ):
        assert refusal_of_question(folder, **YOURS | options).message == message
    with pytest.raises(UsageError, match="is not valid UTF-8"):
        load_plan("quick", ["sweep.variables.x=\udce9"])
    with pytest.raises(UsageError, match=r"the folder of runs .* is not valid UTF-8"):
        run_plan("quick", [], How(folder / "r\udce9", QUIET))
    with pytest.raises(UsageError, match="is not valid UTF-8"):
        write_new_plan(folder / "n\udce9.toml")
    assert not (folder / "n\udce9.toml").exists()
    (folder / "p\udce9.toml").write_text(EXISTING.format(target="", sweep=""))
    with pytest.raises(UsageError, match="is not valid UTF-8"):
        load_plan("p\udce9.toml")
    with pytest.raises(UsageError, match="is not valid UTF-8"):
        given_parameters("host=\udce9")
    for name in ("sslpassword", "oauth_client_secret"):
        with pytest.raises(UsageError, match=f"^{name} cannot be used here$"):
            given_parameters(f"host=a {name}=geheim")


@pytest.mark.parametrize(("given", "text"), [("q.sql", "SELECT 1;\n"), ("link/../q.sql", "SELECT 2;\n")])
def test_scripts_are_relative_to_the_folder_behind_a_symbolic_link(folder: Path, given: str, text: str) -> None:
    (folder / "deep" / "real").mkdir(parents=True)
    (folder / "plans").symlink_to("deep/real")
    (folder / "link").symlink_to("deep/real")
    (folder / "deep" / "q.sql").write_text("SELECT 2;\n")
    asked = Question(**YOURS | {"dsn": [NOBODY], "scripts": [given]})
    with pytest.raises(TargetError, match="cannot connect"):
        measure_and_answer(asked, how_to_run(folder, folder / "plans" / "plan.toml"))
    script = load_plan(folder / "plans" / "plan.toml").plan.workload.scripts[0]
    assert (folder / "deep" / "real" / script).read_text() == text


def test_direct_and_pooled_are_arms(folder: Path) -> None:
    plan = ab(folder, versions=["18"], poolers=["none", "pgbouncer"], clients=(8, 200))
    assert list(plan.target) == ["pg18-direct", "pg18-pgbouncer"]
    assert [each.is_pooled for each in plan.target.values()] == [False, True]
    # the direct arm has room for as many clients
    assert {each.settings["max_connections"] for each in plan.target.values()} == {"220"}
    assert [point.clients for point in plan.points()] == [8, 200]
    yours = ab(folder, dsn=[DSN], load_dsn="host=pool dbname=app", scripts=["q.sql"], writes=True)
    assert [each.is_pooled for each in yours.target.values()] == [False, True]


def test_what_pgdyno_builds_makes_arms(folder: Path) -> None:
    files = "pg/configure pg2/configure bw/Makefile v3-0001.patch v3-0002.patch bin/initdb bin/postgres"
    for name in files.split():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch(mode=0o755)
    here = str(folder)

    def targets(**options: Any) -> dict[str, dict[str, object]]:  # noqa: ANN401 - of any type
        plan = ab(folder, **options)
        return {name: each.model_dump(exclude_defaults=True) for name, each in plan.target.items()}

    patched = [f"{here}/v3-0001.patch", f"{here}/v3-0002.patch"]
    built = {"kind": "build", "source": f"{here}/pg"}
    assert targets(
        sources=["pg"], patches=["none", "v3-0001.patch+v3-0002.patch"], configure="--without-icu 'X=1 2'"
    ) == {
        "unpatched": built | {"configure": ["--without-icu", "X=1 2"]},
        "v3-0001": built | {"configure": ["--without-icu", "X=1 2"], "patches": patched},
    }
    assert targets(sources=["pg"], commits=["REL_18_0", "my/topic"]) == {
        "REL-18-0": built | {"commit": "REL_18_0"},
        "my-topic": built | {"commit": "my/topic"},
    }
    assert list(targets(sources=["pg", "pg2"])) == ["pg", "pg2"]
    local = {"kind": "local", "bin": f"{here}/bin"}
    of_extension = [{"source": f"{here}/bw", "commit": commit} for commit in ("v0.8", "v0.9")]
    assert targets(bins=["bin"], extensions=["bw"], commits=["v0.8", "v0.9"]) == {
        name: local | {"extensions": [each]} for name, each in zip(("v0-8", "v0-9"), of_extension, strict=True)
    }
    one = targets(bins=["bin"], extensions=["bw"], settings=["jit=on,off"])
    assert one == {"server": local | {"extensions": [{"source": f"{here}/bw"}]}}


def test_the_service_file_may_name_the_database(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "services").write_text("[app]\nhost=db\ndbname=shop\n[other]\nhost=db\n")
    monkeypatch.setenv("PGSERVICEFILE", str(folder / "services"))
    monkeypatch.delenv("PGSERVICE", raising=False)
    target = ab(folder, **YOURS | {"dsn": ["service=app"]}).target["server"].model_dump()
    assert (target["dsn"], target["database"]) == ("service=app dbname=shop", "shop")
    assert "PGSERVICE" not in os.environ
    assert "--dsn names no database" in refusal_of_question(folder, **YOURS | {"dsn": ["service=other"]}).message
    monkeypatch.setenv("PGSERVICE", "app")
    assert ab(folder, **YOURS | {"dsn": ["user=bench"]}).target["server"].model_dump()["database"] == "shop"
    assert os.environ["PGSERVICE"] == "app"


def test_a_script_that_writes_despite_read_only_is_refused_and_one_that_reads_is_not(folder: Path) -> None:
    for script, line, words in (
        ("SELECT 1;\nBEGIN /* x */ ISOLATION LEVEL SERIALIZABLE,\n READ -- y\nWRITE;", 3, "READ -- y WRITE"),
        ("start transaction read write;", 1, "read write"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE;", 1, "READ WRITE"),
        ("SET LOCAL transaction_read_only = off;", 1, "transaction_read_only"),
        # the semicolon is in a comment
        ("BEGIN /* ; */ READ WRITE;", 1, "READ WRITE"),
        ("SELECT set_config('Default_Transaction_Read_Only', 'off', false);", 1, "Default_Transaction_Read_Only"),
        ("\\set x 1 + \\\n 2\nVACUUM t;", 3, "VACUUM"),
        ("/* a /* b */ */ VACUUM t;", 1, "VACUUM"),
        ("SELECT 1;\nALTER /* a /* b */ */ SYSTEM RESET jit;", 2, "ALTER /* a /* b */ */ SYSTEM"),
        ("BEGIN READ -- a /* b\n WRITE;", 1, "READ -- a /* b WRITE"),
        ("SELECT 1 AS a \\gset\n-- then\nanalyze t;", 3, "analyze"),
        ("SELECT 1\\; CHECKPOINT;", 1, "CHECKPOINT"),
        ("ALTER  SYSTEM SET jit = off;", 1, "ALTER SYSTEM"),
        ("COMMIT PREPARED 'x';", 1, "COMMIT PREPARED"),
    ):
        (folder / "w.sql").write_text(script)
        asked = YOURS | {"scripts": ["q.sql", "w.sql"]}
        error = refusal_of_question(folder, **asked)
        assert error.message == f'--script w.sql: line {line} has "{words}", which is not read-only'
        assert "--writes" in str(error.hint)
        assert ab(folder, **asked, writes=True).workload.scripts == ["q.sql", "w.sql"]
    for script in (
        "-- vacuum before, then read write\nSELECT 1;",
        "BEGIN READ ONLY;\nSELECT 1;\nEND;\nSELECT read AS write FROM t;",
        "EXPLAIN (ANALYZE) SELECT 1;\nEXPLAIN ANALYZE SELECT 1;",
        "SELECT a,\n cluster\nFROM t;",
    ):
        (folder / "q.sql").write_text(script)
        assert ab(folder, **YOURS).workload.scripts == ["q.sql"]
    # by the square of the length, odd scripts would take hours
    for text in ("transaction ", "/*", "\\a\\\n", "/* a */ -- b -- c\n", "read write "):
        first_escape(text * 20_000)


def test_the_saved_plan_is_the_one_that_fits_the_budget(folder: Path) -> None:
    asked = Question(**YOURS | {"dsn": [NOBODY]}, margin="2%")
    with pytest.raises(TargetError, match="cannot connect"):
        measure_and_answer(asked, how_to_run(folder, folder / "plan.toml", budget="3m"))
    saved, whole = load_plan(folder / "plan.toml").plan, load_text(ab_plan(asked, folder), folder, "ab")
    assert saved == within_budget(whole, "3m").plan
    assert (saved.trial.repeats, saved.trial.margin) == (6, None)
    assert saved.trial.duration is not None
    assert saved.trial.duration < 20
    with pytest.raises(UsageError, match="a budget of 30 s is too small for ab"):
        measure_and_answer(asked, how_to_run(folder, budget="30s"))
    # a fitted question keeps its values
    asked = Question(versions=["18"], settings=[r"search_path=a\, b,c"], duration="1m")
    plan = load_text(ab_plan(asked, folder), folder, "ab").plan
    assert load_text(ab_plan(question_of_plan(asked, plan), folder), folder, "ab").plan == plan
    assert question_of_plan(asked, plan).duration == "1m"


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(folder: Path) -> None:
    (folder / "file").touch()
    asked = Question(**YOURS | {"dsn": [NOBODY]})
    for name, reason in (
        ("no/r.html", "folder .*no does not exist"),
        ("file/r.html", "folder"),
        (".", "is a directory"),
    ):
        output = Output(html=folder / name, csv=None, quiet=True, json=True)
        with pytest.raises(StoreError, match=rf"cannot write .*: {reason}"):
            measure_and_answer(asked, how_to_run(folder, output=output))
        with pytest.raises(StoreError, match=rf"cannot write .*: {reason}"):
            run_plan("quick", [], How(folder / "runs", output))
        with pytest.raises(StoreError, match=rf"cannot write .*: {reason}"):
            resume_run("latest", How(folder / "runs", Output(None, folder / name, quiet=True, json=True)))
    assert not (folder / "runs").exists()
