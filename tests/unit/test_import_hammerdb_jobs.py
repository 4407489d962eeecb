"""HammerDB's job store and JSON report, written by hand from their documented tables and keys."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgdyno.audit.pairing import pairing_between
from pgdyno.errors import StoreError
from pgdyno.importers import hammerdb_job_store
from pgdyno.importers.write import import_files
from pgdyno.store import load_run
from tests.present import present
from tests.unit.import_sample import fields, import_texts, imported_run

JOBMAIN = "CREATE TABLE JOBMAIN (jobid TEXT PRIMARY KEY, db TEXT, bm TEXT, jobdict TEXT, timestamp DATETIME);"
JOBOUTPUT = "CREATE TABLE JOBOUTPUT (jobid TEXT, vu INTEGER, output TEXT);"
TABLES = f"""
{JOBMAIN}
{JOBOUTPUT}
CREATE TABLE JOBTIMING (jobid TEXT, vu INTEGER, procname TEXT, calls INTEGER, avg_ms REAL, summary INTEGER);
CREATE TABLE JOBTCOUNT (jobid TEXT, counter INTEGER, metric TEXT);
"""


def execute(path: Path, *scripts: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for script in scripts:
            connection.executescript(script)
        connection.commit()
    return path


def store(folder: Path) -> Path:
    path = folder / "hammer.DB"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        config = "connection {pg_host localhost} tpcc {pg_count_ware 40 pg_num_vu 4 pg_rampup 2 pg_duration 5}"
        jobs = ["AA PostgreSQL TPC-C", "BB PostgreSQL TPC-C", "CC MySQL TPC-C", "DD PostgreSQL TPC-H"]
        rows = [(*job.split(), config) for job in jobs]
        connection.executemany("INSERT INTO JOBMAIN VALUES (?, ?, ?, ?, '2026-01-01')", rows)
        said = [
            ("AA", "8 Active Virtual Users configured"),
            ("AA", "TEST RESULT : System achieved 60000 NOPM from 138000 PostgreSQL TPM"),
            ("BB", "Vuser 1:Beginning rampup time of 2 minutes"),
        ]
        connection.executemany("INSERT INTO JOBOUTPUT VALUES (?, 1, ?)", said)
        timing = [("AA", 2, "NEWORD", 30, 6.0, 0), ("AA", 3, "NEWORD", 10, 2.0, 0), ("AA", 2, "PAYMENT", 20, 1.5, 0)]
        connection.executemany("INSERT INTO JOBTIMING VALUES (?, ?, ?, ?, ?, ?)", timing)
        connection.commit()
    return path


def test_a_job_store_gives_a_trial_for_each_job_with_a_result(tmp_path: Path) -> None:
    result = import_files([store(tmp_path)], tmp_path / "runs", target="pg18")
    assert result.trials == 1
    assert [(line.line, line.text.split(":")[0]) for line in result.unread] == [
        (2, "job BB of PostgreSQL, TPC-C"), (3, "job CC of MySQL, TPC-C"), (4, "job DD of PostgreSQL, TPC-H"),
    ]  # fmt: skip
    run = load_run(result.run)
    assert fields(run.trials, "point.clients point.scale duration_s summary.tps") == [(8, 40, 300, 2_300)]
    source = present(run.trials[0].imported)
    assert (source.figures["nopm"], source.figures["tpm"]) == (60_000, 138_000)
    assert (source.line, source.words["job"], source.printed["nopm"].line) == (1, "AA", 1)
    assert fields(run.statements(1), "text latency_mean_ns") == [("NEWORD", 5e6), ("PAYMENT", 1.5e6)]


ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"
RENAMED = "PRAGMA writable_schema = ON; UPDATE sqlite_master SET type = 'table', rootpage = 2 WHERE name = 'JOBMAIN';"
VIEW = f"CREATE VIEW JOBMAIN AS {ENDLESS} SELECT i AS jobid, 'PostgreSQL' AS db, 'TPC-C' AS bm, '' AS jobdict FROM r;"


def test_a_store_whose_tables_are_not_ordinary_is_refused(tmp_path: Path) -> None:
    for script, said in (
        ("CREATE TABLE t (a INTEGER);", "no such table: JOBMAIN"),
        (f"{JOBOUTPUT}{VIEW}", "JOBMAIN is not an ordinary table"),
        (f"{JOBOUTPUT}{VIEW}{RENAMED}", "JOBMAIN is not an ordinary table|malformed"),
        (
            f"{JOBMAIN}CREATE VIEW joboutput AS {ENDLESS} SELECT 'AA' AS jobid, 'x' AS output FROM r;",
            "JOBOUTPUT is not an ordinary table",
        ),
        (
            f"{JOBMAIN}{JOBOUTPUT}CREATE VIEW JOBTIMING AS {ENDLESS} SELECT 'AA' AS jobid FROM r;",
            "JOBTIMING is not an ordinary table",
        ),
        (f"{JOBOUTPUT}CREATE VIRTUAL TABLE JOBMAIN USING fts5(jobid, db, bm, jobdict);", "JOBMAIN is not an ordinary"),
        (JOBMAIN, "no such table: JOBOUTPUT"),
        (f"{JOBMAIN.replace(');', ') WITHOUT ROWID;')}{JOBOUTPUT}", "no such column: rowid"),
    ):
        (tmp_path / "hammer.DB").unlink(missing_ok=True)
        execute(tmp_path / "hammer.DB", script)
        with pytest.raises(StoreError, match=rf"cannot import .*hammer\.DB: ({said})"):
            import_files([tmp_path / "hammer.DB"], tmp_path / "runs")
        assert not (tmp_path / "runs").exists()


def test_too_large_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most, said in (
        ("MOST_JOBS", 3, "it has more than 3 jobs"),
        ("MOST_RESULTS", 0, "its jobs have more than 0 results"),
        ("LARGEST_VALUE", 1_000, "a row has more than 1,000 bytes"),
        ("MOST_STEPS", 5_000, "reading it takes SQLite more than 5,000 steps"),
    ):
        monkeypatch.setattr(hammerdb_job_store, "STEPS_BETWEEN_CHECKS", 1_000)
        rows = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 2000)"
        many = f"INSERT INTO JOBOUTPUT {rows} SELECT 'AA', 1, printf('%.*c', 990, 'x') FROM r;"
        path = execute(store(tmp_path), many, "INSERT INTO JOBOUTPUT VALUES ('AA', 1, printf('%.*c', 9000, 'y'));")
        assert import_files([path], tmp_path / "runs").trials == 1
        with monkeypatch.context() as patch:
            patch.setattr(hammerdb_job_store, limit, most)
            with pytest.raises(StoreError, match=said):
                import_files([path], tmp_path / "runs")


def test_a_store_with_triggers_and_values_of_other_types_is_read(tmp_path: Path) -> None:
    path = execute(
        store(tmp_path),
        "CREATE TRIGGER t AFTER INSERT ON JOBOUTPUT BEGIN DELETE FROM JOBMAIN; END;",
        "INSERT INTO JOBMAIN VALUES (NULL, 'PostgreSQL', 'TPC-C', NULL, NULL);",
        "INSERT INTO JOBMAIN VALUES (x'ff', 'PostgreSQL', 'TPC-C', x'ff', NULL);",
        f"INSERT INTO JOBMAIN VALUES ('FF', NULL, 'TPC-C', 'pg_count_ware {'9' * 5_000}', NULL);",
        # a time that is not a number
        "INSERT INTO JOBTIMING VALUES ('AA', 2, 'DELIVERY', 5, NULL, 0);",
    )
    result = import_files([path], tmp_path / "runs")
    assert (result.trials, len(result.unread)) == (1, 6)
    assert fields(load_run(result.run).statements(1), "text") == ["NEWORD", "PAYMENT"]


def test_commits_that_are_still_in_the_log_of_a_store_count(tmp_path: Path) -> None:
    path = store(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode = wal").fetchone() == ("wal",)
        said = "System achieved 6 NOPM from 9 PostgreSQL TPM"
        connection.execute("INSERT INTO JOBOUTPUT VALUES ('BB', 1, ?)", [said])
        connection.commit()
        assert path.with_name("hammer.DB-wal").stat().st_size > 0
        assert import_files([path], tmp_path / "runs").trials == 2


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    for at in (100, 5_000):
        path = store(tmp_path)
        content = path.read_bytes()
        path.write_bytes(content[:at] + b"\xff" * 4_096 + content[at + 4_096 :])
        with pytest.raises(StoreError, match=r"cannot import .*hammer\.DB: "):
            import_files([path], tmp_path / "runs")


DICTIONARY = (
    "connection {{pg_host {host} pg_port 5432 pg_sslmode prefer}} tpcc {{pg_count_ware 100 pg_dbase tpcc "
    "pg_defaultdbase postgres pg_rampup {rampup} pg_duration 5 pg_allwarehouse {all} pg_keyandthink {key} "
    "pg_storedprocs {procs}}}"
)
PLAIN = {"host": "db1", "rampup": "2", "all": "false", "key": "false", "procs": "false"}


def test_jobs_of_other_servers_and_loads_are_no_repeats(tmp_path: Path) -> None:
    for other, target, variables in (
        ({}, "pg", {}), ({"host": "db2"}, "pg, db2:5432:tpcc", {}), ({"rampup": "10"}, "pg", {"rampup_min": "10"}),
        ({"all": "true"}, "pg", {"allwarehouse": "true"}), ({"key": "true"}, "pg", {"keyandthink": "true"}),
        ({"procs": "true"}, "pg", {"storedprocs": "true"}),
    ):  # fmt: skip
        result = "TEST RESULT : System achieved 60000 NOPM from 138000 PostgreSQL TPM"
        rows = [
            f"INSERT INTO JOBMAIN VALUES ('{job}', 'PostgreSQL', 'TPC-C', '{DICTIONARY.format(**settings)}', NULL);"
            f"INSERT INTO JOBOUTPUT VALUES ('{job}', 1, '{result}');"
            for job, settings in (("AA", PLAIN), ("BB", PLAIN | other))
        ]
        path = execute(tmp_path / f"{next(iter(other), 'same')}.DB", TABLES, *rows)
        trials = load_run(import_files([path], tmp_path / "runs", target="pg").run).trials
        assert fields(trials, "repeat") == [1, 1 if other else 2]
        assert (trials[1].target, trials[1].point.variables) == (target, variables)


def report(**job: str) -> str:
    told = {
        "schema": "hammerdb-job-report-v1",
        "job": {"jobid": "EE", "hdb_version": "v6.0", "database": "PostgreSQL", "benchmark": "TPROC-C", **job},
        "benchmark_config": {"warehouses": 100, "virtual_users": 16, "rampup_minutes": 2, "duration_minutes": 5},
        "result": {"nopm": 90_000, "tpm": 207_000},
    }
    return json.dumps(told, indent=1)


def test_a_report_is_one_trial_unless_it_says_nothing_of_ours(tmp_path: Path) -> None:
    run = imported_run(tmp_path, report(), names=["job.json"])
    assert fields(run.trials, "point.clients point.scale duration_s summary.tps") == [(16, 100, 300, 3_450)]
    assert fields(run.trials, "imported.tool imported.version") == [("hammerdb", "6.0")]
    for text in (
        report(database="MariaDB"), report(benchmark="TPROC-H"), report()[:-20],
        '{"schema": "hammerdb-job-report-v1"}', *IMPOSSIBLE,
    ):  # fmt: skip
        assert text != report()
        with pytest.raises(StoreError, match="no output of a known tool") as caught:
            import_texts(tmp_path, text, names=["job.json"])
        assert text in IMPOSSIBLE or present(caught.value.hint).startswith("1 line ")


IMPOSSIBLE = [
    re.sub(rf'("{name}": )[\d.]+', rf"\g<1>{value}", report())
    for name in ("nopm", "tpm", "virtual_users", "duration_minutes")
    for value in ("NaN", "-60000")
]


LOG = """\
HammerDB CLI v{version}
{setting}
Vuser 1:8 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 50123 NOPM from 115377 PostgreSQL TPM
"""
FUNCTIONS = "Value false for tpcc:pg_storedprocs is the same as existing value false, no change made"
PROCEDURES = "Changed tpcc:pg_storedprocs from false to true for PostgreSQL"


def log(version: str, setting: str = "") -> str:
    return LOG.format(version=version, setting=setting)


def test_the_release_and_settings_of_a_session_tell_unused_items(tmp_path: Path) -> None:
    for version, setting, unused_item in (
        ("4.12", "", "commits"),
        ("6.0", PROCEDURES, "commits"),
        ("6.1", "", "rolls back"),
        ("6.1.1", FUNCTIONS, "commits"),
        ("6.1.1", 'set pg_storedprocs "false" ;#Postgres v11 Stored Procedures', "commits"),
        ("6.1.1", PROCEDURES, "rolls back"),
        (
            "6.1.1",
            "stored procedures requested, but functions found. Auto-switching pg_storedprocs to false.",
            "commits",
        ),
        ("6.1.1", "", None),
        ("3.3", "", None),
    ):
        trials = imported_run(tmp_path, log(version, setting)).trials
        assert fields(trials, "imported.version imported.unused_item") == [(version, unused_item)]
    settings = f"{PROCEDURES}\nChanged tpcc:pg_count_ware from 1 to 100 for PostgreSQL"
    trials = imported_run(tmp_path, log("6.1.1", settings) + log("6.1.1")).trials
    assert fields(trials, "imported.unused_item point.scale") == [("rolls back", 100), (None, None)]


def test_runs_after_a_changed_setting(tmp_path: Path) -> None:
    for between, target, variables in (
        ("Changed connection:pg_host from db1 to db2 for PostgreSQL", "pg, db2", {}),
        ("hammerdb>diset connection pg_port 5433", "pg, 5433", {}),
        ("Changed tpcc:pg_keyandthink from false to true for PostgreSQL", "pg", {"keyandthink": "true"}),
        ("hammerdb>diset tpcc pg_allwarehouse true", "pg", {"allwarehouse": "true"}),
        ("diset('tpcc','pg_storedprocs','true')", "pg", {"storedprocs": "true"}),
        ("Vuser 1:Beginning rampup time of 5 minutes", "pg", {"rampup_min": "5"}),
        ("Value true for tpcc:pg_allwarehouse is the same as existing value true, no change made", "pg", None),
        ("the pg_host is the same", "pg", None),
    ):
        begin = "HammerDB CLI v4.9\nVuser 1:Beginning rampup time of 2 minutes\n"
        text = "".join([begin, RESULT.format(1), f"{between}\n", RESULT.format(2), RESULT.format(3)])
        trials = imported_run(tmp_path, text, target="pg").trials
        assert fields(trials, "repeat") == ([1, 2, 3] if variables is None else [1, 1, 2])
        assert (trials[1].target, trials[1].point.variables) == (target, variables or {})


RESULT = (
    "Vuser 1:8 Active Virtual Users configured\nVuser 1:TEST RESULT : System achieved {} NOPM from 9 PostgreSQL TPM\n"
)
STARTS = "Vuser 1:RUNNING\nVuser 1:Beginning rampup time of 2 minutes\nVuser 1:Timing test period of 5 in minutes\n"
TWO_FAILED = (
    "Error in Virtual User 2: FATAL: terminating connection due to administrator command\nVuser 2:FINISHED FAILED\n"
    "Vuser 3:FINISHED FAILED\n"
)


def test_virtual_users_that_failed_are_counted(tmp_path: Path) -> None:
    for text, aborted in (
        (f"{STARTS}{TWO_FAILED}{RESULT.format(1)}Vuser 4:FINISHED SUCCESS\n", [2]),
        (f"{STARTS}{RESULT.format(1)}{TWO_FAILED}", [2]),
        (f"{STARTS}{RESULT.format(1)}{STARTS}{TWO_FAILED}{RESULT.format(2)}", [0, 2]),
        (f"{STARTS}{TWO_FAILED}{RESULT.format(1)}{TWO_FAILED}{RESULT.format(2)}", [2, 0]),
        # the first run has no result
        (f"HammerDB CLI v4.8\n{TWO_FAILED}HammerDB CLI v4.8\n{RESULT.format(1)}", [0]),
    ):
        result = import_texts(tmp_path, text)
        assert fields(load_run(result.run).trials, "summary.clients_aborted") == aborted
        assert result.unread == []


def test_releases_that_do_different_work_are_neither_imported_into_one_run_nor_compared(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"HammerDB 6\.0 \(.*\) commits and HammerDB 6\.1 \(.*\) rolls back") as caught:
        import_texts(tmp_path, log("6.0"), log("6.1"))
    assert present(caught.value.hint).startswith("import them separately")
    assert import_texts(tmp_path, log("6.0"), log("6.1.1", FUNCTIONS)).trials == 2
    old, new, open_, older = (imported_run(tmp_path, log(version)) for version in ("6.0", "6.1", "6.1.1", "5.0"))
    assert fields(pairing_between(old, new).refused, "field a b") == [("unused_item", "commits", "rolls back")]
    same = pairing_between(old, older)
    assert "unused_item" not in f"{same.refused} {same.cautions}"
    unknown = pairing_between(old, open_)
    assert unknown.refused == []
    assert "unused_item: commits vs unknown: unknown for one of them" in [str(each) for each in unknown.cautions]
    mixed = pairing_between(old, imported_run(tmp_path, log("6.0"), log("6.1.1")))
    assert (mixed.refused, len(mixed.cautions)) == ([], len(unknown.cautions))
