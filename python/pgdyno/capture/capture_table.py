"""Writes `capture.parquet`, and gathers what `capture.json` says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from pgdyno.capture.left_out import Losses
from pgdyno.capture.log_statements import Templates
from pgdyno.capture.parser import ParsedText, parse
from pgdyno.capture.sessions import EARLY_US
from pgdyno.errors import UsageError
from pgdyno.records.capture import Capture, Source, StatementClass, Values
from pgdyno.store.parquet import quoted
from pgdyno.units import counted

_AT_ONCE = 1000
_PART_BYTES = 32 << 20
"""Text that is sorted at once: DuckDB cannot sort texts of some kilobytes within the limit of memory otherwise."""
_GROUP_BYTES, _GROUP_ROWS = 8 << 20, 122_880
"""Most text and rows of a part of the table, which is in memory as a whole while it is written."""

_EXAMPLES = """
SELECT template, arg_min(sql, place) FROM event_log
WHERE template IN (SELECT template FROM captured WHERE reason IS NULL) AND sql IS NOT NULL GROUP BY template
"""
_CLASSES = """
CREATE TABLE template_class AS
SELECT unnest($template::UBIGINT[]) AS template, unnest($statement::INTEGER[]) AS statement,
       unnest($effect::VARCHAR[]) AS effect, unnest($reason::VARCHAR[]) AS reason,
       unnest($parameters::INTEGER[]) AS parameters
"""
_JUDGED = f"""
CREATE TABLE judged AS
SELECT captured.* EXCLUDE (reason), statement, effect,
       coalesce(captured.reason, found.reason,
                CASE WHEN captured.source = captured.place AND sqlstate IS NOT NULL AND us IS NULL AND parameters > 0
                          AND name IS NULL THEN 'no-parameters' END,
                CASE WHEN captured.began < getvariable('began') - {EARLY_US} THEN 'began-before' END) AS reason
