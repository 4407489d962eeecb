"""What a running server says of itself."""

from __future__ import annotations

from typing import Any

import psycopg

from pgdyno.records import ServerFacts

DRAWN = ("port", "unix_socket_directories")
"""Settings that pgdyno draws anew for every server: they tell nothing and would make all servers differ."""

_CHANGED = """
    SELECT name, pg_catalog.current_setting(name)
    FROM pg_catalog.pg_settings
    WHERE source OPERATOR(pg_catalog.<>) ALL ('{default,override,client,session}'::pg_catalog.text[])
      AND name OPERATOR(pg_catalog.<>) ALL (%s::pg_catalog.text[])
"""
"""All names are the server's own: the session has the search path of the role, which may hold others.

Sources client and session are those of the asking connection, not of the server."""


def read_facts(connection: psycopg.Connection[tuple[Any, ...]]) -> ServerFacts:
    """Version, changed settings, checksums and size. Settings are as SHOW prints them: "128MB".

    Size is that of all databases that the role may connect to, without WAL. Raises psycopg.Error.
    """
    changed: dict[str, str] = dict(sorted(connection.execute(_CHANGED, [list(DRAWN)]).fetchall()))
    row = connection.execute(
        "SELECT pg_catalog.current_setting('server_version'), pg_catalog.version(),"
        " pg_catalog.current_setting('data_checksums'), (SELECT pg_catalog.sum(pg_catalog.pg_database_size(oid))"
        " FROM pg_catalog.pg_database WHERE pg_catalog.has_database_privilege(oid, 'CONNECT'))"
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
