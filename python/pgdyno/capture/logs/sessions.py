"""The sessions of a log: which events are of one session, and which statements these are, with their transactions.

Statements are found in one block of the log after the other. What later blocks need of earlier ones is small: the
lines of statements that have not ended (`open_event`), and the state of each session (`session_state`). Memory and
time for a block therefore do not grow with the log.
"""

from pathlib import Path

import duckdb

from pgdyno.capture.left_out import Losses
from pgdyno.capture.statement_classes import Classes
from pgdyno.errors import StoreError, UsageError
from pgdyno.records.capture import UNKNOWN_SQLSTATE
from pgdyno.store.duckdb_session import fetch_row, file_name, quote_text
from pgdyno.units import quantity

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
       min(place) FILTER (kind = 'duration') AS first_duration, bool_or(is_own) AS is_own
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
       sum(sent) AS sent, sum(durations) AS durations, min(first_duration) AS first_duration, NULL::BOOLEAN AS is_chosen
FROM seen_session GROUP BY session HAVING NOT bool_or(is_own)
"""
_TWO_SERVERS = f"""
SELECT what, before, first_place FROM (
    SELECT *, lag(last_at) OVER turn AS at_before, lag(first_place) OVER turn AS before
    FROM (SELECT concat('process ', pid) AS what, pid, NULL AS number, first_place, first_at, last_at FROM log_session
          WHERE pid IS NOT NULL
          UNION ALL SELECT 'backend', NULL, process_number, first_place, first_at, last_at FROM log_session
          WHERE process_number IS NOT NULL)
    WHERE last_at IS NOT NULL WINDOW turn AS (PARTITION BY pid, number ORDER BY first_at)
) WHERE at_before > first_at + {OVERLAP_US} ORDER BY pid IS NULL, first_place LIMIT 1
"""


class SessionEvents:
    """Assigns the events of one block after the other to sessions; the table `seen_session` has these by block."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, have_ids: bool, is_in_order: bool) -> None:
        """`have_ids`: the log has session IDs; `is_in_order`: its times are in order unless the clock was set."""
        self._is_in_order = is_in_order
        self.began_us: int | None = None
        """The first time of the log, as far as it was read."""
        self.clock_steps: list[int] = []
        """The places at which the clock was set back."""
        self._have_ids = have_ids
        self._shift_us = 0
        self._last: tuple[int, int] | None = None
        """Number of the file of the block before, and the last time in it."""
        self._seen_into = "CREATE TABLE seen_session AS"
        if not have_ids:
            connection.execute(_PROCESSES)

    def add(self, cursor: duckdb.DuckDBPyConnection, file: int) -> None:
        """Corrects times and sets sessions in the table `log_event` of `cursor`, a block of `file`."""
        self._correct(cursor, file)
        if not self._have_ids:
            for command in _BY_PROCESS:
                cursor.execute(command)
        cursor.execute(f"{self._seen_into} {_SEEN}")
        self._seen_into = "INSERT INTO seen_session"

    def _correct(self, cursor: duckdb.DuckDBPyConnection, file: int) -> None:
        last_us, first_us = fetch_row(cursor, _ENDS)
        if last_us is None:
            return
        if not self._is_in_order:
            self.began_us = first_us if self.began_us is None else min(self.began_us, first_us)
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
            (first_us,) = fetch_row(cursor, "SELECT min(logged_us) FROM log_event")
        self.began_us = first_us if self.began_us is None else min(self.began_us, first_us)


