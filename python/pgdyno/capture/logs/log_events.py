"""What the entries of a log say: statements that begin and end, errors and their SQLSTATEs, lock waits, connections.

The messages are those of PostgreSQL's postgres.c, elog.c, proc.c and auto_explain.c, in English.
"""

from enum import StrEnum

import duckdb

from pgdyno.capture.logs.text_entries import Doubt
from pgdyno.records.capture import UNKNOWN_SQLSTATE
from pgdyno.records.secret_values import CREDENTIAL_IN_STRING as IN_STRING
from pgdyno.store.duckdb_session import fetch_row, quote_text

SQLSTATES = {
    "duplicate key value violates unique constraint": "23505",
    "(?:insert or update|update or delete) on table .* violates foreign key constraint": "23503",
    "null value in column .* violates not-null constraint": "23502",
    "new row for relation .* violates check constraint": "23514",
    "conflicting key value violates exclusion constraint": "23P01",
    "syntax error at ": "42601",
    "relation .* does not exist": "42P01",
    "column .* does not exist": "42703",
    "(?:function|operator) .* does not exist": "42883",
    "type .* does not exist": "42704",
    "relation .* already exists": "42P07",
    "permission denied for ": "42501",
    "division by zero": "22012",
    "invalid input syntax for ": "22P02",
    "value too long for type ": "22001",
    "date/time field value out of range": "22008",
    "(?:integer|bigint|smallint) out of range": "22003",
    "deadlock detected": "40P01",
    "could not serialize access ": "40001",
    "current transaction is aborted": "25P02",
    "canceling statement due to lock timeout": "55P03",
    "could not obtain lock on ": "55P03",
    "canceling statement due to ": "57014",
    "prepared statement .* does not exist": "26000",
    "cursor .* does not exist": "34000",
}
"""Of frequent errors, by a pattern of the beginning of their messages."""
SQLSTATE_OF_MESSAGE = f"""
CASE {
    " ".join(
        f"WHEN regexp_matches(message, {quote_text('^' + text)}) THEN '{code}'" for text, code in SQLSTATES.items()
    )
}
     ELSE '{UNKNOWN_SQLSTATE}' END
"""
STARTING = "starting PostgreSQL "


class Kind(StrEnum):
    """Kinds of events in a log."""

    SENT = "sent"
    """A statement begins (log_statement)."""
    DURATION = "duration"
    """A statement that was logged before ends."""
    DONE = "done"
    """A statement ends, logged with its text."""
    PARSE = "parse"
    BIND = "bind"
    ERROR = "error"
    PLAN = "plan"
    """auto_explain: the plan of a statement that has just ended."""
    WAITING = "waiting"
    """A statement still waits for a lock."""
    ACQUIRED = "acquired"
    """A statement acquired the lock."""
    RECEIVED = "received"
    """A process begins to serve a connection, whose database is not known yet."""
    CONNECT = "connect"
    DISCONNECT = "disconnect"


OWN_SESSIONS = "pgdyno capture"
"""Application name of the sessions of a capture, whose statements are no part of it."""
OWN_NAMES = "(pgdyno|pgprobe)( |$)"
"""Begins the application names of sessions that are pgdyno's own, and no load."""
OWN_STATEMENT = r"^\s*[A-Za-z]+ (/\* pg(dyno|probe) \*/|pgprobe_)"
"""Begins their statements: a log of text may have no application names."""
_OWN = "own"
_PARAMETER = r"\$[0-9]+ = (NULL|''(?:[^'']|'''')*'')"
_SHORTENED = r"(?i)(?:\.\.\.|…|truncated)[\])>. ]*$"
"""Ends what a program has shortened."""
_PARAMETERS = f"[Pp]arameters: {_PARAMETER}(?:, {_PARAMETER})*"

