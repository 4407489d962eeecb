"""Reads the dataset into memory before a trial."""

from __future__ import annotations

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.prepare.relations import list_relations
from pgdyno.targets import Server

INSTALL = 'install PostgreSQL\'s contrib modules for this server, or set reset.prewarm to "read"'


def check_extension(target: str, server: Server, reset: Reset) -> None:
    """Raises TargetError if `target` lacks the extension that `reset` needs, before anything is loaded.

    Raises psycopg.Error.
    """
    if reset.prewarm != "pg_prewarm":
        return
    with server.connect() as connection:
        found = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_prewarm'").fetchone()
    if found is None:
        message = f"target {target}: cannot prewarm with pg_prewarm: the server does not have this extension"
        raise TargetError(message, hint=INSTALL)


def prewarm_with_extension(server: Server) -> str:
    """Loads the main forks of all tables and indexes into shared buffers by pg_prewarm; returns the number of blocks.

    Raises TargetError if the extension is not installed; psycopg.Error.
    """
    with server.connect() as connection:
        try:
            # suppresses the notice that it already exists
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
    """Reads every table completely by a query; tables above a quarter of shared buffers pass through a small ring.

    Reads no indexes. Raises TargetError, psycopg.Error.
    """
    with server.connect() as connection:
        # the count must read the table instead of an index
        connection.execute("SET enable_indexonlyscan = off")
        tables = [relation for relation in list_relations(connection) if relation.is_table]
        for table in tables:
            name = sql.Identifier(table.schema, table.name)
            connection.execute(sql.SQL("SELECT count(*) FROM {}").format(name))
    return f"{len(tables)} tables"
