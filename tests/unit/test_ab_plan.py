"""`pgdyno ab`: the plan that it writes, and questions that it refuses."""

import os
from pathlib import Path

import pytest

from pgdyno.commands.comparison.ab_answer import measure_and_answer
from pgdyno.commands.support.carry_out import How, Output, resume_run, run_plan
from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.effect.read_only import first_escape
from pgdyno.errors import ExitCode, PlanError, StoreError, TargetError, UsageError
from pgdyno.plan import load_plan
from pgdyno.plan.ab_plan import Question, ab_plan, fitted
from pgdyno.plan.loaded_plan import LoadedPlan, load_text
from pgdyno.plan.model import Plan
from pgdyno.plan.output.new import write_new_plan
from pgdyno.plan.trials import planned_trials
from pgdyno.targets.connection import given_parameters
from pgdyno.targets.server import session_options
from tests.unprivileged import unprivileged

QUIET = Output(html=None, csv=None, quiet=True, json=True)
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
    values = [trial.point.settings["work_mem"] for trial in trials[:4]]
    assert set(values[:2]) == set(values[2:]) == {"4MB", "64MB"}
    assert plan.session_settings("server", trials[0].point) == {
        "default_transaction_read_only": "on",
        "work_mem": values[0],
    }
    assert plan.server_settings("server", trials[0].point) == {}


def test_writes_only_when_asked(folder: Path) -> None:
    plan = loaded(folder, dsn=[DSN], settings=["work_mem=4MB,64MB"], scripts=["q.sql"], writes=True).plan
    assert plan.target["server"].session_settings == {}


def test_settings_of_servers_that_pgdyno_starts_are_those_of_the_server(folder: Path) -> None:
    plan = loaded(folder, versions=["18"], settings=["shared_buffers=64MB,1GB"]).plan
    point = next(trial.point for trial in planned_trials(plan) if trial.point.settings["shared_buffers"] == "64MB")
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


@pytest.mark.parametrize("given", [[r"search_path=a\, b,c"], [r"search_path=a\, b", "search_path=c"]])
def test_a_backslash_makes_a_comma_a_part_of_the_value(folder: Path, given: list[str]) -> None:
    plan = loaded(folder, dsn=[DSN], scripts=["q.sql"], settings=given).plan
    assert plan.sweep.session_settings == {"search_path": ["a, b", "c"]}


def test_one_value_with_a_comma_can_apply_to_both_arms(folder: Path) -> None:
    plan = loaded(folder, versions=["17", "18"], settings=[r"search_path=a\, b"]).plan
    assert plan.sweep.settings == {"search_path": ["a, b"]}
    with pytest.raises(UsageError, match="several questions at once") as caught:
        loaded(folder, versions=["17", "18"], settings=["search_path=a, b"])
    assert r"write a comma within a value as \," in str(caught.value.hint)


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
        ({"versions": ["18"], "settings": ["a.b=1,2", "a.b=3"]}, "--set a.b is given several times, and once with a"),
        ({"versions": ["18"], "settings": ["a.b=3", "a.b=1,2"]}, "--set a.b is given several times, and once with a"),
        (
            {"dsn": [DSN], "settings": ["work_mem=4MB,64MB", "WORK_MEM=8MB"], "scripts": ["q.sql"]},
            "--set work_mem and --set WORK_MEM name one setting",
        ),
        (
            {"dsn": [DSN], "settings": ["jit=on,off", "Transaction_Read_Only=off"], "scripts": ["q.sql"]},
            "--set Transaction_Read_Only decides whether scripts may write",
        ),
        (
            {"dsn": [DSN], "settings": ["default_transaction_read_only=off,on"], "scripts": ["q.sql"]},
            "--set default_transaction_read_only decides whether scripts may write",
        ),
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
def test_an_existing_database_has_session_settings(
    folder: Path, target: str, sweep: str, path: str, remedy: str
) -> None:
    with pytest.raises(PlanError) as caught:
        load_text(EXISTING.format(target=target, sweep=sweep), folder, "plan")
    assert remedy in str({problem.path: problem.hint for problem in caught.value.problems}[path])


def test_session_settings_survive_the_manifest(folder: Path) -> None:
    plan = loaded(folder, dsn=[DSN], settings=["work_mem=4MB,64MB"], scripts=["q.sql"]).plan
    assert Plan.from_resolved(plan.as_resolved()).sweep == plan.sweep
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
            measure_and_answer(asked, how)
    other = Question(dsn=asked.dsn, settings=["work_mem=4MB,1GB"], scripts=["q.sql"])
    with pytest.raises(UsageError, match="already exists, with another plan"):
        measure_and_answer(other, how)


