"""`pgdyno ab` on an existing server: the answer, and what the comparison leaves on the server."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgdyno.commands.comparison.ab_answer import measure_and_answer
from pgdyno.commands.support.carry_out import How, Output, run_plan
from pgdyno.effect.read_only import first_escape
from pgdyno.errors import ExitCode, PlanError, StoreError, TargetError, UsageError
from pgdyno.plan import load_plan
from pgdyno.plan.ab_plan import Question, ab_plan
from pgdyno.plan.model import Reset
from pgdyno.prepare import Dataset, Preparer
from pgdyno.programs import find_engine
from pgdyno.store import load_run, query
from pgdyno.targets import Home, Server, SilentProgress
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.json_schema import SCHEMA, validated
from tests.postgres.servers import opened, value
from tests.present import present

Capture = pytest.CaptureFixture[str]

LEFT = """
    SELECT (SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_database),
           (SELECT count(*) FROM pg_db_role_setting), (SELECT count(*) FROM pg_file_settings)
"""


@pytest.fixture(scope="module")
def theirs(home: Home) -> Iterator[Server]:
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off"}, connect="tcp")
    with opened(home, spec, "theirs") as server:
        yield server


@pytest.fixture
def dsn(theirs: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name, given in theirs.environment().items():
        monkeypatch.setenv(name, given)
    return f"host={theirs.host} port={theirs.port} user={theirs.user} dbname={theirs.dbname}"


def answered(capsys: Capture) -> Any:  # noqa: ANN401 - any JSON
    """The last line of standard output, which matches the schema."""
    found = validated("ab", capsys.readouterr().out.splitlines()[-1])
    assert found.keys() == SCHEMA["$defs"]["ab"]["properties"].keys()
    return found


def how(tmp_path: Path, **more: object) -> How:
    output = Output(html=None, csv=None, quiet=True, json=True)
    return How(tmp_path / "runs", output, check_first=False, **more)  # type: ignore[arg-type]


def test_answers_by_session_settings_alone(theirs: Server, dsn: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.sql").write_text("SELECT current_setting('work_mem');\n")
    with theirs.connect() as connection:
        before = connection.execute(LEFT).fetchone()
    asked = Question(
        dsn=[dsn],
        settings=["work_mem=4MB,64MB"],
        scripts=["q.sql"],
        clients=1,
        duration="500ms",
        warmup="0s",
        pairs="6",
    )
    code = measure_and_answer(asked, how(tmp_path, save=tmp_path / "plan.toml"))
    found = answered(capsys)
    assert (found["failures"], found["hints"]) == ([], [])
    assert (code, found["trials"], found["failed"]) == (ExitCode.OK, 12, 0)
    assert found["answer"][0].startswith("64MB vs 4MB: ")
    assert found["comparisons"][0]["points"][0]["pairs"] == 6
    run = load_run(Path(found["run"]))
    for trial in run.trials:
        assert present(trial.prepare).method == "none"
        assert trial.session_settings == {
            "default_transaction_read_only": "on",
            "work_mem": trial.point.settings["work_mem"],
        }
    rows = {(row.trial, row.name): (row.setting, row.source) for row in run.settings(names=["work_mem"])}
    assert {trial.number: rows[trial.number, "work_mem"] for trial in run.trials} == {
        trial.number: ("4096" if trial.point.settings["work_mem"] == "4MB" else "65536", "client")
        for trial in run.trials
    }
    facts = present(run.manifest.targets[0].facts)
    assert facts.settings_changed["default_transaction_read_only"] == "on"
    assert json.loads(json.dumps(run.manifest.plan))["sweep"]["session_settings"] == {"work_mem": ["4MB", "64MB"]}
    with theirs.connect() as connection:
        assert connection.execute(LEFT).fetchone() == before


@pytest.fixture
def standby(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The connection string of a hot standby whose connection to its primary has a password in its settings."""
    monkeypatch.chdir(tmp_path)
    given = {"kind": "embedded", "version": "18", "settings": {"fsync": "off"}, "replicas": {"count": 1}}
    spec = EmbeddedTarget.model_validate(given)
    with opened(home, spec, "theirs") as server:
        preparer = Preparer(server, find_engine(), SilentProgress(), Reset(), {"select-only"})
        preparer.prepare(Dataset("pgbench", 1))
        (environment,) = server.replica_environments()
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with psycopg.connect("", autocommit=True) as connection:
            conninfo = present(connection.execute("SELECT current_setting('primary_conninfo')").fetchone())
            connection.execute(
                sql.SQL("ALTER SYSTEM SET primary_conninfo = {}").format(f"{conninfo[0]} application_name=x {SECRET}")
            )
            connection.execute("SELECT pg_reload_conf()")
        yield "dbname=" + environment["PGDATABASE"]


