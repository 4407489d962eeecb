"""From events to the statements of each session: which lines are of one statement, when it began, its transaction."""

from __future__ import annotations

import duckdb

from pgdyno.capture.left_out import FILE_BITS
from pgdyno.errors import StoreError, UsageError
from pgdyno.units import counted

STEP_BACK_US = 5_000_000
"""A log whose times go back by more has a clock that was set; lines of several processes are out of order by less."""
OVERLAP_US = 1_000_000
EARLY_US = 1_000_000
"""A statement that began earlier than this before the log is left out; others begin with it."""

_EVENTS_AT_ONCE = 200_000
"""Events whose statements are found at once: DuckDB does not spill what the lines of a statement are gathered into."""

# ---- sessions ----

_CLOCK = f"""
CREATE TEMP TABLE clock_step AS
SELECT place, back FROM (
    SELECT place, lag(logged_us) OVER (PARTITION BY place >> {FILE_BITS} ORDER BY place) - logged_us AS back
    FROM event_log
) WHERE back > {STEP_BACK_US}
"""
_CORRECT = """
UPDATE event_log
SET logged_us = logged_us + (SELECT sum(back)::BIGINT FROM clock_step WHERE clock_step.place <= event_log.place)
WHERE place >= (SELECT min(place) FROM clock_step)
"""
_COLUMNS = """
place, logged_us, key, pid, started, process_number, database, kind, us, name, template, sql IS NOT NULL AS has_sql,
sqlstate, lock_us, rows, reason
"""
# without %c, a process number that is used again is another session: after its end, and for another database
_STREAM = """
CREATE TABLE stream AS SELECT {columns}, hash(key) AS session FROM event_log
"""
_INCARNATION = """
sum(CASE WHEN kind = 'received' OR before = 'disconnect' OR other THEN 1 ELSE 0 END)
    OVER (PARTITION BY key ORDER BY place ROWS UNBOUNDED PRECEDING)
"""
_STREAM_BY_PROCESS = f"""
CREATE TABLE stream AS
WITH told AS (
    SELECT *, lag(kind) OVER turn AS before,
           coalesce(database <> lag(database IGNORE NULLS) OVER turn, false) AS other
    FROM event_log WINDOW turn AS (PARTITION BY key ORDER BY place)
)
SELECT {{columns}}, hash(key, {_INCARNATION}) AS session FROM told
"""
_ID_START = """
CASE WHEN contains(any_value(key), '.')
     THEN TRY_CAST('0x' || split_part(any_value(key), '.', 1) AS BIGINT) * 1000000 END
"""
_SESSIONS = """
CREATE TABLE log_session AS
SELECT session, any_value(key) AS key, any_value(pid) AS pid, coalesce(max(started), {id_start}) AS started,
       max(process_number) FILTER (process_number IS NOT NULL) AS process_number,
       arg_max(database, place) FILTER (database IS NOT NULL) AS database,
       min(place) AS first_place,
       min(logged_us) AS first_at, max(logged_us) FILTER (kind <> 'disconnect') AS last_at,
       min(logged_us) FILTER (kind IN ('received', 'connect')) AS connected,
       max(logged_us) FILTER (kind = 'disconnect') AS ended,
       count(*) FILTER (kind IN ('done', 'sent', 'error')) AS statements
FROM stream GROUP BY session
"""
_TWO_SERVERS = """
SELECT pid, before, first_place FROM (
    SELECT pid, first_place, first_at, lag(last_at) OVER turn AS at_before, lag(first_place) OVER turn AS before
    FROM log_session WHERE {owner} IS NOT NULL AND last_at IS NOT NULL
    WINDOW turn AS (PARTITION BY {owner} ORDER BY first_at)
) WHERE at_before > first_at + {overlap} ORDER BY first_place LIMIT 1
"""

# ---- the lines of one statement ----