def refused(folder: Path, **options: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        measure_and_answer(Question(**options), How(folder / "runs", QUIET, check_first=False))  # type: ignore[arg-type]
    return caught.value


def test_statements_in_place_of_a_file_may_be_longer_than_a_name(folder: Path) -> None:
    for script in ("SELECT 1;" * 40, f"no/{'x' * 300}.sql"):
        error = refused(folder, dsn=[DSN], settings=["jit=on,off"], scripts=[script])
        assert error.message == f"--script {script}: it is neither a built-in script nor a file"


def test_a_script_must_be_a_regular_file(folder: Path) -> None:
    (folder / "loop.sql").symlink_to("loop.sql")
    error = refused(folder, dsn=[DSN], settings=["jit=on,off"], scripts=["loop.sql"])
    assert error.message == "--script loop.sql: too many levels of symbolic links"
    os.mkfifo(folder / "pipe.sql")
    for name in ("pipe.sql", "."):
        error = refused(folder, dsn=[DSN], settings=["jit=on,off"], scripts=[name])
        assert error.message == f"--script {name}: it is not a regular file"
    (folder / "plan.toml").write_text(EXISTING.format(target="", sweep="").replace("q.sql", "pipe.sql"))
    with pytest.raises(PlanError) as caught:
        load_plan(folder / "plan.toml")
    assert caught.value.problems[0].message == f"{folder}/pipe.sql is not a regular file"


def test_a_script_in_a_folder_that_may_not_be_read_is_a_mistake_of_usage(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0)
    with unprivileged():
        error = refused(folder, dsn=[DSN], settings=["jit=on,off"], scripts=["closed/q.sql"])
    assert error.message == "--script closed/q.sql: permission denied"
    save = How(Path("runs"), QUIET, check_first=False, save=Path("closed/plan.toml"))
    # the script would be found through that folder
    with unprivileged(), pytest.raises(UsageError, match=r"closed/../q.sql: permission denied"):
        measure_and_answer(Question(dsn=[DSN], settings=["jit=on,off"], scripts=["q.sql"]), save)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scripts": ["q\udce9.sql"]}, "--script q\udce9.sql is not valid UTF-8"),
        ({"dsn": ["host=\udce9 dbname=app"]}, "--dsn is not valid UTF-8"),
        ({"settings": ["app.x=\udce9,b"]}, "--set app.x=\udce9,b is not valid UTF-8"),
    ],
)
def test_arguments_must_be_utf_8(folder: Path, options: dict[str, object], message: str) -> None:
    (folder / "q\udce9.sql").write_text("SELECT 1;\n")
    asked = {"dsn": [DSN], "settings": ["jit=on,off"], "scripts": ["q.sql"]} | options
    assert refused(folder, **asked).message == message


@pytest.mark.parametrize("version", ["17.", "abc"])
def test_a_version_that_is_none_is_a_mistake_of_its_option(folder: Path, version: str) -> None:
    assert refused(folder, versions=[version, "18"]).message == f"--version: {version!r} is not a PostgreSQL version"


def test_a_script_in_another_encoding_is_refused_with_the_remedy(folder: Path) -> None:
    (folder / "latin.sql").write_bytes(b"SELECT '\xe4';\n")
    error = refused(folder, dsn=[DSN], settings=["jit=on,off"], scripts=["latin.sql"])
    assert error.message.endswith("latin.sql is not UTF-8 in line 1")
    assert error.hint == "save the file as UTF-8"


def test_a_plan_and_its_overrides_must_be_utf_8(folder: Path) -> None:
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


@pytest.mark.parametrize("name", ["sslpassword", "oauth_client_secret"])
def test_secrets_that_only_a_command_line_could_pass_on_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} cannot be used here$"):
        given_parameters(f"host=a {name}=geheim")


