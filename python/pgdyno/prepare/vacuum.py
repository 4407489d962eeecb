"""What pgbench does before a run, done by the laboratory so that it is timed and lies before the checkpoint."""

from __future__ import annotations

import psycopg

from pgdyno.targets import Server

STATEMENTS = ("VACUUM pgbench_branches", "VACUUM pgbench_tellers", "TRUNCATE pgbench_history")


def vacuum_as_pgbench(server: Server) -> str | None:
    """Vacuums the small tables and empties the history; balances stay.

    A table that a user's script has dropped is passed over, as pgbench does; the detail says so. Raises psycopg.Error.
    """
    missing = []
    with server.connect() as connection:
        for statement in STATEMENTS:
            try:
                connection.execute(statement)
            except psycopg.errors.UndefinedTable:
                missing.append(statement)
    return f"no such table: {', '.join(missing)}" if missing else None
