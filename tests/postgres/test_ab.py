"""`pgdyno ab` on an existing server: the answer, and what the comparison leaves on the server."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
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
from pgdyno.prepare import Dataset
from pgdyno.store import load_run, query
from pgdyno.targets import Home, Server
from tests.json_schema import SCHEMA, validated
from tests.postgres.servers import embedded, execute, on_replica, opened, preparer, rows, value
from tests.present import present

Capture = pytest.CaptureFixture[str]

LEFT = """
    SELECT (SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_database),
           (SELECT count(*) FROM pg_db_role_setting), (SELECT count(*) FROM pg_file_settings)
"""
SECRET = "sslpassword=hunter2"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def theirs(home: Home) -> Iterator[Server]:
    with opened(home, embedded(connect="tcp"), "theirs") as server:
        yield server


@pytest.fixture
def dsn(theirs: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    execute(theirs, "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS x; CREATE INDEX kept_x ON kept (x)")
    for name, given in theirs.environment().items():
        monkeypatch.setenv(name, given)
    return f"host={theirs.host} port={theirs.port} user={theirs.user} dbname={theirs.dbname}"


@pytest.fixture(scope="module")
def hot_standby(home: Home) -> Iterator[dict[str, str]]:
    """Variables of a hot standby whose connection to its primary has a password in its settings."""
    with opened(home, embedded(replicas={"count": 1}), "primary") as server:
        preparer(server, "select-only").prepare(Dataset("pgbench", 1))
        conninfo = f"{on_replica(server, 'SHOW primary_conninfo')} application_name=x {SECRET}"
        (address,) = server.replica_addresses()
        with address.connect(server.dbname) as connection:
            connection.execute(sql.SQL("ALTER SYSTEM SET primary_conninfo = {}").format(conninfo))
            connection.execute("SELECT pg_reload_conf()")
        yield address.environment(server.dbname)


@pytest.fixture
def standby(hot_standby: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, given in hot_standby.items():
        monkeypatch.setenv(name, given)
    return "dbname=" + hot_standby["PGDATABASE"]


def answered(capsys: Capture) -> Any:  # noqa: ANN401 - any JSON
    """The last line of standard output, which matches the schema."""
    found = validated("ab", capsys.readouterr().out.splitlines()[-1])
    assert found.keys() == SCHEMA["$defs"]["ab"]["properties"].keys()
    return found


def question(script: str, settings: str = "jit=on,off", **more: Any) -> Question:  # noqa: ANN401 - of any type
    """Returns a question about a script of this text, which has an answer after 6 pairs of short trials."""
    Path("q.sql").write_text(script)
    given = {"settings": [settings], "scripts": ["q.sql"], "clients": 1, "duration": "100ms", "warmup": "0s"}
    return Question(**{**given, "pairs": "6", **more})


def how_to_run(runs: str = "runs", *, text: bool = False, html: Path | None = None, **more: Any) -> How:  # noqa: ANN401
    output = Output(html=html, csv=None, quiet=True, json=not text)
    return How(Path.cwd() / runs, output, check_first=False, **more)


def test_answers_by_session_settings_alone(theirs: Server, dsn: str, capsys: Capture) -> None:
    before = rows(theirs, LEFT)
    asked = question("SELECT current_setting('work_mem');\n", "work_mem=4MB,64MB", dsn=[dsn])
    assert measure_and_answer(asked, how_to_run(save=Path("plan.toml"))) is ExitCode.OK
    found = answered(capsys)
    assert (found["failures"], found["hints"]) == ([], [])
    assert (found["trials"], found["failed"]) == (12, 0)
    assert found["answer"][0].startswith("64MB vs 4MB: ")
    assert found["comparisons"][0]["points"][0]["pairs"] == 6
    run = load_run(Path(found["run"]))
    for trial in run.trials:
        assert present(trial.prepare).method == "none"
        memory = trial.point.settings["work_mem"]
        assert trial.session_settings == {"default_transaction_read_only": "on", "work_mem": memory}
    assert {row.trial: (row.setting, row.source) for row in run.settings(names=["work_mem"])} == {
        trial.number: ("4096" if trial.point.settings["work_mem"] == "4MB" else "65536", "client")
        for trial in run.trials
    }
    facts = present(run.manifest.targets[0].facts)
    assert facts.settings_changed["default_transaction_read_only"] == "on"
    assert json.loads(json.dumps(run.manifest.plan))["sweep"]["session_settings"] == {"work_mem": ["4MB", "64MB"]}
    assert rows(theirs, LEFT) == before


@pytest.mark.long
def test_a_hot_standby_answers_and_its_passwords_are_nowhere(standby: str, capsys: Capture) -> None:
    asked = question("SELECT pg_is_in_recovery();\n", dsn=[standby])
    code = measure_and_answer(asked, how_to_run(save=Path("plan.toml")))
    found = answered(capsys)
    assert (code, found["trials"], found["failures"]) == (ExitCode.OK, 12, [])
    run = load_run(Path(found["run"]))
    assert present(run.manifest.targets[0].facts).settings_changed["primary_conninfo"] == "***"
    assert {row.setting for row in run.settings(names=["primary_conninfo"])} == {"***"}
    (kept,) = query("SELECT list(DISTINCT setting) FROM settings WHERE name = 'primary_conninfo'", [run.folder]).rows
    assert kept == (["***"],)
    for path in Path(found["run"]).rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_what_a_hot_standby_cannot_do_is_said_before_the_first_trial(standby: str) -> None:
    def run(database: str, workload: str, reset: str = "") -> None:
        target = f'[target.standby]\nkind = "dsn"\ndsn = "{standby}"\nallow_existing = true\ndatabase = "{database}"\n'
        rest = f'[sweep]\nclients = [1]\n[trial]\nduration = "1s"\n[reset]\n{reset}'
        Path("plan.toml").write_text(f'name = "reads"\n{target}[workload]\n{workload}\n{rest}')
        run_plan("plan.toml", [], how_to_run())

    with pytest.raises(PlanError) as caught:
        run("pgdyno", 'scripts = ["select-only"]', 'analyze = true\nprewarm = "pg_prewarm"\n')
    assert [(problem.path, problem.message) for problem in caught.value.problems] == [
        (where, f"{what}: target standby is a standby, which accepts no writes")
        for where, what in (
            ("workload.dataset", "cannot be loaded"),
            ("reset.analyze", "is not possible"),
            ("reset.prewarm", "is not possible"),
        )
    ]
    Path("w.sql").write_text("UPDATE t SET x = 2;\n")
    with pytest.raises(PlanError) as caught:
        run("pgdyno", 'scripts = ["w.sql"]\ndataset = "none"')
    assert [problem.path for problem in caught.value.problems] == ["workload.scripts"]
    with pytest.raises(TargetError, match="cannot create the database nosuch: the server is a standby"):
        run("nosuch", 'scripts = ["select-only"]')


@pytest.mark.long_cases("True")
@pytest.mark.parametrize("writes", [False, True])
def test_a_script_that_writes_names_the_primary(writes: bool, standby: str, capsys: Capture) -> None:
    # only the server knows that it writes
    asked = question("DO $$ BEGIN UPDATE pgbench_branches SET bbalance = 0; END $$;\n", dsn=[standby], writes=writes)
    assert measure_and_answer(asked, how_to_run()) is ExitCode.TRIALS_FAILED
    found = answered(capsys)
    assert found["hints"] == ["a script writes, which a standby does not allow: name the primary"]
    (target,) = load_run(Path(found["run"])).manifest.targets
    facts = present(target.facts)
    assert facts.is_standby
    assert f"{facts.version}, standby" in (Path(found["run"]) / "report.html").read_text()


def test_a_script_that_writes_names_the_option(theirs: Server, dsn: str, capsys: Capture) -> None:
    asked = question("UPDATE kept SET x = 2;\n", dsn=[dsn])
    assert measure_and_answer(asked, how_to_run()) is ExitCode.TRIALS_FAILED
    found = answered(capsys)
    assert "read-only transaction" in found["failures"][0]["message"]
    assert found["hints"] == ["a script writes; to allow that, in transactions that commit: --writes"]
    assert value(theirs, "SELECT x FROM kept") == 1


def test_what_is_wrong_is_corrected_not_run_again(theirs: Server, dsn: str, capsys: Capture) -> None:
    timeout = (
        "failed: canceling statement due to statement timeout",
        "hint: statement_timeout of the role, the database or PGOPTIONS canceled it: reset it, or add --set",
    )
    script_hint = "hint: correct the script, or what it needs in the database, and run the command again"
    for script, setting, words in (
        ("SELECT 1;", "wrk_mem=4MB,64MB", ["hint: correct --set, and run the command again"]),
        ("SELCT 1;", "work_mem=4MB,64MB", [script_hint]),
        ("SELECT pg_sleep(2);", "jit=on,off", timeout),
    ):
        if words is timeout:
            execute(theirs, "ALTER ROLE CURRENT_USER SET statement_timeout = '20ms'")
        try:
            code = measure_and_answer(question(script, setting, dsn=[dsn]), how_to_run(text=True))
        finally:
            execute(theirs, "ALTER ROLE CURRENT_USER RESET statement_timeout")
        said = capsys.readouterr().out
        assert code is not ExitCode.OK if "wrk" in setting else code is ExitCode.TRIALS_FAILED
        assert [each for each in words if each not in said] == []
        assert "redo-failed" not in said


def test_a_setting_that_the_script_sets_itself_is_refused(dsn: str) -> None:
    asked = question("SET work_mem = '8MB';\nSELECT 1;\n", "work_mem=4MB,64MB", dsn=[dsn])
    with pytest.raises(UsageError, match=r"^--set work_mem: q.sql sets work_mem itself, which overrides this value$"):
        measure_and_answer(asked, how_to_run(save=Path("plan.toml")))
    assert not Path("plan.toml").exists()


def test_a_value_that_the_server_refuses_is_reported_before_any_trial(theirs: Server) -> None:
    with pytest.raises(TargetError, match='cannot set work_mem = 4XB for a session: invalid value for parameter "work'):
        theirs.check_session({"work_mem": "4XB"})
    message = (
        '(?s)cannot set work_mem = 4XB for a session: invalid value for parameter "work.*'
        "; cannot set work_mm = 4MB for a session: unrecognized configuration parameter"
    )
    with pytest.raises(TargetError, match=message):
        theirs.check_session({"work_mem": "4XB", "jit": "off", "work_mm": "4MB"})
    theirs.check_session({"search_path": "a, pg_catalog", "app.note": "it's  a\\b"})


def test_other_servers_hints_name_no_writes(capsys: Capture) -> None:
    script = "BEGIN READ ONLY;\nUPDATE pgbench_accounts SET abalance = 0;\nEND;\n"
    asked = question(script, versions=["18"], scale=1)
    assert measure_and_answer(asked, how_to_run("my runs")) is ExitCode.TRIALS_FAILED
    found = answered(capsys)
    assert "read-only transaction" in found["failures"][0]["message"]
    assert found["hints"] == [f"to run failed trials again: pgdyno run --resume '{found['run']}' --redo-failed"]


@pytest.mark.long_cases("[work_mem=1kB,4MB]")
@pytest.mark.parametrize("setting", ["work_mem=4MB,1kB", "work_mem=1kB,4MB", "shared_buffers=64kB,64MB"])
def test_a_value_that_our_server_refuses_is_corrected(setting: str, capsys: Capture) -> None:
    asked = Question(versions=["18"], settings=[setting], clients=1, duration="500ms", warmup="0s", scale=1)
    shown = Output(html=None, csv=None, quiet=False, json=False)
    assert measure_and_answer(asked, How(Path("runs"), shown, check_first=False)) is not ExitCode.OK
    said = capsys.readouterr()
    reason = next(line for line in said.out.splitlines() if line.startswith("failed: "))
    assert setting.partition("=")[0] in reason
    assert "hint: correct --set, and run the command again" in said.out
    assert re.search("no answer(: no trial finished|: the trials of one arm are missing|, too few)", said.out)
    assert "the run ends after its first failed trial" in said.out + said.err
    assert "in the plan" not in said.out + said.err
    assert "resume" not in said.out + said.err
    (folder,) = Path("runs").iterdir()
    began = "trials of one arm are missing" in said.out or "too few" in said.out
    assert (folder / "report.html").exists() is began is ("report: " in said.out)


def test_the_audit_s_caution_about_hidden_rows_comes_before_the_answer(
    theirs: Server, dsn: str, capsys: Capture
) -> None:
    execute(
        theirs,
        "CREATE TABLE invoices AS SELECT generate_series(1, 100) AS id",
        "ALTER TABLE invoices ENABLE ROW LEVEL SECURITY",
        f"CREATE ROLE clerk LOGIN PASSWORD '{theirs.environment()['PGPASSWORD']}'",
        "GRANT SELECT ON invoices TO clerk",
    )
    own = dsn.replace(f"user={theirs.user}", "user=clerk")
    asked = question("\\set id random(1, 100)\nSELECT * FROM invoices WHERE id = :id;\n", dsn=[own])
    try:
        assert measure_and_answer(asked, how_to_run(text=True)) is ExitCode.OK
    finally:
        execute(theirs, "DROP TABLE invoices", "DROP ROLE clerk")
    said = " ".join(capsys.readouterr().out.split())
    statement = r"q.sql, line 2, SELECT \* FROM invoices"
    assert re.search(
        rf"caution: no-rows: none of [\d,]+ executions at server .*: {statement}.* report: .* off vs on: ", said
    )


@pytest.mark.long
def test_an_answer_is_printed_although_its_report_cannot_be_written(dsn: str, folder: Path, capsys: Capture) -> None:
    asked = question("SELECT 1;\n", dsn=[dsn])
    html = folder / ("x" * 250)
    with pytest.raises(StoreError, match="file name too long"):
        measure_and_answer(asked, how_to_run(html=html))
    found = answered(capsys)
    assert found["answer"][0].startswith("off vs on: ")
    Path("plan.toml").write_text(ab_plan(asked, folder))
    with pytest.raises(StoreError, match="file name too long"):
        run_plan("plan.toml", ["trial.repeats=1"], how_to_run(html=html, text=True))
    assert "jit" in capsys.readouterr().out


@pytest.mark.long
def test_the_saved_plan_is_the_one_that_ran_within_a_budget(dsn: str) -> None:
    measure_and_answer(
        question("SELECT 1;\n", dsn=[dsn], duration="500ms", pairs="6..20"),
        how_to_run(save=Path("plan.toml"), budget="60s"),
    )
    (run,) = Path("runs").iterdir()
    assert load_plan("plan.toml").plan.trial.repeats == load_run(run).manifest.plan["trial"]["repeats"]


@pytest.mark.usefixtures("dsn")
def test_what_a_read_only_session_may_write_is_refused_in_scripts(theirs: Server) -> None:
    def session() -> psycopg.Connection[Any]:
        return theirs.address.connect(theirs.dbname, options="-c default_transaction_read_only=on")

    for statement in (
        "VACUUM kept", "ANALYZE kept", "REINDEX TABLE kept", "CLUSTER kept USING kept_x", "CHECKPOINT",
        "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null'", "ALTER SYSTEM RESET jit", "COMMIT PREPARED 'nothing'",
        "BEGIN READ WRITE; DELETE FROM kept; ROLLBACK", "SET transaction_read_only = off",
        "SET default_transaction_read_only = off; DELETE FROM kept",
    ):  # fmt: skip
        with session() as connection:
            for each in statement.split("; "):
                # what is not there is no mistake of the transaction
                with suppress(psycopg.errors.UndefinedObject):
                    connection.execute(each.encode())
        assert first_escape(statement) is not None, statement
    # what it cannot do needs no check
    execute(theirs, "CREATE SEQUENCE kept_s OWNED BY kept.x")
    for statement in ("SELECT nextval('kept_s')", "DELETE FROM kept", "CREATE TABLE more (x int)"):
        with session() as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute(statement.encode())
