"""Does what pgbench does before a run, but timed and before the checkpoint."""

from __future__ import annotations

import psycopg

from pgdyno.targets import Server

STATEMENTS = ("VACUUM pgbench_branches", "VACUUM pgbench_tellers", "TRUNCATE pgbench_history")


def vacuum_as_pgbench(server: Server) -> str | None:
    """Vacuums the small tables and empties the history; balances stay.

    Skips tables that a user's script has dropped, as pgbench does, and names them in the detail. Raises psycopg.Error.
    """
    missing = []
    with server.connect() as connection:
        for statement in STATEMENTS:
            try:
                connection.execute(statement)
            except psycopg.errors.UndefinedTable:
                missing.append(statement)
    return f"missing tables: {', '.join(missing)}" if missing else None
