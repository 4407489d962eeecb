"""Parses HammerDB's jobs: its SQLite store, and the JSON report of one job.

Tables and keys are those of hammerdb's modules/jobs-1.0.tm (versions 4.5 to 6.0).
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.importers.hammerdb import HammerdbParser, variant_in
from pgdyno.importers.parsed import Document, Output, Statement, Unread
from pgdyno.messages import Message

SQLITE = b"SQLite format 3\0"
REPORT = "hammerdb-job-report-v1"
_CONFIGURED = {
    "warehouses": re.compile(r"\bpg_count_ware\s+\{?(\d+)"),
    "duration_s": re.compile(r"\bpg_duration\s+\{?(\d+)"),
}
"""In a job's dictionary, in Tcl's format: keys and values alternate."""


def is_report(text: str) -> bool:
    """Return whether `text` is the JSON report of a job."""
    return text.lstrip().startswith("{") and f'"{REPORT}"' in text


def read_report(text: str) -> Document:
    """Return the job of a report. A job of another database or of TPROC-H is unread."""
    try:
        told = json.loads(text)
        output = _of_report(told)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        what = Message(
            "hammerdb-report-invalid", "a HammerDB report that pgdyno cannot read: {error}", error=repr(error)
        )
        return Document(unread=[Unread(1, what)])
    if output is None:
        job = told["job"]
        what = Message(
            "hammerdb-report-of-another",
            "a job of {database} and {benchmark}",
            database=str(job.get("database")),
            benchmark=str(job.get("benchmark")),
        )
        return Document(unread=[Unread(1, what)])
    return Document(outputs=[output])


def _of_report(told: dict[str, Any]) -> Output | None:
    job, asked, result = told["job"], told["benchmark_config"], told["result"]
    if str(job["benchmark"]).upper() not in ("TPROC-C", "TPC-C") or not _is_postgres(job["database"]):
        return None
    output = Output("hammerdb", 1, 1, version=_version(job.get("hdb_version")), workload="tpcc")
    put = (
        ("nopm", float(result["nopm"])),
        ("tpm", float(result["tpm"])),
        ("clients", int(asked["virtual_users"])),
        ("warehouses", int(asked["warehouses"]) if asked.get("warehouses") is not None else None),
        ("duration_s", 60.0 * float(asked["duration_minutes"]) if asked.get("duration_minutes") is not None else None),
    )
    for name, value in put:
        if value is not None:
            output.put(name, value, 1, f"{name} {value:g}")
    if job.get("jobid"):
        output.words["job"] = str(job["jobid"])
    return output


def read_job_store(path: Path) -> Document:
    """Return every job of a store whose output has a result; `line` is the job's position in the store, from 1.

    Raises StoreError if it is not a store of HammerDB, or damaged.
    """
    try:
        # open it read-only and immutable: a store may be on a read-only medium
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _jobs(connection)
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot import {path}: {error}", hint="a HammerDB job store has the tables JOBMAIN and JOBOUTPUT"
        ) from error


def _jobs(connection: sqlite3.Connection) -> Document:
    document = Document()
    jobs = connection.execute("SELECT jobid, db, bm, jobdict FROM JOBMAIN ORDER BY rowid").fetchall()
    for line, (job, database, benchmark, described) in enumerate(jobs, start=1):
        found = _outputs(connection, job) if _is_postgres(database) and str(benchmark).upper() in _TPCC else []
        if not found:
            what = Message(
                "hammerdb-job-without-result",
                "job {job} of {database}, {benchmark}: no result of TPROC-C",
                job=str(job),
                database=str(database),
                benchmark=str(benchmark),
            )
            document.unread.append(Unread(line, what))
        for output in found:
            _complete(output, job, line, str(described))
            output.statements = list(_timing(connection, job))
            document.outputs.append(output)
    return document


_TPCC = ("TPC-C", "TPROC-C")


def _outputs(connection: sqlite3.Connection, job: str) -> list[Output]:
    """Return the outputs that the job printed, parsed as text."""
    parser = HammerdbParser()
    rows = connection.execute("SELECT output FROM JOBOUTPUT WHERE jobid = ? ORDER BY rowid", (job,))
    for line, text in enumerate((each for (output,) in rows for each in str(output).splitlines()), start=1):
        parser.read(text, line)
    parser.end()
    return parser.found


def _complete(output: Output, job: str, line: int, described: str) -> None:
    output.words["job"] = job
    output.variant = variant_in(described) or output.variant
    for name, pattern in _CONFIGURED.items():
        match = pattern.search(described)
        if match is not None:
            value = int(match[1])
            output.put(name, 60.0 * value if name == "duration_s" else value, line, match[0])
    # lines within a job's output are not lines of the file
    output.printed = {name: (line, text) for name, (_, text) in output.printed.items()}
    output.line = output.last_line = line


def _timing(connection: sqlite3.Connection, job: str) -> Iterator[Statement]:
    """Return the mean time of each procedure over all virtual users; empty if the job was not profiled."""
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'JOBTIMING'").fetchone()
    if tables is None:
        return
    # use rows of the summary if there are any, else those of virtual users, weighted by their calls
    sql = """
        SELECT procname, sum(calls * avg_ms) / sum(calls) FROM JOBTIMING
        WHERE jobid = :job AND calls > 0 AND coalesce(summary, 0) =
            (SELECT max(coalesce(summary, 0)) FROM JOBTIMING WHERE jobid = :job)
        GROUP BY procname ORDER BY min(rowid)
    """
    for name, mean_ms in connection.execute(sql, {"job": job}):
        yield Statement(str(name), float(mean_ms))


def _is_postgres(database: object) -> bool:
    return str(database).strip().lower() in ("postgresql", "pg", "postgres")


def _version(text: object) -> str | None:
    return str(text).removeprefix("v") if text else None