SECRET = "sslpassword=hunter2"


@pytest.mark.long
def test_a_hot_standby_answers_and_its_passwords_are_nowhere(standby: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.sql").write_text("SELECT pg_is_in_recovery();\n")
    asked = Question(
        dsn=[standby], settings=["jit=on,off"], scripts=["q.sql"], clients=1, duration="200ms", warmup="0s", pairs="6"
    )
    code = measure_and_answer(asked, how(tmp_path, save=tmp_path / "plan.toml"))
    found = answered(capsys)
    assert (code, found["trials"], found["failures"]) == (ExitCode.OK, 12, [])
    run = load_run(Path(found["run"]))
    assert present(run.manifest.targets[0].facts).settings_changed["primary_conninfo"] == "***"
    assert {row.setting for row in run.settings(names=["primary_conninfo"])} == {"***"}
    (kept,) = query("SELECT list(DISTINCT setting) FROM settings WHERE name = 'primary_conninfo'", [run.folder]).rows
    assert kept == (["***"],)
    for path in Path(found["run"]).rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_what_a_hot_standby_cannot_do_is_said_before_the_first_trial(standby: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    target = f'name = "reads"\n[target.standby]\nkind = "dsn"\ndsn = "{standby}"\nallow_existing = true\n'
    load = '[workload]\nscripts = ["select-only"]\n[sweep]\nclients = [1]\n[trial]\nduration = "1s"\n'
    plan.write_text(f'{target}database = "pgdyno"\n{load}[reset]\nanalyze = true\nprewarm = "pg_prewarm"\n')
    output = Output(html=None, csv=None, quiet=True, json=True)
    with pytest.raises(PlanError) as caught:
        run_plan(str(plan), [], How(tmp_path / "runs", output, check_first=False))
    said = [(problem.path, problem.message) for problem in caught.value.problems]
    assert said == [
        (where, f"{what}: target standby is a standby, which accepts no writes")
        for where, what in (
            ("workload.dataset", "cannot be loaded"),
            ("reset.analyze", "is not possible"),
            ("reset.prewarm", "is not possible"),
        )
    ]
    (tmp_path / "w.sql").write_text("UPDATE t SET x = 2;\n")
    writing = load.replace('"select-only"]', '"w.sql"]\ndataset = "none"')
    plan.write_text(f'{target}database = "pgdyno"\n{writing}')
    with pytest.raises(PlanError) as caught:
        run_plan(str(plan), [], How(tmp_path / "runs", output, check_first=False))
    assert [problem.path for problem in caught.value.problems] == ["workload.scripts"]
    plan.write_text(f'{target}database = "nosuch"\n{load}')
    with pytest.raises(TargetError, match="cannot create the database nosuch: the server is a standby"):
        run_plan(str(plan), [], How(tmp_path / "runs", output, check_first=False))


@pytest.mark.long_cases("True")
@pytest.mark.parametrize("writes", [False, True])
def test_a_script_that_writes_names_the_primary(writes: bool, standby: str, tmp_path: Path, capsys: Capture) -> None:
    # only the server knows that it writes
    (tmp_path / "w.sql").write_text("DO $$ BEGIN UPDATE pgbench_branches SET bbalance = 0; END $$;\n")
    asked = Question(
        dsn=[standby], settings=["jit=on,off"], scripts=["w.sql"], clients=1, duration="200ms", writes=writes
    )
    code = measure_and_answer(asked, how(tmp_path))
    found = answered(capsys)
    assert code is ExitCode.TRIALS_FAILED
    assert found["hints"] == ["a script writes, which a standby does not allow: name the primary"]
    (target,) = load_run(Path(found["run"])).manifest.targets
    assert target.facts is not None
    assert target.facts.is_standby
    assert f"{target.facts.version}, standby" in (Path(found["run"]) / "report.html").read_text()


def test_a_script_that_writes_names_the_option(theirs: Server, dsn: str, tmp_path: Path, capsys: Capture) -> None:
    with theirs.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS x")
    (tmp_path / "w.sql").write_text("UPDATE kept SET x = 2;\n")
    asked = Question(dsn=[dsn], settings=["work_mem=4MB,64MB"], scripts=["w.sql"], clients=1, duration="500ms")
    shown = Output(html=None, csv=None, quiet=True, json=False)
    code = measure_and_answer(asked, How(tmp_path / "runs", shown, check_first=False))
    said = capsys.readouterr().out
    assert code is ExitCode.TRIALS_FAILED
    assert "to allow that, in transactions that commit: --writes" in said
    assert value(theirs, "SELECT x FROM kept") == 1


def test_an_unknown_setting_is_corrected_not_run_again(dsn: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    asked = Question(dsn=[dsn], settings=["wrk_mem=4MB,64MB"], scripts=["q.sql"], clients=1, duration="500ms")
    shown = Output(html=None, csv=None, quiet=True, json=False)
    assert measure_and_answer(asked, How(tmp_path / "runs", shown, check_first=False)) is not ExitCode.OK
    said = capsys.readouterr().out
    assert "hint: correct --set, and run the command again" in said
    assert "redo-failed" not in said


def test_a_statement_that_is_wrong_is_corrected_not_run_again(dsn: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.sql").write_text("SELCT 1;\n")
    asked = Question(dsn=[dsn], settings=["work_mem=4MB,64MB"], scripts=["q.sql"], clients=1, duration="500ms")
    shown = Output(html=None, csv=None, quiet=True, json=False)
    assert measure_and_answer(asked, How(tmp_path / "runs", shown, check_first=False)) is ExitCode.TRIALS_FAILED
    said = capsys.readouterr().out
    assert "hint: correct the script, or what it needs in the database, and run the command again" in said
    assert "redo-failed" not in said


def test_the_audit_s_cautions_stand_before_the_answer(dsn: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1 WHERE false;\n")
    asked = Question(
        dsn=[dsn], settings=["jit=on,off"], scripts=["q.sql"], clients=1, duration="100ms", warmup="0s", pairs="6"
    )
    shown = Output(html=None, csv=None, quiet=True, json=False)
    assert measure_and_answer(asked, How(tmp_path / "runs", shown, check_first=False)) is ExitCode.OK
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"caution: no-rows: none of [\d,]+ executions at server .* report: .* off vs on: ", said)


def test_a_setting_that_the_script_sets_itself_is_refused(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SET work_mem = '8MB';\nSELECT 1;\n")
    asked = Question(dsn=[dsn], settings=["work_mem=4MB,64MB"], scripts=["q.sql"], clients=1)
    with pytest.raises(UsageError, match=r"^--set work_mem: q.sql sets work_mem itself, which overrides this value$"):
        measure_and_answer(asked, how(tmp_path, save=tmp_path / "plan.toml"))
    assert not (tmp_path / "plan.toml").exists()


def test_a_value_that_the_server_refuses_is_reported_before_any_trial(theirs: Server) -> None:
    with pytest.raises(TargetError, match='cannot set work_mem = 4XB for a session: invalid value for parameter "work'):
        theirs.check_session({"work_mem": "4XB"})
    with pytest.raises(TargetError, match="unrecognized configuration parameter"):
        theirs.check_session({"work_mm": "4MB"})
    with pytest.raises(
        TargetError, match=r"(?s)work_mem = 4XB for a session: .*; cannot set work_mm = 4MB for a session: "
    ):
        theirs.check_session({"work_mem": "4XB", "jit": "off", "work_mm": "4MB"})
    theirs.check_session({"search_path": "a, pg_catalog", "app.note": "it's  a\\b"})


def test_json_has_failures_and_hints(dsn: str, theirs: Server, tmp_path: Path, capsys: Capture) -> None:
    with theirs.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS x")
    (tmp_path / "w.sql").write_text("UPDATE kept SET x = 2;\n")
    asked = Question(dsn=[dsn], settings=["work_mem=4MB,64MB"], scripts=["w.sql"], clients=1, duration="500ms")
    assert measure_and_answer(asked, how(tmp_path)) is ExitCode.TRIALS_FAILED
    found = answered(capsys)
    assert "read-only transaction" in found["failures"][0]["message"]
    assert found["hints"] == ["a script writes; to allow that, in transactions that commit: --writes"]


def test_other_servers_hints_name_no_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.sql").write_text("BEGIN READ ONLY;\nUPDATE pgbench_accounts SET abalance = 0;\nEND;\n")
    asked = Question(
        versions=["18"],
        settings=["jit=on,off"],
        scripts=["w.sql"],
        clients=1,
        duration="500ms",
        warmup="0s",
        scale=1,
        pairs="6",
    )
    output = Output(html=None, csv=None, quiet=True, json=True)
    assert measure_and_answer(asked, How(tmp_path / "my runs", output, check_first=False)) is ExitCode.TRIALS_FAILED
    found = answered(capsys)
    assert "read-only transaction" in found["failures"][0]["message"]
    assert found["hints"] == [f"to run failed trials again: pgdyno run --resume '{found['run']}' --redo-failed"]


@pytest.mark.long_cases("[work_mem=1kB,4MB]")
@pytest.mark.parametrize("setting", ["work_mem=4MB,1kB", "work_mem=1kB,4MB", "shared_buffers=64kB,64MB"])
def test_a_value_that_our_server_refuses_is_corrected(setting: str, tmp_path: Path, capsys: Capture) -> None:
    asked = Question(versions=["18"], settings=[setting], clients=1, duration="500ms", warmup="0s", scale=1)
    shown = Output(html=None, csv=None, quiet=False, json=False)
    assert measure_and_answer(asked, How(tmp_path / "runs", shown, check_first=False)) is not ExitCode.OK
    said = capsys.readouterr()
    name = setting.partition("=")[0]
    reason = next(line for line in said.out.splitlines() if line.startswith("failed: "))
    assert name in reason
    assert "hint: correct --set, and run the command again" in said.out
    assert re.search("no answer(: no trial finished|: the trials of one arm are missing|, too few)", said.out)
    assert "the run ends after its first failed trial" in said.out + said.err
    assert "in the plan" not in said.out + said.err
    assert "resume" not in said.out + said.err
    (folder,) = (tmp_path / "runs").iterdir()
    began = "trials of one arm are missing" in said.out or "too few" in said.out
    assert (folder / "report.html").exists() is began is ("report: " in said.out)


def test_a_timeout_of_the_role_is_named_as_the_cause(theirs: Server, dsn: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.sql").write_text("SELECT pg_sleep(2);\n")
    asked = Question(dsn=[dsn], settings=["jit=on,off"], scripts=["q.sql"], clients=1, duration="1s", warmup="0s")
    shown = Output(html=None, csv=None, quiet=True, json=False)
    with theirs.connect() as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET statement_timeout = '20ms'")
    try:
        code = measure_and_answer(asked, How(tmp_path / "runs", shown, check_first=False))
    finally:
        with theirs.connect() as connection:
            connection.execute("ALTER ROLE CURRENT_USER RESET statement_timeout")
    said = capsys.readouterr().out
    assert code is ExitCode.TRIALS_FAILED
    assert "failed: canceling statement due to statement timeout" in said
    assert "hint: statement_timeout of the role, the database or PGOPTIONS canceled it: reset it, or add --set" in said
    assert "redo-failed" not in said


def test_row_level_security_without_a_policy_is_seen(theirs: Server, dsn: str, tmp_path: Path, capsys: Capture) -> None:
    with theirs.connect() as connection:
        connection.execute("CREATE TABLE invoices AS SELECT generate_series(1, 100) AS id")
        connection.execute("ALTER TABLE invoices ENABLE ROW LEVEL SECURITY")
        clerk = sql.SQL("CREATE ROLE clerk LOGIN PASSWORD {}").format(theirs.environment()["PGPASSWORD"])
        connection.execute(clerk)
        connection.execute("GRANT SELECT ON invoices TO clerk")
    (tmp_path / "q.sql").write_text("\\set id random(1, 100)\nSELECT * FROM invoices WHERE id = :id;\n")
    own = dsn.replace(f"user={theirs.user}", "user=clerk")
    asked = Question(
        dsn=[own], settings=["jit=on,off"], scripts=["q.sql"], clients=1, duration="100ms", warmup="0s", pairs="6"
    )
    shown = Output(html=None, csv=None, quiet=True, json=False)
    try:
        assert measure_and_answer(asked, How(tmp_path / "runs", shown, check_first=False)) is ExitCode.OK
    finally:
        with theirs.connect() as connection:
            connection.execute("DROP TABLE invoices; DROP ROLE clerk")
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"caution: no-rows: none of [\d,]+ executions at server .*: q.sql, line 2, SELECT \* FROM invoices", said
    )


@pytest.mark.long
def test_an_answer_is_printed_although_its_report_cannot_be_written(dsn: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    asked = Question(
        dsn=[dsn], settings=["jit=on,off"], scripts=["q.sql"], clients=1, duration="200ms", warmup="0s", pairs="6"
    )
    output = Output(html=tmp_path / ("x" * 250), csv=None, quiet=True, json=True)
    with pytest.raises(StoreError, match="file name too long"):
        measure_and_answer(asked, How(tmp_path / "runs", output, check_first=False))
    found = answered(capsys)
    assert found["answer"][0].startswith("off vs on: ")
    (tmp_path / "plan.toml").write_text(ab_plan(asked, tmp_path))
    once = ["trial.repeats=1"]
    how = How(tmp_path / "runs", replace(output, json=False), check_first=False)
    with pytest.raises(StoreError, match="file name too long"):
        run_plan(str(tmp_path / "plan.toml"), once, how)
    assert "jit" in capsys.readouterr().out


@pytest.mark.long
def test_the_saved_plan_is_the_one_that_ran_within_a_budget(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    asked = Question(
        dsn=[dsn], settings=["jit=on,off"], scripts=["q.sql"], clients=1, duration="500ms", warmup="0s", pairs="6..20"
    )
    save = tmp_path / "plan.toml"
    measure_and_answer(asked, how(tmp_path, save=save, budget="60s"))
    (run,) = (tmp_path / "runs").iterdir()
    assert load_plan(save).plan.trial.repeats == load_run(run).manifest.plan["trial"]["repeats"]


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM kept",
        "ANALYZE kept",
        "REINDEX TABLE kept",
        "CLUSTER kept USING kept_x",
        "CHECKPOINT",
        "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null'",
        "ALTER SYSTEM RESET jit",
        "COMMIT PREPARED 'nothing'",
        "BEGIN READ WRITE; DELETE FROM kept; ROLLBACK",
        "SET transaction_read_only = off",
        "SET default_transaction_read_only = off; DELETE FROM kept",
    ],
)
def test_what_a_read_only_session_may_write_is_refused_in_scripts(theirs: Server, statement: str) -> None:
    with theirs.connect() as connection:
        connection.execute(
            "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS x; CREATE INDEX kept_x ON kept (x)"
        )
    with theirs.address.connect(theirs.dbname, options="-c default_transaction_read_only=on") as connection:
        for each in statement.split("; "):
            # what is not there is no mistake of the transaction
            with suppress(psycopg.errors.UndefinedObject):
                connection.execute(each)
    assert first_escape(statement) is not None


@pytest.mark.parametrize("statement", ["SELECT nextval('kept_s')", "DELETE FROM kept", "CREATE TABLE more (x int)"])
def test_what_a_read_only_session_cannot_do_needs_no_check(theirs: Server, statement: str) -> None:
    with theirs.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS x")
        connection.execute("CREATE SEQUENCE IF NOT EXISTS kept_s")
    with (
        theirs.address.connect(theirs.dbname, options="-c default_transaction_read_only=on") as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute(statement)
