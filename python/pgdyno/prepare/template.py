"""A database to copy: `CREATE DATABASE … TEMPLATE pgdyno_template`."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from pgdyno.plan.model import Reset
from pgdyno.prepare.mark import MAINTENANCE, Dataset, read_comment, read_mark, write_comment
from pgdyno.target import Server
from pgdyno.target.cluster_copy import check_room
from pgdyno.units import format_bytes

TEMPLATE = "pgdyno_template"
"""Nobody can connect to it, so that nothing changes it."""


def holds_template(server: Server, dataset: Dataset) -> bool:
    """Whether a whole template of `dataset` is there; it gets its mark as the last of all."""
    mark = read_mark(read_comment(server, TEMPLATE))
    return mark is not None and mark.dataset == dataset


def make_template(server: Server, reset: Reset) -> str:
    """Makes the template of the workload's database as it is now, in place of an earlier one. Its size in words.

    Raises TargetError, with sizes where there is too little room; psycopg.Error.
    """
    comment = read_comment(server)
    with server.connect(MAINTENANCE) as connection:
        row = connection.execute("SELECT pg_database_size(%s)", [server.dbname]).fetchone()
        assert row is not None
        size = int(row[0])
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(TEMPLATE)))
        check_room(server.data_directory, size, f"make the database {TEMPLATE}")
        _end_sessions(server)
        _copy_database(connection, server.dbname, TEMPLATE, reset, allow_connections=False)
    write_comment(server, comment, TEMPLATE)
    return format_bytes(size)


def copy_template(server: Server, reset: Reset) -> str:
    """Replaces the workload's database by a copy of the template. How it was copied, in words.

    Raises TargetError, psycopg.Error.
    """
    comment = read_comment(server, TEMPLATE)
    _end_sessions(server)
    with server.connect(MAINTENANCE) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(server.dbname)))
        _copy_database(connection, TEMPLATE, server.dbname, reset, allow_connections=True)
    write_comment(server, comment)
    return ", ".join(each for each in (reset.strategy, reset.file_copy_method) if each) or "the server's own strategy"


def _copy_database(
    connection: psycopg.Connection[tuple[Any, ...]], source: str, to: str, reset: Reset, *, allow_connections: bool
) -> None:
    if reset.file_copy_method is not None:
        connection.execute("SELECT set_config('file_copy_method', %s, false)", [reset.file_copy_method])
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} ALLOW_CONNECTIONS {}").format(
        sql.Identifier(to), sql.Identifier(source), sql.Literal(allow_connections)
    )
    if reset.strategy is not None:
        statement += sql.SQL(" STRATEGY {}").format(sql.Identifier(reset.strategy))
    connection.execute(statement)


def _end_sessions(server: Server) -> None:
    """Ends what is still connected to the workload's database; the server waits for them to be gone."""
    with server.connect(MAINTENANCE) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [server.dbname],
        )
