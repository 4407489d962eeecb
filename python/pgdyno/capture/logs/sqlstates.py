"""The SQLSTATE of an error by its message, for logs that do not have it."""

from __future__ import annotations

from pgdyno.records.capture import UNKNOWN_SQLSTATE
from pgdyno.store.duckdb_session import quoted

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
CASE {" ".join(f"WHEN regexp_matches(message, {quoted('^' + text)}) THEN '{code}'" for text, code in SQLSTATES.items())}
     ELSE '{UNKNOWN_SQLSTATE}' END
"""
