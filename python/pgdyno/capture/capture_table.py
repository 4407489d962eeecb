"""Writes `capture.parquet`, session by session, and gathers what `capture.json` says of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from pgdyno.capture.left_out import Losses, sentence
from pgdyno.capture.statement_classes import Classes
from pgdyno.errors import UsageError
from pgdyno.records.capture import Capture, Source, Values
from pgdyno.store.duckdb_session import fetch_row, file_name, quote_text, table_function
from pgdyno.units import quantity

PART_BYTES = 32 << 20
"""Text that is sorted at once."""
_FILES_AT_ONCE = 16
"""Files with the statements of a block each that are split into parts at once."""
_GROUP_BYTES, _GROUP_ROWS = 8 << 20, 122_880
"""Most text and rows of a part of the table, which is in memory as a whole while it is written."""
_AFTER = 1 << 40
"""More than the number of any block."""

_LOST = """
SELECT reason, sum(count)::BIGINT, min(place) FROM lost
WHERE session IN (SELECT session FROM log_session WHERE is_chosen) GROUP BY reason
"""
_NUMBERED = """
CREATE TABLE session_number AS
SELECT session, row_number() OVER (ORDER BY connected, first_place) - 1 AS number, connected - $began AS connected_at,
       ended - $began AS ended_at, statements
FROM (
    SELECT session, first_place, statements,
           greatest(least(coalesce(connected, started, first), first, coalesce(ended, first)), $began) AS connected,
           greatest(coalesce(ended, last), last, latest, $began) AS ended
    FROM (SELECT session, first_place, connected, started, coalesce(ended, last_at) AS ended FROM log_session
          WHERE is_chosen)
    LEFT JOIN (SELECT session, min(first) AS first, max(last) AS last, max(latest) AS latest,
                      sum(statements) AS statements
               FROM segment GROUP BY session) USING (session)
    WHERE first IS NOT NULL OR connected IS NOT NULL
)
"""
# the rows at the ends of a session stand with its first statements and with its last ones
_PARTS = f"""
CREATE TABLE placed AS
SELECT session, number, block, sum(bytes) OVER (ORDER BY number, block) // $bytes AS part
FROM (SELECT session, number, block, bytes FROM segment JOIN session_number USING (session)
      UNION ALL SELECT session, number, unnest([-1, {_AFTER}]), 200 FROM session_number)
"""
_SPLIT = """
COPY (SELECT run.*, part FROM {files} run JOIN placed USING (session, block))
TO {folder} (FORMAT parquet, COMPRESSION snappy, PARTITION_BY (part), APPEND)
"""
_PART = """
COPY (
    SELECT * FROM (
        SELECT number::INTEGER AS session, seq, (greatest(latest, {began}) - {began})::BIGINT AS at_us, us, kind,
               new AS statement, sql, name, parameters, transaction, sqlstate, rows, lock_us AS lock_wait_us,
               left_out,
               list_transform(range(0, len(answer), len(answer_columns)),
                              lambda first: answer[first + 1:first + len(answer_columns)]) AS answer,
               answer_columns, copy, copy_bytes
        FROM {files} JOIN placed USING (session, block)
             LEFT JOIN renumbered ON statement = old
        UNION ALL
        SELECT number::INTEGER, (CASE block WHEN -1 THEN 0 ELSE 1 + coalesce(statements, 0) END)::INTEGER,
               CASE block WHEN -1 THEN connected_at ELSE ended_at END, NULL,
               CASE block WHEN -1 THEN 'connect' ELSE 'disconnect' END,
               NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM placed JOIN session_number USING (session, number)
        WHERE part = {part} AND block IN (-1, {after})
    ) ORDER BY session, seq
) TO {path} (FORMAT parquet, COMPRESSION {compression}, ROW_GROUP_SIZE {group})
"""
_WHOLE = """
SELECT (SELECT count(*) FROM session_number), coalesce(sum(statements), 0)::BIGINT, sum(bytes),
       greatest(max(until) - $began, (SELECT max(ended_at) FROM session_number)),
       sum(transactions - CASE WHEN first_transaction = before THEN 1 ELSE 0 END)::BIGINT
