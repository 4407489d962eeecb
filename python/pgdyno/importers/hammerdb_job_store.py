"""Parses HammerDB's jobs: its SQLite store, and the JSON report of one job.

Tables and keys are those of hammerdb's modules/jobs-1.0.tm (versions 4.5 to 6.0).
"""

import json
import math
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pgdyno.errors import StoreError
from pgdyno.importers.documents.blocks import LONGEST_LINE
from pgdyno.importers.documents.passwords import without_passwords
from pgdyno.importers.hammerdb import MOST_PROCEDURES, HammerdbParser, put_settings, settings_in
from pgdyno.importers.parsed import Document, Output, Statement, unused_line
from pgdyno.messages import Message

SQLITE = b"SQLite format 3\0"
REPORT = "hammerdb-job-report-v1"
LONGEST_NAME = 100
"""Characters of a job's name, database and benchmark that are kept."""


def is_report(text: str) -> bool:
    return text.lstrip().startswith("{") and f'"{REPORT}"' in text


def read_report(text: str) -> Document:
    """Return the job of a report. A job of another database or of TPROC-H is unread."""
    try:
        report = json.loads(text)
        job = report["job"]
        if str(job["benchmark"]).upper() in _TPCC and _is_postgres(job["database"]):
            return Document(outputs=[_of_report(job, report["benchmark_config"], report["result"])])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = repr(error)
        what = Message("hammerdb-report-invalid", "a HammerDB report that pgdyno cannot read: {error}", error=why)
        return Document(unread=[unused_line(1, what)])
    database, benchmark = (str(job[name])[:LONGEST_NAME] for name in ("database", "benchmark"))
    what = Message(
        "hammerdb-report-of-another", "a job of {database} and {benchmark}", database=database, benchmark=benchmark
    )
    return Document(unread=[unused_line(1, what)])


def _of_report(job: dict[str, Any], asked: dict[str, Any], result: dict[str, Any]) -> Output:
    version = str(job["hdb_version"]).removeprefix("v")[:LONGEST_NAME] if job.get("hdb_version") else None
    output = Output("hammerdb", 1, 1, version=version, workload="tpcc")
    warehouses, minutes, rampup = (asked.get(name) for name in ("warehouses", "duration_minutes", "rampup_minutes"))
    figures = {
        "nopm": float(result["nopm"]),
        "tpm": float(result["tpm"]),
        "clients": int(asked["virtual_users"]),
        "warehouses": None if warehouses is None else int(warehouses),
        "duration_s": None if minutes is None else 60.0 * float(minutes),
    }
    for name, value in figures.items():
        if value is not None:
            output.put(name, value, 1, f"{name} {value:g}")
    if rampup is not None:
        put_settings(output, {"rampup": f"{float(rampup):g}"})
    if job.get("jobid"):
        output.words["job"] = str(job["jobid"])[:LONGEST_NAME]
    return output


