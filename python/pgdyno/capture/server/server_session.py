"""Sessions of a capture on its server: read-only, and marked so that the capture leaves them out."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from pgdyno.capture.logs.log_events import OWN_SESSIONS
from pgdyno.errors import TargetError, UsageError
from pgdyno.records.capture import ServerIdentity
from pgdyno.targets.connection import Address, TolerantText, given_parameters, reach
from pgdyno.targets.response_limits import limit_answers
from pgdyno.targets.server_identity import server_identity

Connection = psycopg.Connection[tuple[Any, ...]]
OLDEST_MAJOR = 13
_UNLOGGED = (
    "log_statement = 'none'",
    "log_min_duration_statement = -1",
    "log_duration = off",
    "pg_stat_statements.track = 'none'",
    "log_min_duration_sample = -1",
    "log_transaction_sample_rate = 0",
)
"""A superuser's session can stay out of the log and of the statistics; others are left out by their names."""


@dataclass(frozen=True, slots=True)
class CapturedServer:
    address: Address
    database: str
    version: str
    """As the server reports it: "18.6"."""
    major: int
    identity: ServerIdentity

    def connect(self, *, as_others: bool = False) -> Connection:
        """Open a session on the database; with `as_others`, with the settings of any session. Raises TargetError."""
        connection = self.address.connect(self.database, application_name=OWN_SESSIONS)
        for name in ("text", "name"):
            connection.adapters.register_loader(name, TolerantText)
        try:
            with limit_answers(connection):
                connection.execute("SET /* pgdyno */ default_transaction_read_only = on")
                if not as_others and connection.info.parameter_status("is_superuser") == "on":
                    for setting in _UNLOGGED:
                        with suppress(psycopg.errors.UndefinedObject):
                            connection.execute(f"SET {setting}".encode())
        except psycopg.Error as error:
            connection.close()
            raise TargetError(f"cannot use a session on {self.database}: {str(error).strip()}") from error
        except BaseException:
            connection.close()
            raise
        return connection


def sequence_positions(server: CapturedServer) -> dict[str, int]:
    """Return the last value of each sequence that the role may see, by its name in SQL. Raises TargetError."""
    names = "format('%I.%I', schemaname, sequencename)"
    query = f"SELECT {names}, last_value FROM pg_sequences WHERE last_value IS NOT NULL".encode()
    with server.connect() as connection, limit_answers(connection):
        return {name: int(last) for name, last in connection.execute(query).fetchall()}


def foreign_keys(server: CapturedServer) -> dict[str, str]:
    """Return what each column of a foreign key references: `lines.order_id` has `orders.id`. Raises TargetError."""
    query = b"""
        SELECT own.relname || '.' || a.attname, other.relname || '.' || b.attname
        FROM pg_constraint k CROSS JOIN unnest(conkey, confkey) AS pair (own, other)
             JOIN pg_class own ON own.oid = conrelid JOIN pg_class other ON other.oid = confrelid
             JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = pair.own
             JOIN pg_attribute b ON b.attrelid = confrelid AND b.attnum = pair.other
        WHERE contype = 'f' AND conparentid = 0"""
    with server.connect() as connection, limit_answers(connection):
        return dict(connection.execute(query).fetchall())


def reach_server(dsn: str, ask_password: Callable[[], str] | None) -> CapturedServer:
    """Connect to the database that `dsn` names, as psql would, and return where it is.

    `ask_password` is called if the server requires a password that was not given; None if it cannot be asked for.
    Raises UsageError for a connection string that is invalid or has a password, TargetError.
    """
    given = given_parameters(dsn)
    if "password" in given:
        raise UsageError(
            "password is not allowed in the connection string: other users can see it in the process list",
            hint="use PGPASSWORD or ~/.pgpass",
        )
    address, connection = reach(given, ask_password, OWN_SESSIONS)
    with connection, limit_answers(connection):
        major = connection.info.server_version // 10000
        version = (connection.info.parameter_status("server_version") or "").split()
        if not version:
            raise TargetError("the server does not report its version: it is not PostgreSQL")
        if major < OLDEST_MAJOR:
            raise TargetError(f"the server is older than PostgreSQL {OLDEST_MAJOR}")
        return CapturedServer(address, connection.info.dbname, version[0], major, server_identity(connection))
