"""The same state before every trial."""

from __future__ import annotations

from pgdyno.target import Server


def settle(server: Server) -> None:
    """Writes out what the load and earlier trials left dirty, so that no trial pays for another's pages.

    Raises TargetError when the server cannot be reached, psycopg.Error when it fails meanwhile.
    """
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