# a statement that was sent lasts until its duration, its error or the next one; what was done ends what came before
_UNITS = """
CREATE TABLE unit_event AS
SELECT * EXCLUDE (before), sum(CASE WHEN kind IN ('sent', 'done') AND before = 'sent' THEN 1 ELSE 0 END) OVER upto
          + coalesce(sum(CASE WHEN kind IN ('done', 'duration', 'error') THEN 1 ELSE 0 END) OVER earlier, 0) AS unit
FROM (
    SELECT session, place, logged_us, kind, us, name, template, has_sql, sqlstate, lock_us, rows, reason,
           last_value(CASE WHEN kind IN ('sent', 'done', 'duration', 'error') THEN kind END IGNORE NULLS)
              OVER (PARTITION BY session ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM stream WHERE session IN (SELECT session FROM log_session WHERE is_chosen)
)
WINDOW upto AS (PARTITION BY session ORDER BY place ROWS UNBOUNDED PRECEDING),
       earlier AS (PARTITION BY session ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""
_MAIN = "kind IN ('sent', 'done') OR (kind = 'error' AND has_sql)"
_STATEMENTS = f"""
WITH part AS (
    SELECT * FROM unit_event WHERE hash(session, unit) % $parts = $part
), main AS (
    SELECT session, unit, arg_min(struct_pack(place, logged_us, kind, us, name, template, reason), place) AS main
    FROM part WHERE {_MAIN} GROUP BY session, unit
), parts AS (
    SELECT session, unit, any_value(main) AS main,
           max(sqlstate) FILTER (kind = 'error') AS sqlstate,
           max(us) FILTER (kind = 'duration') AS duration_us,
           max(us) FILTER (kind = 'parse' AND name = main.name) AS parse_us,
           max(us) FILTER (kind = 'bind' AND name = main.name) AS bind_us,
           arg_max(struct_pack(place, logged_us, name), place)
               FILTER (kind = 'bind' AND template = main.template) AS bind,
           coalesce(sum(lock_us) FILTER (kind = 'acquired'), max(lock_us) FILTER (kind = 'waiting')) AS lock_us,
           CASE WHEN count(*) FILTER (kind = 'plan') = 1 THEN max(rows) END AS rows
    FROM part JOIN main USING (session, unit) GROUP BY session, unit
)
SELECT session, main.place AS place, coalesce(CASE WHEN main.kind = 'error' THEN bind.place END, main.place) AS source,
       CASE main.kind WHEN 'done' THEN main.us + coalesce(parse_us, 0) + coalesce(bind_us, 0)
                      WHEN 'sent' THEN duration_us END AS us,
       main.logged_us - CASE main.kind WHEN 'done' THEN main.us + coalesce(parse_us, 0) + coalesce(bind_us, 0)
                                       WHEN 'error' THEN coalesce(main.logged_us - bind.logged_us, lock_us, 0)
                                       ELSE 0 END AS began,
       CASE WHEN main.kind = 'error' THEN bind.name ELSE main.name END AS name,
       main.template AS template, main.reason AS reason, sqlstate, lock_us, rows
FROM parts
"""


def find_sessions(connection: duckdb.DuckDBPyConnection, *, have_ids: bool) -> tuple[int, int] | None:
    """Fills `stream` and `log_session`; returns how often the clock was set back and where first, or None.

    `have_ids`: the log has session IDs.
    """
    connection.execute(_CLOCK)
    steps = connection.execute("SELECT count(*), min(place) FROM clock_step").fetchone()
    assert steps is not None
    if steps[0]:
        connection.execute(_CORRECT)
    connection.execute((_STREAM if have_ids else _STREAM_BY_PROCESS).format(columns=_COLUMNS))
    connection.execute(_SESSIONS.format(id_start=_ID_START))
    return (steps[0], steps[1]) if steps[0] else None


def check_one_server(connection: duckdb.DuckDBPyConnection, named: dict[int, str]) -> None:
    """Raises StoreError if two sessions have a process at the same time; `named` has the files by number."""
    for owner, what in (("pid", "process"), ("process_number", "backend")):
        found = connection.execute(_TWO_SERVERS.format(owner=owner, overlap=OVERLAP_US)).fetchone()
        if found is not None:
            pid, first, second = found
            number = f" {pid}" if owner == "pid" else ""
            raise StoreError(
                f"the log is of two servers: {what}{number} has two sessions at once, at {place_name(first, named)} and"
                f" {place_name(second, named)}",
                hint="capture the log of each server by itself",
            )


def place_name(place: int, named: dict[int, str]) -> str:
    """Returns file and line."""
    return f"{named[place >> FILE_BITS]}:{place & ((1 << FILE_BITS) - 1)}"


def choose_database(connection: duckdb.DuckDBPyConnection, wanted: str | None) -> str | None:
    """Chooses sessions by their database, and returns it; None if the log has none.

    A session whose database is unknown is chosen if the log has one database only. Raises UsageError for several.
    """
    found = connection.execute(
        "SELECT database, sum(statements)::BIGINT FROM log_session WHERE statements > 0 AND database IS NOT NULL"
        " GROUP BY database ORDER BY 2 DESC, 1"
    ).fetchall()
    names = [name for name, _ in found]
    if wanted is not None and names and wanted not in names:
        raise UsageError(f"the log has no statement in the database {wanted}", hint=f"it has: {', '.join(names)}")
    if wanted is None and len(found) > 1:
        listed = ", ".join(f"{name} ({counted(count, 'statement')})" for name, count in found)
        raise UsageError(f"the log has statements in several databases: {listed}", hint="choose one with --database")
    database = wanted or (names[0] if names else None)
    # the log of text may say the database when a session begins, and some began before the log
    known = "database = $1" if len(names) > 1 else "coalesce(database = $1, statements > 0)"
    connection.execute("ALTER TABLE log_session ADD COLUMN is_chosen BOOLEAN")
    connection.execute(f"UPDATE log_session SET is_chosen = coalesce({known}, false)", [database])
    return database


def find_statements(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills `captured` with the statements of the sessions that are chosen."""
    connection.execute(_UNITS)
    (events,) = connection.execute("SELECT count(*) FROM unit_event").fetchone() or (0,)
    parts = 1 + events // _EVENTS_AT_ONCE
    for part in range(parts):
        command = "INSERT INTO captured" if part else "CREATE TABLE captured AS"
        connection.execute(f"{command} {_STATEMENTS}", {"parts": parts, "part": part})
    connection.execute("DROP TABLE unit_event")
