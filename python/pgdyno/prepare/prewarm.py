"""Reads the dataset before a trial, so that the trial does not."""

from __future__ import annotations

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.prepare.relations import list_relations
from pgdyno.targets import Server

INSTALL = 'install PostgreSQL\'s contrib modules for this server, or set reset.prewarm to "read"'


def check_extension(target: str, server: Server, reset: Reset) -> None:
    """Refuses the server of `target` without the extension that `reset` asks for, before anything is loaded.

    Raises TargetError, psycopg.Error.
    """
    if reset.prewarm != "pg_prewarm":
        return
    with server.connect() as connection:
        found = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_prewarm'").fetchone()
    if found is None:
        message = f"target {target}: cannot prewarm with pg_prewarm: the server has no extension of that name"
        raise TargetError(message, hint=INSTALL)


def prewarm_with_extension(server: Server) -> str:
    """Main forks of all tables and indexes into shared buffers by pg_prewarm. How many blocks that were.

    Raises TargetError where the extension is not installed; psycopg.Error.
    """
    with server.connect() as connection:
        try:
            # a notice that it is there already is no news
            connection.execute("SET client_min_messages = warning")
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
            raise TargetError(
                f"cannot prewarm with pg_prewarm: {str(error).splitlines()[0]}",
                hint=INSTALL,
            ) from error
        blocks = 0
        for relation in list_relations(connection):
            row = connection.execute("SELECT pg_prewarm(%s::oid::regclass, 'buffer', 'main')", [relation.oid])
            blocks += row.fetchone()[0]  # type: ignore[index]
    return f"{blocks:,} blocks"


def prewarm_by_reading(server: Server) -> str:
    """Every table read whole, as a query reads it: past a quarter of shared buffers it goes through a small ring.

    Indexes are not read. Raises TargetError, psycopg.Error.
    """
    with server.connect() as connection:
        # the count is wanted of the table, not of an index that knows it, too
        connection.execute("SET enable_indexonlyscan = off")
        tables = [relation for relation in list_relations(connection) if relation.is_table]
        for table in tables:
            name = sql.Identifier(table.schema, table.name)
            connection.execute(sql.SQL("SELECT count(*) FROM {}").format(name))
    return f"{len(tables)} tables"
