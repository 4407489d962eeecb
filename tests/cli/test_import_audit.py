"""`pgdyno import`, and audit, show and report of imported runs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from tests.cli.conftest import Run
from tests.unit import documents_sample as documents
from tests.unit.test_import_document import PGBENCH_17, SYSBENCH
from tests.unit.test_import_hammerdb_jobs import FUNCTIONS, LOG, TABLES


def test_a_document_goes_all_the_way(run: Run, tmp_path: Path) -> None:
    (tmp_path / "peaks.txt").write_text(documents.peaks_report() + "about 5 tps more\n", encoding="utf-8")
    brought = run("pgdyno", "import", "peaks.txt", "--into", "runs", "--json")
    assert brought.returncode == ExitCode.OK, brought.stderr
    told = json.loads(brought.stdout)
    line = len(documents.peaks_report().splitlines()) + 1
    assert told["unread"] == [{"file": "peaks.txt", "line": line, "text": "about 5 tps more"}]
    assert told["trials"] == 36
    assert [each["id"] for each in told["note_details"]] == ["lines-unread"]
    assert told["note_details"][0]["parameters"] == {"count": 1}
    assert told["notes"] == ["1 line with figures was not understood; manifest.json lists it"]

    audited = run("pgdyno", "audit", told["run"], "--json")
    assert audited.returncode == ExitCode.INVALID
    heavy = [(each["rule"], each["severity"]) for each in json.loads(audited.stdout) if each["severity"] != "note"]
    # what is known to be wrong with these figures
    assert sorted(heavy) == [
        ("arithmetic", "caution"),
        ("connection-time", "caution"),
        ("connection-time", "invalid"),
        ("durability", "caution"),
        ("littles-law", "caution"),
        ("littles-law", "invalid"),
        ("no-repeats", "caution"),
        ("outside-plan", "caution"),
        ("price-unsound", "invalid"),
    ]

    shown = run("pgdyno", "show", told["run"])
    assert shown.returncode == ExitCode.OK, shown.stderr
    assert "invalid: littles-law: throughput" in shown.stdout
    assert "imported from peaks.txt" in shown.stdout
    reported = run("pgdyno", "report", told["run"])
    assert reported.returncode == ExitCode.OK, reported.stderr
    assert "the figures were imported from" in (tmp_path / told["run"] / "report.html").read_text()


def test_what_the_lists_say_is_no_note_as_well(run: Run, tmp_path: Path) -> None:
    (tmp_path / "peaks.txt").write_text(documents.peaks_report() + "about 5 tps more\n", encoding="utf-8")
    brought = run("pgdyno", "import", "peaks.txt", "--into", "runs")
    assert "peaks.txt:" in brought.stdout
    assert "lines with figures that the importer does not understand: 1" in brought.stdout
    assert "note:" not in brought.stdout


def test_a_line_that_pgdyno_wrote_has_an_id(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sweep.csv").write_text("target,clients,tps,colour\na,1,10,red\n")
    told = json.loads(run("pgdyno", "import", "sweep.csv", "--into", "runs", "--json").stdout)
    (line,) = told["unread"]
    assert (line["id"], line["parameters"]) == ("column-unknown", {"column": "colour"})
    assert line["text"] == "unknown column 'colour'; map it with --map OURS=colour"


def test_a_caution_alone_is_no_failure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sweep.csv").write_text("target,clients,tps\na,1,10\na,2,20\n")
    assert run("pgdyno", "import", "sweep.csv", "--into", "pgdyno-runs").returncode == ExitCode.OK
    audited = run("pgdyno", "audit")
    assert audited.returncode == ExitCode.OK, audited.stderr
    assert "caution  no-repeats" in audited.stdout
    (unchecked,) = [line for line in audited.stdout.splitlines() if "not checked" in line]
    assert unchecked.startswith("not checked, because the source lacks the input (--json names it): littles-law, ")
    assert "order-bias" in unchecked


def test_files_that_cannot_be_had_are_named(run: Run) -> None:
    done = run("pgdyno", "import", "nowhere.txt")
    assert done.returncode == ExitCode.STORE
    assert "cannot read nowhere.txt: no such file or directory" in done.stderr


SETTINGS = """\
diset tpcc pg_superuserpass sEcret
Changed tpcc:pg_pass from tpcc to sEcret for PostgreSQL
Value sEcret for tpcc:pg_pass is the same as existing value sEcret, no change made
"""
BENCHBASE = """\
<url>jdbc:postgresql://u:sEcret@h/db?password=sEcret</url> <password>sEcret</password> 5 tps
{
  "DBMS Type": "postgres",
  "url": "jdbc:postgresql://h/db?user=u&password=sEcret",
  "password": "sEcret",
  "Throughput (requests/second)": 1234.5,
  "terminals": 8
}
"""
WITH_PASSWORDS = {
    "pgbench": "".join(
        f"$ PGPASSWORD=sEcret pgbench -c 4 -T 30 postgresql://u:sEcret@{host}/db\n{PGBENCH_17}\n"
        for host in ("h1", "h2")
    )
    + "# PGPASSWORD=sEcret\n\nexport PGPASSWORD=sEcret for 5 tps\n",
    "sysbench": SYSBENCH.replace("--tables=4", "--pgsql-password='sEcret' --tables=4", 1)
    + "\n$ sysbench --pgsql-password=sEcret run: 5 tps\n",
    "hammerdb": SETTINGS + LOG.format(version="4.12", setting=FUNCTIONS) + "diset tpcc pg_pass sEcret ;# 5 tps\n",
    "benchbase": BENCHBASE,
    "csv": "target,clients,tps,variables.dsn\na,8,100,host=h password=sEcret\na,8,x,postgresql://u:sEcret@h/db\n",
}


def _job_store(path: Path) -> None:
    described = "tpcc {pg_count_ware 40 pg_superuserpass sEcret pg_pass {sEcret} pg_duration 5}"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        connection.execute("INSERT INTO JOBMAIN VALUES ('AA', 'PostgreSQL', 'TPC-C', ?, '2026-01-01')", [described])
        lines = [*LOG.format(version="4.12", setting=FUNCTIONS).splitlines(), *SETTINGS.splitlines()]
        connection.executemany("INSERT INTO JOBOUTPUT VALUES ('AA', 1, ?)", [[line] for line in lines])
        connection.commit()


@pytest.mark.parametrize("tool", [*WITH_PASSWORDS, "hammerdb-store"])
def test_a_password_is_neither_stored_nor_printed(tool: str, run: Run, tmp_path: Path) -> None:
    if tool == "hammerdb-store":
        _job_store(tmp_path / "result")
    else:
        (tmp_path / "result").write_text(WITH_PASSWORDS[tool])
    texts = []
    for words in (["import", "result", "--into", "runs", "--json"], ["import", "result", "--into", "runs"]):
        done = run("pgdyno", *words)
        assert done.returncode == ExitCode.OK, done.stderr
        texts += [done.stdout, done.stderr]
    stored = json.loads(texts[0])["run"]
    for words in (
        ["show", stored],
        ["show", stored, "--json"],
        ["show", stored, "--csv"],
        ["audit", stored, "--json"],
        ["report", stored, "--md", "runs/report.md", "--csv", "runs/report.csv"],
        ["report", stored],
    ):
        done = run("pgdyno", *words)
        assert done.returncode in (ExitCode.OK, ExitCode.INVALID), done.stderr
        texts += [done.stdout, done.stderr]
    for path in (tmp_path / "runs").rglob("*"):
        texts += [str(path), path.read_bytes().decode("latin-1") if path.is_file() else ""]
    assert (tmp_path / stored / "report.html").exists()
    assert [text for text in texts if "sEcret" in text] == []


def test_a_refused_file_is_refused_without_its_password(run: Run, tmp_path: Path) -> None:
    (tmp_path / "result").write_text("PGPASSWORD=sEcret pgbench at postgresql://u:sEcret@h/db: 5 tps\n")
    done = run("pgdyno", "import", "result")
    assert done.returncode == ExitCode.STORE
    assert "result:1: PGPASSWORD=***" in done.stderr
    assert "sEcret" not in done.stdout + done.stderr