FROM captured LEFT JOIN template_class found USING (template)
"""
_LEFT = "SELECT reason, count(*), min(place) FROM judged WHERE reason IS NOT NULL GROUP BY reason"
# a transaction is from the statement that opens a block to the one that closes it; statements that are left out count
_BLOCKS = """
CREATE TABLE in_block AS
WITH marked AS (
    SELECT *, coalesce(last_value(mark IGNORE NULLS) OVER earlier, 'close') <> 'close' AS is_inside
    FROM (SELECT *, CASE WHEN effect = 'open' AND sqlstate IS NOT NULL THEN NULL ELSE effect END AS mark FROM judged)
    WINDOW earlier AS (PARTITION BY session ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT * EXCLUDE (mark, is_inside, effect),
       CASE WHEN is_inside OR mark = 'open' THEN
           sum(CASE WHEN mark = 'open' AND NOT is_inside THEN 1 ELSE 0 END) OVER upto
           + coalesce(sum(CASE WHEN mark = 'chain' THEN 1 ELSE 0 END) OVER earlier, 0) - 1 END AS transaction,
       mark = 'close' AND NOT is_inside AS has_no_begin
FROM marked
WINDOW upto AS (PARTITION BY session ORDER BY place ROWS UNBOUNDED PRECEDING),
       earlier AS (PARTITION BY session ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""
_NO_BEGIN = "SELECT count(*), min(place) FROM in_block WHERE has_no_begin"
_NUMBERED = """
CREATE TABLE session_number AS
SELECT session, row_number() OVER (ORDER BY connected, first_place) - 1 AS number, connected, ended
FROM (
    SELECT session, first_place, greatest(least(coalesce(connected, started, first), first, coalesce(ended, first)),
                             getvariable('began')) AS connected,
           greatest(coalesce(ended, last), last, getvariable('began')) AS ended
    FROM (SELECT session, first_place, connected, started, coalesce(ended, last_at) AS ended, first_at FROM log_session
          WHERE is_chosen)
    LEFT JOIN (SELECT session, min(began) AS first, max(began + coalesce(us, 0)) AS last FROM in_block
               WHERE reason IS NULL GROUP BY session) USING (session)
    WHERE first IS NOT NULL OR connected IS NOT NULL
)
"""
_OUTPUT = """
CREATE TABLE output AS
SELECT number::INTEGER AS session, (row_number() OVER turn - 1)::INTEGER AS seq,
       (max(greatest(start_us, getvariable('began'))) OVER (turn ROWS UNBOUNDED PRECEDING)
           - getvariable('began'))::BIGINT AS at_us,
       us, kind, statement, place, source, name, transaction::INTEGER AS transaction, sqlstate, rows,
       lock_us AS lock_wait_us
FROM (
    SELECT number, 0 AS phase, NULL::BIGINT AS place, connected AS start_us, NULL::BIGINT AS us, 'connect' AS kind,
           NULL::INTEGER AS statement, NULL::BIGINT AS source, NULL::VARCHAR AS name, NULL::BIGINT AS transaction,
           NULL::VARCHAR AS sqlstate, NULL::BIGINT AS rows, NULL::BIGINT AS lock_us
    FROM session_number
    UNION ALL
    SELECT number, 1, place, began, us, CASE WHEN name IS NULL THEN 'simple' ELSE 'extended' END, statement, source,
           name, transaction, sqlstate, rows, lock_us
    FROM in_block JOIN session_number USING (session) WHERE reason IS NULL
    UNION ALL
    SELECT number, 2, NULL, ended, NULL, 'disconnect', NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM session_number
)
WINDOW turn AS (PARTITION BY number ORDER BY phase, place)
"""
# the parameters of a failed statement are those of another line; of all others, they are with the text
_FILE = """
COPY (
    SELECT session, seq, at_us, output.us, output.kind, statement, sql, output.name,
           CASE WHEN output.kind = 'extended' THEN coalesce(given.parameters, event_log.parameters, []) END
               AS parameters,
           transaction, output.sqlstate, output.rows, lock_wait_us
    FROM (SELECT place, sql, parameters FROM event_log) event_log RIGHT JOIN
         (SELECT * FROM ordered WHERE number BETWEEN {first} AND {last}) output USING (place)
    LEFT JOIN (SELECT place AS source, parameters FROM event_log
               WHERE place IN (SELECT source FROM ordered WHERE source <> place)) given
        ON given.source = output.source AND output.source <> output.place
    ORDER BY session, seq
) TO {path} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group})
"""
_SIZE = """
SELECT avg(len(sql) + coalesce(list_sum(list_transform(parameters, lambda each: len(each))), 0))
FROM (SELECT sql, parameters FROM event_log WHERE sql IS NOT NULL LIMIT 10000)
"""
# time in three digits: percentiles of any number of statements from few counts
_TIMES = """
CREATE TEMP TABLE class_times AS
SELECT statement, round(us, CASE WHEN us < 1000 THEN 0 ELSE 2 - floor(log10(us))::INTEGER END) AS us,
       count(*) AS n, sum(us)::DOUBLE AS total_us
FROM output WHERE statement IS NOT NULL GROUP BY ALL
"""
_PERCENTILES = """
SELECT statement, sum(total_us), min(us) FILTER (upto >= 0.5 * timed_n),
       min(us) FILTER (upto >= 0.99 * timed_n)
FROM (SELECT *, sum(n) OVER (PARTITION BY statement ORDER BY us) AS upto,
             sum(n) OVER (PARTITION BY statement) AS timed_n
      FROM class_times WHERE us IS NOT NULL)
GROUP BY statement
"""
_CALLS = """
SELECT statement, count(*), count(sqlstate), CASE WHEN count(rows) > 0 THEN sum(rows)::BIGINT END
FROM output WHERE statement IS NOT NULL GROUP BY statement ORDER BY statement
"""
_WHOLE = """
SELECT max(at_us + coalesce(us, 0)), count(DISTINCT session), count(statement),
       count(DISTINCT (session, transaction)) FILTER (transaction IS NOT NULL)
           + count(statement) FILTER (transaction IS NULL)
FROM output
"""
_MOST = """
SELECT max(open) FROM (
    SELECT sum(CASE kind WHEN 'connect' THEN 1 ELSE -1 END) OVER (ORDER BY at_us, kind ROWS UNBOUNDED PRECEDING)
        AS open
    FROM output WHERE kind IN ('connect', 'disconnect')
)
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known before the table is written."""

    database: str | None
    server_version: str | None
    values: Values


def write_table(
    connection: duckdb.DuckDBPyConnection, path: Path, found: Found, templates: Templates, losses: Losses
) -> Capture:
    """Writes the statements of `captured` to `path`, and returns what they are.

    Raises UsageError if there are none.
    """
    began = _one(connection, "SELECT min(logged_us) FROM stream")[0]
    connection.execute("SET VARIABLE began = $1", [began])
    parsed = _classify(connection, templates)
    connection.execute(_JUDGED)
    for reason, count, place in connection.execute(_LEFT).fetchall():
        losses.add_at(reason, place, count)
    connection.execute(_BLOCKS)
    count, place = _one(connection, _NO_BEGIN)
    if count:
        losses.add_at("no-begin", place, count)
    connection.execute(_NUMBERED)
    connection.execute(_OUTPUT)
    classes = _numbered_by_calls(connection, parsed)
    span_us, sessions, calls, transactions = _one(connection, _WHOLE)
    if not calls:
        raise _nothing(connection)
    characters = _one(connection, _SIZE)[0] or 1.0
    group = max(2048, min(_GROUP_ROWS, int(_GROUP_BYTES / characters)))
    _write(connection, path, characters, group)
    return Capture(
        source=Source.LOG,
        values=found.values,
        database=found.database,
        server_version=found.server_version,
        began=datetime.fromtimestamp(began / 1e6, UTC),
        span_us=span_us,
        sessions=sessions,
        most_sessions=_one(connection, _MOST)[0],
        transactions=transactions,
        calls=calls,
        statements=classes,
        left_out=losses.records(),
    )


def _write(connection: duckdb.DuckDBPyConnection, path: Path, characters: float, group: int) -> None:
    """Writes the rows in their order, in parts that are sorted in memory."""
    connection.execute(
        "CREATE TABLE ordered AS SELECT *, row_number() OVER (ORDER BY session, seq) - 1 AS number FROM output"
    )
    # the table on the right, which has no texts, is the one in memory
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    connection.execute("SET threads = 1")
    rows = _one(connection, "SELECT count(*) FROM ordered")[0]
    step = max(1000, int(_PART_BYTES / characters))
    parts = [path.with_name(f"part-{first}.parquet") for first in range(0, rows, step)]
    for number, part in enumerate(parts):
        bounds = {"first": number * step, "last": (number + 1) * step - 1}
        connection.execute(_FILE.format(path=quoted(str(part)), group=group, **bounds))
    connection.execute("SET preserve_insertion_order = true")
    listed = ", ".join(quoted(str(part)) for part in parts)
    connection.execute(
        f"COPY (FROM read_parquet([{listed}])) TO {quoted(str(path))}"
        f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group})"
    )


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row


def _classify(connection: duckdb.DuckDBPyConnection, templates: Templates) -> list[ParsedText]:
    """Fills `template_class`, and returns the classes by their preliminary numbers."""
    numbers: dict[str, int] = {}
    classes: list[ParsedText] = []
    columns: dict[str, list[object]] = {
        name: [] for name in ("template", "statement", "effect", "reason", "parameters")
    }
    for template, sql in _rows(connection.cursor(), _EXAMPLES):
        judged = templates.known[template]
        parsed = parse(sql)
        number = numbers.setdefault(parsed.fingerprint or parsed.text, len(classes))
        if number == len(classes):
            classes.append(parsed)
        row = (template, number, parsed.effect, judged.reason, judged.parameters)
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    connection.execute(_CLASSES, columns)
    return classes


def _rows(cursor: duckdb.DuckDBPyConnection, query: str) -> Iterator[tuple[int, str]]:
    cursor.execute(query)
    while rows := cursor.fetchmany(_AT_ONCE):
        yield from rows


def _numbered_by_calls(connection: duckdb.DuckDBPyConnection, parsed: list[ParsedText]) -> list[StatementClass]:
    """Returns the classes that have calls, the most frequent first, and numbers the table `output` alike."""
    connection.execute(_TIMES)
    times = {row[0]: row[1:] for row in connection.execute(_PERCENTILES).fetchall()}
    counts = connection.execute(_CALLS).fetchall()
    counts.sort(key=lambda row: (-row[1], parsed[row[0]].text))
    connection.execute(
        "CREATE TEMP TABLE renumbered AS SELECT unnest($old::INTEGER[]) AS old, unnest($new::INTEGER[]) AS new",
        {"old": [row[0] for row in counts], "new": list(range(len(counts)))},
    )
    connection.execute("UPDATE output SET statement = new FROM renumbered WHERE statement = old")
    classes = []
    for number, calls, errors, rows in counts:
        total_us, p50_us, p99_us = times.get(number, (None, None, None))
        classes.append(
            StatementClass(
                text=parsed[number].text,
                fingerprint=parsed[number].fingerprint,
                calls=calls,
                errors=errors,
                rows=rows,
                total_us=total_us,
                p50_us=p50_us,
                p99_us=p99_us,
            )
        )
    return classes


def _nothing(connection: duckdb.DuckDBPyConnection) -> UsageError:
    durations = _one(connection, "SELECT count(*) FROM stream WHERE kind = 'duration'")[0]
    if durations:
        return UsageError(
            f"the log has {counted(durations, 'time of a statement without its text', 'times without statements')}",
            hint="capture again with log_min_duration_statement = 0 and log_duration = off",
        )
    return UsageError(
        "the log has no statement that can be replayed",
        hint="set log_min_duration_statement = 0 and lc_messages = 'C' on the server, and capture again",
    )