def find_sessions(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(_SESSIONS)


def check_one_server(connection: duckdb.DuckDBPyConnection, losses: Losses) -> None:
    """Raise StoreError if two sessions have a process at the same time; `losses` knows the files."""
    found = connection.execute(_TWO_SERVERS).fetchone()
    if found is not None:
        what, first, second = found
        raise StoreError(
            f"the log is from two servers: {what} has two sessions at once, at {losses.name_place(first)} "
            f"and {losses.name_place(second)}",
            hint="capture the log of each server separately",
        )


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
        listed = ", ".join(f"{name} ({quantity(count, 'statement')})" for name, count in found)
        raise UsageError(f"the log has statements in several databases: {listed}", hint="choose one with --database")
    database = wanted or (names[0] if names else None)
    # the log of text may say the database when a session begins, and some began before the log
    known = "database = $1" if len(names) > 1 else "coalesce(database = $1, statements > 0)"
    connection.execute(f"UPDATE log_session SET is_chosen = coalesce({known}, false)", [database])
    return database


EARLY_US = 1_000_000
"""A statement that began earlier than this before the log is left out; others begin with it."""
NOT_RUN = "('42601', '25P01', '25P02')"
"""SQLSTATEs of texts of which nothing ran: syntax errors, and what is refused without a transaction or in a failed one.
"""
MOST_OPEN = 100
"""Lines of a statement that has not ended that are kept from one block to the next, besides its text."""

_COLUMNS = "session, place, logged_us, kind, us, name, template, bytes, sqlstate, lock_us, rows, reason, copy_bytes"
_TEXTS = "sql, parameters, answer, answer_columns, copy"
_LINES = f"(SELECT {_COLUMNS}, {_TEXTS} FROM log_event UNION ALL FROM open_event)"
"""Those of the block and of statements that began before it. Texts are joined last: windows would copy them."""
_TABLES = """
CREATE TABLE open_event (
    session UBIGINT, place BIGINT, logged_us BIGINT, kind VARCHAR, us BIGINT, name VARCHAR, template UBIGINT,
    bytes BIGINT, sqlstate VARCHAR, lock_us BIGINT, rows BIGINT, reason VARCHAR, copy_bytes BIGINT, sql VARCHAR,
    parameters VARCHAR[], answer VARCHAR[], answer_columns VARCHAR[], copy VARCHAR[]
);
CREATE TABLE session_state (
    session UBIGINT, effect VARCHAR, transactions BIGINT, seq BIGINT, latest BIGINT, reason VARCHAR
);
CREATE TABLE segment (
    session UBIGINT, block BIGINT, statements BIGINT, bytes BIGINT, first BIGINT, last BIGINT, latest BIGINT,
    until BIGINT, transactions BIGINT, first_transaction BIGINT, last_transaction BIGINT
);
CREATE TABLE lost (session UBIGINT, reason VARCHAR, count BIGINT, place BIGINT)
"""

# ---- the lines of one statement ----

# a statement that was sent lasts until its duration, its error or the next one; what was done ends what came before,
# and so does the error of another text: the parser refuses texts before they are logged
_UNITS = f"""
CREATE OR REPLACE TEMP TABLE unit_event AS
SELECT *, CASE WHEN kind IN ('done', 'duration', 'error') THEN 1 ELSE 0 END AS ends,
       sum(CASE WHEN before = 'sent' AND (kind IN ('sent', 'done') OR is_other_error) THEN 1 ELSE 0 END + ends)
           OVER (PARTITION BY session ORDER BY place ROWS UNBOUNDED PRECEDING) - ends AS unit
FROM (
    SELECT {_COLUMNS},
           last_value(CASE WHEN kind IN ('sent', 'done', 'duration', 'error') THEN kind END IGNORE NULLS)
              OVER preceding AS before,
           kind = 'error' AND template IS NOT NULL
           AND template <> last_value(CASE WHEN kind = 'sent' THEN template END IGNORE NULLS) OVER preceding
              AS is_other_error
    FROM {_LINES} WHERE kind NOT IN ('received', 'connect', 'disconnect')
    WINDOW preceding AS (PARTITION BY session ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
"""
_OPEN_UNITS = """
CREATE OR REPLACE TEMP TABLE open_unit AS
SELECT session, arg_max(unit, place) AS unit FROM unit_event GROUP BY session
HAVING $more AND arg_max(kind, place) NOT IN ('done', 'duration', 'error')
"""
_OPEN_EVENTS = f"""
CREATE OR REPLACE TABLE open_event AS
FROM {_LINES} WHERE place IN (
    SELECT place FROM unit_event JOIN open_unit USING (session, unit)
    QUALIFY kind = 'sent' OR row_number() OVER (PARTITION BY session ORDER BY place DESC) <= {MOST_OPEN})
"""
_ENDED = """
CREATE OR REPLACE TEMP TABLE ended AS
WITH event AS (
    SELECT * FROM unit_event ANTI JOIN open_unit USING (session, unit)
), main AS (
    SELECT * FROM event
    WHERE kind IN ('sent', 'done')
          OR (kind = 'error' AND template IS NOT NULL AND (before IS DISTINCT FROM 'sent' OR is_other_error))
), other AS (
    SELECT main.place, max(event.sqlstate) AS sqlstate,
           max(event.us) FILTER (event.kind = 'duration') AS duration_us,
           coalesce(max(event.us) FILTER (event.kind = 'parse' AND event.name = main.name), 0)
           + coalesce(max(event.us) FILTER (event.kind = 'bind' AND event.name = main.name), 0) AS before_us,
           arg_max(struct_pack(place := event.place, logged_us := event.logged_us, name := event.name),
                   event.place)
               FILTER (main.kind = 'error' AND event.kind = 'bind' AND event.template = main.template) AS bind,
           coalesce(sum(event.lock_us) FILTER (event.kind = 'acquired'),
                    max(event.lock_us) FILTER (event.kind = 'waiting')) AS lock_us,
           CASE WHEN count(*) FILTER (event.kind = 'plan') = 1 THEN max(event.rows) END AS rows
    FROM event JOIN main USING (session, unit) WHERE event.kind NOT IN ('sent', 'done')
    GROUP BY main.place
)
SELECT session, place,
       CASE kind WHEN 'done' THEN us WHEN 'sent' THEN duration_us END + coalesce(before_us, 0) AS us,
       logged_us - CASE kind WHEN 'done' THEN main.us + coalesce(before_us, 0) WHEN 'sent' THEN coalesce(before_us, 0)
                             WHEN 'error' THEN coalesce(logged_us - bind.logged_us, other.lock_us, 0)
                             ELSE 0 END AS began,
       CASE kind WHEN 'error' THEN bind.name ELSE main.name END AS name,
       CASE kind WHEN 'error' THEN bind.place ELSE place END AS source, template, bytes, reason, copy_bytes,
       coalesce(other.sqlstate, main.sqlstate) AS sqlstate, other.lock_us::BIGINT AS lock_us,
       coalesce(other.rows, main.rows) AS rows
FROM main LEFT JOIN other USING (place)
"""

# ---- transactions ----

# a transaction is from the statement that opens a block to the one that closes it; statements that are left out count
_JUDGED = f"""
CREATE OR REPLACE TEMP TABLE judged AS
WITH known AS (
    SELECT ended.* EXCLUDE (reason, template), statement,
           CASE WHEN sqlstate IS NULL THEN effect WHEN sqlstate NOT IN {NOT_RUN} THEN failed END AS mark,
           coalesce(ended.reason,
                    CASE WHEN found.reason = 'copy-data' AND copy_bytes IS NOT NULL THEN NULL
                         WHEN found.reason <> 'not-whole' OR sqlstate IS NULL
                              OR sqlstate NOT IN ('42601', '{UNKNOWN_SQLSTATE}') THEN found.reason END,
                    CASE WHEN source IS NULL AND parameters > 0 THEN 'no-parameters' END,
                    CASE WHEN began < $began - {EARLY_US} THEN 'began-before' END) AS reason
    FROM ended LEFT JOIN template_class found USING (template)
), marked AS (
    SELECT known.*, lag(coalesce(known.reason, ''), 1, coalesce(state.reason, '')) OVER places AS reason_before,
           state.effect AS effect, coalesce(state.transactions, 0) AS transactions_before,
           coalesce(state.seq, 0) AS seq_before, state.latest AS latest_before,
           coalesce(last_value(mark IGNORE NULLS) OVER earlier, state.effect, 'close') <> 'close' AS is_inside
    FROM known LEFT JOIN session_state state USING (session)
    WINDOW earlier AS (PARTITION BY session ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
           places AS (PARTITION BY session ORDER BY place)
), numbered AS (
    SELECT *, (mark IS NOT DISTINCT FROM 'chain')::INTEGER AS chains, transactions_before - chains
              + sum(CASE WHEN mark = 'open' AND NOT is_inside THEN 1 ELSE 0 END + chains) OVER upto AS transactions,
           seq_before + count(*) FILTER (reason IS NULL) OVER upto AS seq,
           greatest(latest_before, max(began) FILTER (reason IS NULL) OVER upto) AS latest
    FROM marked WINDOW upto AS (PARTITION BY session ORDER BY place ROWS UNBOUNDED PRECEDING)
)
SELECT *, CASE WHEN is_inside OR mark = 'open' THEN transactions - 1 END::INTEGER AS transaction,
       CASE WHEN is_inside THEN nullif(reason_before, '') END AS left_out
FROM numbered
"""
_LOST = """
INSERT INTO lost
SELECT session, reason, count(*), min(place) FROM judged WHERE reason IS NOT NULL GROUP BY session, reason
UNION ALL
SELECT session, 'no-begin', count(*), min(place) FROM judged WHERE mark = 'close' AND NOT is_inside GROUP BY session
"""
_UNFINISHED = """
SELECT min(place) FROM ended JOIN template_class found USING (template)
WHERE ended.reason IS NULL AND found.reason = 'not-whole' AND sqlstate IS NULL
"""
_STATES = """
INSERT INTO session_state
SELECT session, coalesce(arg_max(mark, place) FILTER (mark IS NOT NULL), any_value(effect)),
       max(transactions + chains), max(seq), max(latest), nullif(arg_max(coalesce(reason, ''), place), '')
FROM judged GROUP BY session
"""
_FOR_LATER = ("DELETE FROM session_state WHERE session IN (SELECT session FROM judged)", _STATES, _OPEN_EVENTS)
_SEGMENTS = """
INSERT INTO segment
SELECT session, $block, count(*), sum(100 + bytes)::BIGINT,
       min(began), max(began + coalesce(us, 0)), max(latest), max(greatest(latest, $began) + coalesce(us, 0)),
       count(DISTINCT transaction) + count(*) FILTER (transaction IS NULL), min(transaction), max(transaction)
FROM judged WHERE reason IS NULL GROUP BY session
"""
# the parameters of a failed statement are those of its bind, of all others they are with the text
_WRITTEN = f"""
COPY (
    SELECT judged.session, {{block}} AS block, seq::INTEGER AS seq, latest, judged.us,
           CASE WHEN judged.name IS NULL THEN 'simple' ELSE 'extended' END AS kind, statement, line.sql, judged.name,
           CASE WHEN judged.name IS NOT NULL THEN coalesce(bind.parameters, line.parameters, []) END AS parameters,
           transaction, judged.sqlstate, judged.rows, judged.lock_us, judged.left_out, line.answer,
           line.answer_columns, line.copy, judged.copy_bytes
    FROM {_LINES} line JOIN judged USING (place)
         LEFT JOIN (FROM {_LINES} WHERE kind = 'bind' AND place IN (SELECT source FROM judged)) bind
             ON bind.place = source
    WHERE judged.reason IS NULL
) TO {{file}} (FORMAT parquet, COMPRESSION snappy)
"""


class SessionStatements:
    """Writes the statements of blocks to files, as a session's place in the capture is known only at the end."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, classes: Classes, folder: Path) -> None:
        self.files: list[Path] = []
        self.first_unfinished: int | None = None
        """The place of the first statement that the server executed, but whose text ends in its middle."""
        self._classes, self._folder = classes, folder
        connection.execute(_TABLES)

    def add(self, cursor: duckdb.DuckDBPyConnection, began_us: int, *, more: bool = True) -> None:
        """Add what ends in the table `log_event` of `cursor`; all that has begun ends if there is no `more`."""
        block = len(self.files)
        cursor.execute(_UNITS)
        cursor.execute(_OPEN_UNITS, {"more": more})
        cursor.execute(_ENDED)
        self._classes.learn(cursor, _LINES)
        cursor.execute(_JUDGED, {"began": began_us})
        if self.first_unfinished is None and self._classes.have_unfinished:
            (self.first_unfinished,) = fetch_row(cursor, _UNFINISHED)
        cursor.execute(_LOST)
        cursor.execute(_SEGMENTS, {"block": block, "began": began_us})
        file = self._folder / f"statements-{block}.parquet"
        cursor.execute(_WRITTEN.format(block=block, file=quote_text(file_name(file))))
        if more:
            for command in _FOR_LATER:
                cursor.execute(command)
        for table in ("log_event", "unit_event", "ended", "judged"):
            cursor.execute(f"DROP TABLE {table}")
        self.files.append(file)
