"""A database to copy: `CREATE DATABASE … TEMPLATE pgdyno_template`."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.prepare.mark import Dataset, read_comment, read_mark, write_comment
from pgdyno.target import Server
from pgdyno.target.cluster_copy import check_room
from pgdyno.units import format_bytes


def template_of(server: Server) -> str:
    """Name of the database that the workload's is copied from: nobody can connect to it, so nothing changes it."""
    return f"{server.dbname}_template"


def holds_template(server: Server, dataset: Dataset) -> bool:
    """Whether a whole template of `dataset` is there; it gets its mark as the last of all."""
    mark = read_mark(read_comment(server, template_of(server)))
    return mark is not None and mark.dataset == dataset


def make_template(server: Server, reset: Reset) -> str:
    """Makes the template of the workload's database as it is now, in place of an earlier one. Its size in words.

    Raises TargetError, with sizes where there is too little room; psycopg.Error.
    """
    comment, template = read_comment(server), template_of(server)
    _check_template(server, template)
    with server.connect(server.maintenance) as connection:
        row = connection.execute("SELECT pg_database_size(%s)", [server.dbname]).fetchone()
        assert row is not None
        size = int(row[0])
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(template)))
        if server.machine is not None:
            check_room(server.machine.data_directory, size, f"make the database {template}")
        _end_sessions(server)
        _copy_database(connection, server.dbname, template, reset, allow_connections=False)
    write_comment(server, comment, template)
    return format_bytes(size)


def copy_template(server: Server, reset: Reset) -> str:
    """Replaces the workload's database by a copy of the template. How it was copied, in words.

    Raises TargetError, psycopg.Error.
    """
    comment = read_comment(server, template_of(server))
    _end_sessions(server)
    with server.connect(server.maintenance) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(server.dbname)))
        _copy_database(connection, template_of(server), server.dbname, reset, allow_connections=True)
    server.database_made()
    write_comment(server, comment)
    return ", ".join(each for each in (reset.strategy, reset.file_copy_method) if each) or "the server's own strategy"


def _check_template(server: Server, template: str) -> None:
    """Raises TargetError when there is a database called `template` that pgdyno may not have made."""
    if server.machine is not None:
        return
    with server.connect(server.maintenance) as connection:
        row = connection.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", [template]
        ).fetchone()
    if row is not None and read_mark(row[0]) is None:
        raise TargetError(
            f"cannot make the database {template}: there is one without the mark of a dataset",
            hint="drop it if nobody needs it, or give the target another database",
        )


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
    with server.connect(server.maintenance) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [server.dbname],
        )