def test_the_plan_is_not_saved_into_a_pipe_or_a_device(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    asked = Question(dsn=[DSN], settings=["jit=on,off"], scripts=["q.sql"])
    for save in (folder / "pipe", Path("/dev/null"), folder):
        with pytest.raises(UsageError, match="it is not a regular file"):
            measure_and_answer(asked, How(folder / "runs", QUIET, check_first=False, save=save))


@pytest.mark.parametrize(("given", "text"), [("q.sql", "SELECT 1;\n"), ("link/../q.sql", "SELECT 2;\n")])
def test_scripts_are_relative_to_the_folder_behind_a_symbolic_link(folder: Path, given: str, text: str) -> None:
    (folder / "deep" / "real").mkdir(parents=True)
    (folder / "plans").symlink_to("deep/real")
    (folder / "link").symlink_to("deep/real")
    asked = Question(dsn=["host=127.0.0.1 port=1 dbname=app"], settings=["jit=on,off"], scripts=[given])
    (folder / "deep" / "q.sql").write_text("SELECT 2;\n")
    with pytest.raises(TargetError, match="cannot connect"):
        measure_and_answer(asked, How(folder / "runs", QUIET, check_first=False, save=folder / "plans" / "plan.toml"))
    script = load_plan(folder / "plans" / "plan.toml").plan.workload.scripts[0]
    assert (folder / "deep" / "real" / script).read_text() == text


def test_direct_and_pooled_are_arms(folder: Path) -> None:
    plan = loaded(folder, versions=["18"], poolers=["none", "pgbouncer"], clients=(8, 200)).plan
    assert list(plan.target) == ["pg18-direct", "pg18-pgbouncer"]
    assert [each.is_pooled for each in plan.target.values()] == [False, True]
    # the direct arm has room for as many clients
    assert {each.settings["max_connections"] for each in plan.target.values()} == {"220"}
    assert [point.clients for point in plan.points()] == [8, 200]
    yours = loaded(folder, dsn=[DSN], load_dsn="host=pool dbname=app", scripts=["q.sql"], writes=True).plan
    assert [each.is_pooled for each in yours.target.values()] == [False, True]


@pytest.mark.parametrize(
    "options",
    [
        {"dsn": [DSN], "load_dsn": "host=pool", "scripts": ["q.sql"]},
        {"dsn": [DSN], "poolers": ["none", "pgbouncer"], "scripts": ["q.sql"]},
        {"versions": ["18"], "poolers": ["none", "odyssey"]},
        {"versions": ["18"], "poolers": ["none", "none"]},
        {"versions": ["18"], "load_dsn": "host=pool"},
    ],
)
def test_a_question_about_a_pooler_that_has_no_answer_is_refused(folder: Path, options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"--load-dsn|--pooler"):
        loaded(folder, **options)


def test_what_pgdyno_builds_makes_arms(folder: Path) -> None:
    for name in (
        "pg/configure",
        "pg2/configure",
        "bw/Makefile",
        "v3-0001.patch",
        "v3-0002.patch",
        "bin/initdb",
        "bin/postgres",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch(mode=0o755)
    here = str(folder)

    def targets(**options: object) -> dict[str, dict[str, object]]:
        plan = loaded(folder, **options).plan
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versions": ["18"], "patches": ["none", "x.patch"]}, "--commit, --patch and --configure apply to"),
        ({"versions": ["17", "18"], "extensions": ["bw"]}, "--extension needs --bin or --source"),
        ({"sources": ["pg"], "patches": ["none", "x.patch"]}, "--patch: there is no file"),
        ({"sources": ["pg", "gone"]}, "--source: there is no folder"),
        ({"sources": ["pg"], "extensions": ["gone"], "commits": ["a", "b"]}, "--extension: there is no folder"),
        ({"sources": ["pg"]}, "nothing to compare"),
    ],
)
def test_what_cannot_be_built_is_refused(folder: Path, options: dict[str, object], message: str) -> None:
    (folder / "pg").mkdir()
    (folder / "pg" / "configure").touch()
    assert refused(folder, **options).message.startswith(message)


def test_a_file_whose_name_has_an_at_sign_is_a_script(folder: Path) -> None:
    (folder / "q@3.sql").write_text("SELECT 3;\n")
    (folder / "q.sql@2").write_text("SELECT 4;\n")
    plan = loaded(folder, dsn=[DSN], settings=["jit=on,off"], scripts=["q@3.sql", "q.sql@2", "q@3.sql@5"]).plan
    assert plan.workload.scripts == ["q@3.sql@1", "q.sql@2@1", "q@3.sql@5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 1_000_000}, "--clients: 1,000,000 clients are more than PostgreSQL accepts"),
        ({"rate": float("nan")}, "--rate: "),
        ({"rate": -5.0}, "--rate: "),
        ({"duration": "x"}, "--duration: 'x' is not a duration"),
        ({"warmup": "y"}, "--warmup: 'y' is not a duration"),
        ({"duration": "x", "warmup": "y"}, "--duration: 'x' is not a duration; --warmup: 'y' is not a duration"),
        ({"scripts": ["empty.sql"]}, "--script: the script "),
        ({"settings": ["shared_buffers=1GB,2GB"]}, "--set shared_buffers: cannot be set for a session"),
    ],
)
def test_a_wrong_value_names_its_option(folder: Path, options: dict[str, object], message: str) -> None:
    (folder / "empty.sql").touch()
    asked = {"dsn": [DSN], "settings": ["jit=on,off"], "scripts": ["q.sql"]} | options
    error = refused(folder, **asked)
    assert error.message.startswith(message)
    assert error.exit_code is ExitCode.USAGE