FROM (SELECT *, lag(last_transaction IGNORE NULLS) OVER (PARTITION BY session ORDER BY block) AS before FROM segment)
WHERE session IN (SELECT session FROM session_number)
"""
"""Sessions, statements, bytes, µs, and transactions: one that goes on in the next block counts once."""
_MOST = """
SELECT max(open) FROM (
    SELECT sum(step) OVER (ORDER BY at_us, step DESC ROWS UNBOUNDED PRECEDING) AS open
    FROM (SELECT connected_at AS at_us, 1 AS step FROM session_number
          UNION ALL SELECT ended_at, -1 FROM session_number)
)
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known before the table is written."""

    began_us: int | None
    database: str | None
    server_version: str | None
    values: Values


def write_table(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    path: Path,
    found: Found,
    classes: Classes,
    losses: Losses,
) -> Capture:
    """Write the statements in `files`, which are those of one block each, to `path`, and return what they are.

    Raises UsageError if there are none.
    """
    for reason, count, place in connection.execute(_LOST).fetchall():
        losses.add_at(reason, place, count)
    began_us = found.began_us or 0
    connection.execute(_NUMBERED, {"began": began_us})
    sessions, calls, size, span_us, transactions = fetch_row(connection, _WHOLE, {"began": began_us})
    if not calls:
        raise _empty_error(connection, losses)
    ordered = classes.by_calls(
        connection,
        f"(SELECT statement, us, sqlstate, rows FROM {table_function('read_parquet', files)} SEMI JOIN session_number"
        " USING (session))",
        losses,
    )
    _write(connection, files, path, began_us, max(2048, min(_GROUP_ROWS, _GROUP_BYTES * calls // size)))
    return Capture(
        source=Source.LOG,
        values=found.values,
        database=found.database,
        server_version=found.server_version,
        began=datetime.fromtimestamp(began_us / 1e6, UTC),
        span_us=span_us,
        sessions=sessions,
        most_sessions=fetch_row(connection, _MOST)[0],
        transactions=transactions,
        calls=calls,
        statements=ordered,
        left_out=losses.records(),
    )


def _write(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], path: Path, began_us: int, group: int) -> None:
    connection.execute(_PARTS, {"bytes": PART_BYTES})
    last = int(fetch_row(connection, "SELECT max(part) FROM placed")[0])
    folder = path.with_name("parts")
    for first in range(0, len(files) if last else 0, _FILES_AT_ONCE):
        some = files[first : first + _FILES_AT_ONCE]
        connection.execute(
            _SPLIT.format(files=table_function("read_parquet", some), folder=quote_text(file_name(folder)))
        )
        for file in some:
            file.unlink()
    parts = []
    for part in range(last + 1):
        sources = sorted(folder.glob(f"part={part}/*")) if last else files
        parts.append(path.with_name(f"part-{part}.parquet") if last else path)
        connection.execute(
            _PART.format(
                files=table_function("read_parquet", sources),
                path=quote_text(file_name(parts[-1])),
                compression="snappy" if last else "zstd",
                part=part,
                began=began_us,
                group=group,
                after=_AFTER,
            )
        )
        for file in sources:
            file.unlink()
    if last:
        connection.execute("SET preserve_insertion_order = true")
        connection.execute(
            f"COPY (FROM {table_function('read_parquet', parts)}) TO {quote_text(file_name(path))}"
            f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group})"
        )


def _empty_error(connection: duckdb.DuckDBPyConnection, losses: Losses) -> UsageError:
    durations = fetch_row(connection, "SELECT sum(durations)::BIGINT FROM log_session")[0]
    if durations:
        return UsageError(
            f"the log has {quantity(durations, 'time of a statement without its text', 'times without statements')}",
            hint="capture again with log_min_duration_statement = 0 and log_duration = off",
        )
    for each in losses.records():
        if each.reason in ("other-user", "other-application", "writes"):
            return UsageError(
                f"no statement is left; left out: {each.count:,} {sentence(each.reason)}",
                hint="check --user, --application and --reads; a log of text needs %u and %a in log_line_prefix",
            )
        if each.reason in ("not-whole", "parameters-cut"):
            return UsageError(
                f"{each.first}: no statement can be replayed; left out: {each.count:,} {sentence(each.reason)}",
                hint="capture again as csvlog or jsonlog, or read the server's own log file to its end",
            )
    return UsageError(
        "the log has no statement that can be replayed",
        hint="capture while the application runs, with log_min_duration_statement = 0 and lc_messages = 'C'",
    )
