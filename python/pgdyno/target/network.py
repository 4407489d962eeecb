"""kind = "dsn": a server that is there already. pgdyno has one database on it, and touches no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.targets import DsnTarget
from pgdyno.target.configure import refuse_others_database
from pgdyno.target.database_settings import reset_settings
from pgdyno.target.lock import Use, server_in_use
from pgdyno.target.progress import Progress
from pgdyno.target.reach import Reached
from pgdyno.target.server import Server

SCHEMA = "pgdyno"
"""In every database that pgdyno made; its comment is the sign of that."""


@contextmanager
def open_network(spec: DsnTarget, reached: Reached, use: Use, progress: Progress) -> Iterator[Server]:
    """The server of `spec` with its database and settings; behind the block the settings are as before.

    The database stays, with its dataset: loading it again may take hours. Raises TargetError, psycopg.Error.
    """
    with server_in_use(reached.address, reached.maintenance, use, progress) as note:
        server = Server(
            reached.address,
            [] if note is None else [note],
            machine=None,
            dbname=spec.database,
            maintenance=reached.maintenance,
            settings=spec.settings,
        )
        made = server.owns_database = get_database(server, spec, progress)
        if spec.settings:
            refuse_others_database(server)
        try:
            if made:
                with _refusals(f"change settings of the database {spec.database}"):
                    _forget_settings(server)
                    server.database_made()
            yield server
        finally:
            if made and server.settings:
                # whatever ended the block, that is what is told of; every start sets them anew
                with suppress(TargetError, psycopg.Error):
                    _forget_settings(server)


def get_database(server: Server, spec: DsnTarget, progress: Progress) -> bool:
    """Makes the database unless it is there. True when pgdyno made it, now or earlier.

    Raises TargetError when another made it and `spec` does not allow it to be used.
    """
    with server.connect(server.maintenance) as connection, _refusals(f"make the database {spec.database}"):
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [server.dbname]).fetchone()
        if known is None:
            progress.step(f"making the database {server.dbname}")
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(server.dbname)))
            _sign(server)
            return True
    if is_signed(server):
        return True
    if not spec.allow_existing:
        raise TargetError(
            f"cannot use the database {server.dbname}: pgdyno did not make it",
            hint="name another by database, drop it, or let pgdyno replace tables in it by allow_existing = true",
        )
    return False


def is_signed(server: Server) -> bool:
    """Whether pgdyno made the workload's database: its sign is in it, with its name. Raises TargetError."""
    with server.connect() as connection:
        row = connection.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [SCHEMA]
        ).fetchone()
    # a copy under another name, or one that was renamed, is somebody's
    return row is not None and row[0] == _sign_of(server.dbname)


def _sign(server: Server) -> None:
    with server.connect() as connection, connection.transaction():
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        comment = sql.SQL("COMMENT ON SCHEMA {} IS {}")
        connection.execute(comment.format(sql.Identifier(SCHEMA), sql.Literal(_sign_of(server.dbname))))
        comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
        connection.execute(comment.format(sql.Identifier(server.dbname), sql.Literal("made by pgdyno")))


def _sign_of(dbname: str) -> str:
    return f"pgdyno made the database {dbname} and may drop it"


def _forget_settings(server: Server) -> None:
    """Also those that a run which was killed has left."""
    with server.connect(server.maintenance) as connection:
        reset_settings(connection, server.dbname)


@contextmanager
def _refusals(doing: str) -> Iterator[Any]:
    """Turns what the server refuses into a TargetError."""
    try:
        yield
    except psycopg.Error as error:
        raise TargetError(f"cannot {doing}: {str(error).strip()}") from error