def read_job_store(path: Path) -> Document:
    """Return every job of a store whose output has a result; `line` is the job's position in the store, from 1.

    Raises StoreError if it is not a store of HammerDB, damaged, or beyond the limits of this module.
    """
    try:
        # read-only but not `immutable`, which ignores the commits in a -wal file, and the locks of a running HammerDB
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
            checks = iter(range(MOST_STEPS // STEPS_BETWEEN_CHECKS))
            connection.set_progress_handler(lambda: next(checks, None) is None, STEPS_BETWEEN_CHECKS)
            _check_tables(connection)
            return _document(connection)
    except _LimitError as error:
        raise StoreError(f"cannot import {path}: {error}", hint="copy it, and delete other jobs in the copy") from error
    except sqlite3.Error as error:
        reasons = {
            sqlite3.SQLITE_INTERRUPT: f"reading it takes SQLite more than {MOST_STEPS:,} steps",
            sqlite3.SQLITE_TOOBIG: f"a row has more than {LARGEST_VALUE:,} bytes",
        }
        reason = reasons.get(getattr(error, "sqlite_errorcode", 0), str(error))
        raise StoreError(
            f"cannot import {path}: {reason}", hint="a HammerDB job store has the tables JOBMAIN and JOBOUTPUT"
        ) from error


MOST_JOBS = 10_000
MOST_RESULTS = 100_000
LARGEST_VALUE = 4 << 20
"""Bytes of a row or a value: jobs print single lines, and their dictionaries have some kilobytes."""
MOST_STEPS = 10_000_000_000
"""Instructions of SQLite's virtual machine, which runs about 100 million of them per second."""
STEPS_BETWEEN_CHECKS = 1_000_000
_TABLES = ("JOBMAIN", "JOBOUTPUT", "JOBTIMING")
_TPCC = ("TPC-C", "TPROC-C")


class _LimitError(Exception):
    """The store has more than pgdyno reads."""


class _Job(NamedTuple):
    name: str
    database: str
    benchmark: str
    settings: dict[str, str]


def _check_tables(connection: sqlite3.Connection) -> None:
    """Refuse views, which may have rows without end, and virtual tables. Raises sqlite3.DatabaseError."""
    for name, kind, sql in connection.execute("SELECT upper(name), type, sql FROM sqlite_master"):
        if name in _TABLES and not (kind == "table" and str(sql).upper().startswith("CREATE TABLE")):
            raise sqlite3.DatabaseError(f"{name} is not an ordinary table")


def _document(connection: sqlite3.Connection) -> Document:
    document = Document()
    jobs = list(_jobs(connection))
    ours = {job.name for job in jobs if _is_postgres(job.database) and job.benchmark.upper() in _TPCC}
    found = _outputs(connection, ours)
    for line, job in enumerate(jobs, start=1):
        outputs = found.pop(job.name, [])
        if not outputs:
            told = {"job": job.name, "database": job.database, "benchmark": job.benchmark}
            what = Message(
                "hammerdb-job-without-result", "job {job} of {database}, {benchmark}: no result of TPROC-C", **told
            )
            document.unread.append(unused_line(line, what))
        for output in outputs:
            _complete(output, job, line)
            output.statements = list(_timing(connection, job.name))
            document.outputs.append(output)
    return document


def _jobs(connection: sqlite3.Connection) -> Iterator[_Job]:
    sql = """
        SELECT substr(jobid, 1, 100), substr(db, 1, 100), substr(bm, 1, 100), jobdict FROM JOBMAIN ORDER BY rowid
    """
    for number, (name, database, benchmark, described) in enumerate(connection.execute(sql), start=1):
        if number > MOST_JOBS:
            raise _LimitError(f"it has more than {MOST_JOBS:,} jobs")
        settings = {key: setting.value for key, setting in settings_in(str(described)).items()}
        yield _Job(str(name), str(database), str(benchmark), settings)


def _outputs(connection: sqlite3.Connection, names: Collection[str]) -> dict[str, list[Output]]:
    parsers = {name: HammerdbParser() for name in names}
    results = 0
    rows = connection.execute("SELECT substr(jobid, 1, 100), output FROM JOBOUTPUT ORDER BY rowid")
    for row, (name, printed) in enumerate(rows, start=1):
        parser = parsers.get(str(name))
        if parser is None:
            continue
        before = len(parser.found)
        for text in str(printed).splitlines():
            if len(text) <= LONGEST_LINE:
                parser.read(without_passwords(text), row)
        results += len(parser.found) - before
        if results > MOST_RESULTS:
            raise _LimitError(f"its jobs have more than {MOST_RESULTS:,} results")
    return {name: parser.found for name, parser in parsers.items()}


def _complete(output: Output, job: _Job, line: int) -> None:
    output.words["job"] = job.name
    # what the job printed shows the routines that it used, after a switch
    variant = output.variant
    put_settings(output, job.settings)
    output.variant = variant or output.variant
    if "count_ware" in job.settings:
        output.put("warehouses", int(job.settings["count_ware"]), line, f"pg_count_ware {job.settings['count_ware']}")
    if "duration" in job.settings:
        output.put("duration_s", 60.0 * int(job.settings["duration"]), line, f"pg_duration {job.settings['duration']}")
    # lines within a job's output are not lines of the file
    output.printed = {name: (line, text) for name, (_, text) in output.printed.items()}
    output.line = output.last_line = line


def _timing(connection: sqlite3.Connection, job: str) -> Iterator[Statement]:
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'JOBTIMING'").fetchone()
    if tables is None:
        return
    # use rows of the summary if there are any, else those of virtual users, weighted by their calls
    sql = """
        SELECT procname, sum(calls * avg_ms) / sum(calls) FROM JOBTIMING
        WHERE substr(jobid, 1, 100) = :job AND calls > 0 AND coalesce(summary, 0) =
            (SELECT max(coalesce(summary, 0)) FROM JOBTIMING WHERE substr(jobid, 1, 100) = :job)
        GROUP BY procname ORDER BY min(rowid) LIMIT :most
    """
    for name, mean_ms in connection.execute(sql, {"job": job, "most": MOST_PROCEDURES}):
        if isinstance(mean_ms, float) and math.isfinite(mean_ms):
            yield Statement(str(name)[:100], mean_ms)


def _is_postgres(database: object) -> bool:
    return str(database).strip().lower() in ("postgresql", "pg", "postgres")