def test_the_service_file_may_name_the_database(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "services").write_text("[app]\nhost=db\ndbname=shop\n[other]\nhost=db\n")
    monkeypatch.setenv("PGSERVICEFILE", str(folder / "services"))
    monkeypatch.delenv("PGSERVICE", raising=False)
    asked = {"settings": ["jit=on,off"], "scripts": ["q.sql"]}
    target = loaded(folder, dsn=["service=app"], **asked).plan.target["server"]
    assert (target.dsn, target.database) == ("service=app dbname=shop", "shop")  # type: ignore[attr-defined]
    assert "PGSERVICE" not in os.environ
    with pytest.raises(UsageError, match="--dsn names no database"):
        loaded(folder, dsn=["service=other"], **asked)
    monkeypatch.setenv("PGSERVICE", "app")
    assert loaded(folder, dsn=["user=bench"], **asked).plan.target["server"].database == "shop"  # type: ignore[attr-defined]
    assert os.environ["PGSERVICE"] == "app"


@pytest.mark.parametrize(
    ("script", "line", "words"),
    [
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
    ],
)
def test_a_script_that_writes_despite_read_only_is_refused(folder: Path, script: str, line: int, words: str) -> None:
    (folder / "w.sql").write_text(script)
    asked: dict[str, object] = {"dsn": [DSN], "settings": ["jit=on,off"], "scripts": ["q.sql", "w.sql"]}
    error = refused(folder, **asked)
    assert error.message == f'--script w.sql: line {line} has "{words}", which is not read-only'
    assert "--writes" in str(error.hint)
    assert loaded(folder, **asked, writes=True).plan.workload.scripts == ["q.sql", "w.sql"]


@pytest.mark.parametrize(
    "script",
    [
        "-- vacuum before, then read write\nSELECT 1;",
        "BEGIN READ ONLY;\nSELECT 1;\nEND;\nSELECT read AS write FROM t;",
        "EXPLAIN (ANALYZE) SELECT 1;\nEXPLAIN ANALYZE SELECT 1;",
        "SELECT a,\n cluster\nFROM t;",
    ],
)
def test_a_script_that_only_reads_is_accepted(folder: Path, script: str) -> None:
    (folder / "r.sql").write_text(script)
    assert loaded(folder, dsn=[DSN], settings=["jit=on,off"], scripts=["r.sql"]).plan.workload.scripts == ["r.sql"]


def test_looking_for_writes_takes_no_longer_for_odd_scripts() -> None:
    # by the square of the length, it would be hours
    for text in ("transaction ", "/*", "\\a\\\n", "/* a */ -- b -- c\n", "read write "):
        first_escape(text * 100_000)


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


def test_the_saved_plan_is_the_one_that_fits_the_budget(folder: Path) -> None:
    asked = Question(dsn=["host=127.0.0.1 port=1 dbname=app"], settings=["jit=on,off"], scripts=["q.sql"], margin="2%")
    how = How(folder / "runs", QUIET, check_first=False, save=folder / "plan.toml", budget="3m")
    with pytest.raises(TargetError, match="cannot connect"):
        measure_and_answer(asked, how)
    saved, whole = load_plan(folder / "plan.toml").plan, load_text(ab_plan(asked, folder), folder, "ab")
    assert saved == within_budget(whole, "3m").plan
    assert (saved.trial.repeats, saved.trial.margin) == (6, None)
    assert saved.trial.duration is not None
    assert saved.trial.duration < 20
    with pytest.raises(UsageError, match="a budget of 30 s is too small for ab"):
        measure_and_answer(asked, How(folder / "runs", QUIET, budget="30s"))


def test_a_fitted_question_keeps_its_values(folder: Path) -> None:
    asked = Question(versions=["18"], settings=[r"search_path=a\, b,c"], duration="1m")
    plan = load_text(ab_plan(asked, folder), folder, "ab").plan
    assert load_text(ab_plan(fitted(asked, plan), folder), folder, "ab").plan == plan
    assert fitted(asked, plan).duration == "1m"


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(folder: Path) -> None:
    (folder / "file").touch()
    asked = Question(dsn=["host=127.0.0.1 port=1 dbname=app"], settings=["jit=on,off"], scripts=["q.sql"])
    for name, reason in (
        ("no/r.html", "folder .*no does not exist"),
        ("file/r.html", "folder"),
        (".", "is a directory"),
    ):
        output = Output(html=folder / name, csv=None, quiet=True, json=True)
        with pytest.raises(StoreError, match=rf"cannot write .*: {reason}"):
            measure_and_answer(asked, How(folder / "runs", output, check_first=False))
        with pytest.raises(StoreError, match=rf"cannot write .*: {reason}"):
            run_plan("quick", [], How(folder / "runs", output))
        with pytest.raises(StoreError, match=rf"cannot write .*: {reason}"):
            resume_run("latest", How(folder / "runs", Output(None, folder / name, quiet=True, json=True)))
    assert not (folder / "runs").exists()
