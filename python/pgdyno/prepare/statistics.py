"""Resets the server's cumulative statistics."""

from __future__ import annotations

from pgdyno.targets import Server

ALL_AT_ONCE_VERSION = 170000
"""The first version whose pg_stat_reset_shared() resets all of them."""
_SHARED = (("bgwriter", 0), ("archiver", 0), ("wal", 140000), ("recovery_prefetch", 150000), ("io", 160000))
"""Arguments of pg_stat_reset_shared before that, with the first version (server_version_num) of each."""
_SLRU_VERSION = 130000


def reset_statistics(server: Server) -> str:
    """Calls pg_stat_reset in the workload's database, and resets all shared statistics; returns their names.

    Raises TargetError, psycopg.Error.
    """
    with server.connect() as connection:
        version = connection.info.server_version
        connection.execute("SELECT pg_stat_reset()")
        if version >= ALL_AT_ONCE_VERSION:
            connection.execute("SELECT pg_stat_reset_shared()")
            return "database, all shared"
        names = [name for name, first in _SHARED if version >= first]
        for name in names:
            connection.execute("SELECT pg_stat_reset_shared(%s)", [name])
        if version >= _SLRU_VERSION:
            connection.execute("SELECT pg_stat_reset_slru(NULL)")
            names.append("slru")
    return f"database, {', '.join(names)}"