# what precedes the execution of a statement repeats its text and values: it is looked at if the execution is missing
_EVENTS = rf"""
CREATE OR REPLACE TEMP TABLE event AS
WITH timed AS (
    SELECT * REPLACE (coalesce(key, pid::VARCHAR) AS key),
           CASE WHEN starts_with(message, 'duration: ') THEN strpos(message, ' ms') ELSE 0 END AS cut
    FROM entry
), said AS (
    SELECT *, (TRY_CAST(message[11:cut - 1] AS DECIMAL(15, 3)) * 1000)::BIGINT AS us,
           CASE WHEN cut = 0 THEN message ELSE substr(message, cut + 5) END AS tail
    FROM timed
), named AS (
    SELECT *,
           CASE WHEN severity IN ('ERROR', 'FATAL', 'PANIC') THEN '{Kind.ERROR}'
                WHEN starts_with(tail, 'statement: ') OR starts_with(tail, 'execute ')
                    THEN CASE WHEN us IS NULL THEN '{Kind.SENT}' ELSE '{Kind.DONE}' END
                WHEN us IS NOT NULL AND tail = '' THEN '{Kind.DURATION}'
                WHEN us IS NOT NULL AND starts_with(tail, 'parse ') THEN '{Kind.PARSE}'
                WHEN us IS NOT NULL AND starts_with(tail, 'bind ') THEN '{Kind.BIND}'
                WHEN us IS NOT NULL AND starts_with(tail, 'plan:') THEN '{Kind.PLAN}'
                WHEN regexp_matches(message, '^process [0-9]+ still waiting for ') THEN '{Kind.WAITING}'
                WHEN regexp_matches(message, '^process [0-9]+ acquired ') THEN '{Kind.ACQUIRED}'
                WHEN starts_with(message, 'connection received: ') THEN '{Kind.RECEIVED}'
                WHEN starts_with(message, 'connection authorized: ') THEN '{Kind.CONNECT}'
                WHEN starts_with(message, 'disconnection: ') THEN '{Kind.DISCONNECT}'
           END AS kind,
           CASE WHEN starts_with(tail, 'statement: ') THEN 12
                WHEN kind IN ('{Kind.SENT}', '{Kind.DONE}', '{Kind.PARSE}', '{Kind.BIND}')
                    THEN strpos(tail, ': ') + 2 END AS text_from
    FROM said
), repeated AS (
    SELECT line FROM (SELECT line, kind, lead(kind) OVER (PARTITION BY key ORDER BY line) AS next FROM named)
    WHERE kind = '{Kind.BIND}' AND next IN ('{Kind.DONE}', '{Kind.SENT}')
), followed AS (
    SELECT named.*, kind = '{Kind.PARSE}' OR repeated.line IS NOT NULL AS is_repeated
    FROM named LEFT JOIN repeated USING (line)
)
SELECT line, logged_us, key, pid, started, process_number, kind, us,
       coalesce(database, CASE WHEN kind = '{Kind.CONNECT}'
                          THEN regexp_extract(message, ' database=(.*?)(?: application_name=.*| SSL .*| GSS .*)?$', 1)
                          END) AS database,
       CASE WHEN text_from IS NOT NULL AND NOT starts_with(tail, 'statement: ')
            THEN replace(split_part(tail[strpos(tail, ' ') + 1:text_from - 3], '/', 1), '<unnamed>', '') END AS name,
       CASE WHEN kind = '{Kind.ERROR}' THEN query WHEN NOT is_repeated THEN substr(tail, text_from) END AS sql,
       CASE WHEN name IS NOT NULL AND NOT is_repeated THEN
           list_transform(
               regexp_extract_all(regexp_replace(coalesce(detail, ''), '^[Pp]arameters: ', ''), '{_PARAMETER}', 1),
               lambda each: CASE WHEN each <> 'NULL' THEN replace(each[2:-2], '''''', '''') END)
       END AS parameters,
       CASE WHEN name IS NULL OR is_repeated OR NOT starts_with(lower(detail[:12]), 'parameters: ') THEN false
            ELSE regexp_matches(detail, '[.][.][.]''(?:, [$]|$)')
                 OR NOT regexp_full_match(detail, '{_PARAMETERS}') END AS has_shortened,
       CASE WHEN doubt = '{Doubt.BLANKS}' AND contains(detail, chr(10)) THEN '{Doubt.CUT}'
            WHEN regexp_matches(sql[-40:], {quote_text(_SHORTENED)}) THEN '{Doubt.CUT}' ELSE doubt END AS doubt,
       coalesce(NOT is_repeated AND regexp_matches(detail, {quote_text(IN_STRING)}), false) AS has_credentials,
       CASE WHEN kind <> '{Kind.ERROR}' THEN NULL WHEN sqlstate = '{UNKNOWN_SQLSTATE}' THEN {{code}}
            ELSE nullif(sqlstate, '00000') END AS sqlstate,
       CASE WHEN kind IN ('{Kind.WAITING}', '{Kind.ACQUIRED}')
            THEN (TRY_CAST(regexp_extract(message, ' after ([0-9.]+) ms', 1) AS DECIMAL(15, 3)) * 1000)::BIGINT
       END AS lock_us,
       coalesce(regexp_matches(sql, {quote_text(OWN_STATEMENT)}), false)
       OR (kind = '{Kind.CONNECT}' AND regexp_matches(message, ' application_name={OWN_NAMES}')) AS is_own,
       CASE WHEN kind = '{Kind.PLAN}' THEN {{plan_rows}} END AS rows,
       NULL::VARCHAR[] AS answer, NULL::VARCHAR[] AS answer_columns, NULL::VARCHAR[] AS copy,
       NULL::BIGINT AS copy_bytes,
       CASE WHEN backend = 'walsender' THEN 'replication'
            WHEN backend NOT IN ('client backend', 'not initialized') OR leader IS NOT NULL THEN 'background'
            WHEN regexp_matches(application, '^{OWN_NAMES}') THEN '{_OWN}'
            {{others}}
            WHEN starts_with(tail, 'execute fetch from ') THEN 'portal-fetch'
            WHEN starts_with(tail, 'fastpath function call: ') THEN 'function-call'
            WHEN starts_with(message, 'received replication command: ') THEN 'replication'
            WHEN kind = '{Kind.ERROR}' AND query IS NULL THEN 'other-lines'
            WHEN kind IS NOT NULL THEN NULL
            WHEN starts_with(message, 'connection ') THEN 'connection'
            ELSE 'other-lines' END AS reason
FROM followed
"""
_PLAN_ROWS = r"""
    CASE WHEN regexp_matches(tail, '"Plan": \{') THEN
        CASE WHEN regexp_extract(tail, '"Node Type": "(\w+)"', 1) <> 'ModifyTable'
             THEN TRY_CAST(regexp_extract(tail, '"Actual Rows": ([0-9]+)', 1) AS BIGINT) END
    WHEN NOT regexp_matches(tail, '\n *(?:Insert|Update|Delete|Merge) on [^\n]*\(cost=')
        THEN TRY_CAST(regexp_extract(tail, '\(actual (?:time=[0-9.]+ )?rows=([0-9]+)', 1) AS BIGINT) END
"""
_LEFT = f"""
SELECT reason, count(*), min(line) FROM event
WHERE reason <> '{_OWN}'
  AND (reason NOT IN ('connection', 'portal-fetch', 'function-call', 'other-user', 'other-application')
       OR kind IN ('sent', 'done'))
GROUP BY reason
"""


