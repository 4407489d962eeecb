"""The sessions of a log: which events are of one session, which database it uses, when it began and ended."""

from __future__ import annotations

import duckdb

from pgdyno.capture.left_out import FILE_BITS
from pgdyno.errors import StoreError, UsageError
from pgdyno.units import counted

STEP_BACK_US = 5_000_000
"""A log whose times go back by more has a clock that was set; lines of several processes are out of order by less."""
OVERLAP_US = 1_000_000

_STEPS = f"""
SELECT place, back FROM (
    SELECT place, lag(logged_us, 1, $before) OVER (ORDER BY place) - logged_us AS back FROM log_event
) WHERE back > {STEP_BACK_US} ORDER BY place
"""
_ENDS = "SELECT arg_max(logged_us, place), min(logged_us) FROM log_event"

# without %c, a process number that is used again is another session: after its end, and for another database
_PROCESSES = """
CREATE TABLE process (key VARCHAR, sessions BIGINT, kind VARCHAR, database VARCHAR)
"""
_INCARNATIONS = """
CREATE OR REPLACE TEMP TABLE incarnation AS
WITH event AS (
    SELECT key, place, kind, database, 0 AS sessions FROM log_event
    UNION ALL SELECT key, -1, kind, database, sessions FROM process WHERE key IN (SELECT key FROM log_event)
), followed AS (
    SELECT *, lag(kind) OVER turn AS before,
           coalesce(database <> lag(database IGNORE NULLS) OVER turn, false) AS other
    FROM event WINDOW turn AS (PARTITION BY key ORDER BY place)
)
SELECT key, place, kind, database,
       sum(sessions + CASE WHEN place >= 0 AND (kind = 'received' OR before = 'disconnect' OR other) THEN 1 ELSE 0 END)
           OVER (PARTITION BY key ORDER BY place ROWS UNBOUNDED PRECEDING) AS number
FROM followed
"""
_BY_PROCESS = (
    _INCARNATIONS,
    """UPDATE log_event SET session = hash(log_event.key, number) FROM incarnation
       WHERE incarnation.place = log_event.place""",
    "DELETE FROM process WHERE key IN (SELECT key FROM incarnation)",
    """INSERT INTO process SELECT key, max(number), arg_max(kind, place),
           arg_max(database, place) FILTER (database IS NOT NULL) FROM incarnation GROUP BY key""",
)
_SEEN = """
SELECT session, any_value(key) AS key, any_value(pid) AS pid, max(started) AS started,
       max(process_number) FILTER (process_number IS NOT NULL) AS process_number,
       arg_max(struct_pack(place, database), place) FILTER (database IS NOT NULL) AS database,
       min(place) AS first_place, min(logged_us) AS first_at,
       max(logged_us) FILTER (kind <> 'disconnect') AS last_at,
       min(logged_us) FILTER (kind IN ('received', 'connect')) AS connected,
       max(logged_us) FILTER (kind = 'disconnect') AS ended,
       count(*) FILTER (kind IN ('done', 'sent', 'error')) AS statements,
       count(*) FILTER (kind = 'sent') AS sent, count(*) FILTER (kind = 'duration') AS durations,
       min(place) FILTER (kind = 'duration') AS first_duration
FROM log_event GROUP BY session
"""
_ID_START = """
CASE WHEN contains(any_value(key), '.')
     THEN TRY_CAST('0x' || split_part(any_value(key), '.', 1) AS BIGINT) * 1000000 END
"""
_SESSIONS = f"""
CREATE TABLE log_session AS
SELECT session, any_value(pid) AS pid, coalesce(max(started), {_ID_START}) AS started,
       max(process_number) AS process_number, arg_max(database, database.place).database AS database,
       min(first_place) AS first_place, min(first_at) AS first_at, max(last_at) AS last_at,
       min(connected) AS connected, max(ended) AS ended, sum(statements)::BIGINT AS statements,
       sum(sent) AS sent, sum(durations) AS durations, min(first_duration) AS first_duration
FROM seen_session GROUP BY session
"""
_TWO_SERVERS = """
SELECT pid, before, first_place FROM (
    SELECT pid, first_place, first_at, lag(last_at) OVER turn AS at_before, lag(first_place) OVER turn AS before
    FROM log_session WHERE {owner} IS NOT NULL AND last_at IS NOT NULL
    WINDOW turn AS (PARTITION BY {owner} ORDER BY first_at)
) WHERE at_before > first_at + {overlap} ORDER BY first_place LIMIT 1
"""


class SessionEvents:
    """Assigns the events of one block after the other to sessions; the table `seen_session` has these by block."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, have_ids: bool) -> None:
        """`have_ids`: the log has session IDs."""
        self.began_us: int | None = None
        """The first time of the log, as far as it was read."""
        self.clock_steps: list[int] = []
        """The places at which the clock was set back."""
        self._have_ids = have_ids
        self._shift_us = 0
        self._last: tuple[int, int] | None = None
        """Number of the file of the block before, and the last time in it."""
        connection.execute(_PROCESSES)

    def add(self, cursor: duckdb.DuckDBPyConnection, file: int) -> None:
        """Corrects times and sets sessions in the table `log_event` of `cursor`, a block of `file`."""
        self._correct(cursor, file)
        if not self._have_ids:
            for command in _BY_PROCESS:
                cursor.execute(command)
        cursor.execute(f"CREATE TABLE IF NOT EXISTS seen_session AS {_SEEN} LIMIT 0")
        cursor.execute(f"INSERT INTO seen_session {_SEEN}")

    def _correct(self, cursor: duckdb.DuckDBPyConnection, file: int) -> None:
        last_us, first_us = cursor.execute(_ENDS).fetchone() or (None, None)
        if last_us is None:
            return
        before = self._last[1] if self._last is not None and self._last[0] == file else None
        self._last = (file, last_us)
        steps = cursor.execute(_STEPS, {"before": before}).fetchall()
        if self._shift_us:
            cursor.execute("UPDATE log_event SET logged_us = logged_us + $1", [self._shift_us])
        for place, back_us in steps:
            cursor.execute("UPDATE log_event SET logged_us = logged_us + $1 WHERE place >= $2", [back_us, place])
            self._shift_us += back_us
            self.clock_steps.append(place)
        if steps or self._shift_us:
            (first_us,) = cursor.execute("SELECT min(logged_us) FROM log_event").fetchone() or (first_us,)
        self.began_us = first_us if self.began_us is None else min(self.began_us, first_us)


def find_sessions(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(_SESSIONS)


def check_one_server(connection: duckdb.DuckDBPyConnection, named: dict[int, str]) -> None:
    """Raises StoreError if two sessions have a process at the same time; `named` has the files by number."""
    for owner, what in (("pid", "process"), ("process_number", "backend")):
        found = connection.execute(_TWO_SERVERS.format(owner=owner, overlap=OVERLAP_US)).fetchone()
        if found is not None:
            pid, first, second = found
            number = f" {pid}" if owner == "pid" else ""
            raise StoreError(
                f"the log is from two servers: {what}{number} has two sessions at once, at {place_name(first, named)} "
                f"and {place_name(second, named)}",
                hint="capture the log of each server separately",
            )


def place_name(place: int, named: dict[int, str]) -> str:
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
