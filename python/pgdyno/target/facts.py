"""What a running server says of itself."""

from __future__ import annotations

from typing import Any

import psycopg

from pgdyno.records import ServerFacts

DRAWN = ("port", "unix_socket_directories")
"""Settings that pgdyno draws anew for every server: they tell nothing and would make all servers differ."""

_CHANGED = """
    SELECT name, current_setting(name)
    FROM pg_settings
    WHERE source NOT IN ('default', 'override', 'client', 'session') AND name <> ALL (%s)
    ORDER BY name
"""
"""Sources client and session are those of the asking connection, not of the server."""


def read_facts(connection: psycopg.Connection[tuple[Any, ...]]) -> ServerFacts:
    """Version, changed settings, checksums and size. Settings are as SHOW prints them: "128MB".

    Size is that of all databases that the role may connect to, without WAL. Raises psycopg.Error.
    """
    changed: dict[str, str] = dict(connection.execute(_CHANGED, [list(DRAWN)]).fetchall())
    row = connection.execute(
        "SELECT current_setting('server_version'), version(), current_setting('data_checksums'),"
        " (SELECT sum(pg_database_size(oid)) FROM pg_database WHERE has_database_privilege(oid, 'CONNECT'))"
    ).fetchone()
    assert row is not None  # no FROM: always one row
    version, version_full, checksums, size = row
    return ServerFacts(
        # distributions write their own behind it: "15.5 (Debian 15.5-0+deb12u1)"
        version=version.split()[0],
        version_full=version_full,
        settings_changed=changed,
        data_checksums=checksums == "on",
        cluster_bytes=int(size),
    )