def of_others(user: str | None, application: str | None) -> str:
    """Return SQL, branches of a CASE, for the reason to leave out what is not of this user and this application."""
    wanted = {"user": ("role", user), "application": ("application", application)}
    return " ".join(
        f"WHEN {column} IS DISTINCT FROM {quote_text(name)} THEN 'other-{what}'"
        for what, (column, name) in wanted.items()
        if name is not None
    )


def load_events(cursor: duckdb.DuckDBPyConnection, code: str, others: str) -> list[tuple[str, int, int]]:
    """Fill the table `event` from `entry`; return what is left out: reasons, counts, and first lines.

    `code` is SQL for the SQLSTATE of an error without one, `others` is from `of_others`.
    """
    cursor.execute(_EVENTS.format(plan_rows=_PLAN_ROWS, code=code, others=others))
    left = cursor.execute(_LEFT).fetchall()
    cursor.execute("DELETE FROM event WHERE reason IS NOT NULL OR key IS NULL")
    return [(str(reason), int(count), int(line)) for reason, count, line in left if reason is not None]


def server_version(cursor: duckdb.DuckDBPyConnection) -> str | None:
    """Return the version that the server logs when it starts; None if it is not in the table `entry`."""
    (version,) = fetch_row(
        cursor,
        f"SELECT max(regexp_extract(message, '^{STARTING}([0-9][^ ]*)', 1)) FROM entry"
        f" WHERE starts_with(message, '{STARTING}')",
    )
    return str(version) if version else None
