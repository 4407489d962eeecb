"""Opens sessions, and refuses those of a connection pooler.

A pooler gives the same session of a server to many clients, one after the other. What a client leaves in it (settings,
prepared statements, advisory locks, its name) reaches the others, so pgdyno recognises a pooler before it changes
anything. docs/design/poolers.md says which ones, and how.
"""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psycopg

from pgdyno.errors import TargetError
from pgdyno.targets.response_limits import WatchedConnection, connected_within, limit_answers

_SESSION = """
    SELECT /* pgdyno */ pid, pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - backend_start)
    FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())
"""
_CLOCKS_S = 2.0
"""How much older than its connection a session may seem, when the server's clock is being set."""
_SERVER = "SELECT /* pgdyno */ pg_catalog.host(pg_catalog.inet_server_addr()), pg_catalog.current_setting('port')"
_CONSOLE = "/bouncer"
"""The end of the version that the console of PgBouncer reports."""
ATTEMPTS = 20
"""With a statement timeout of 1 ms, most first attempts succeed."""

_UNSENT = {"application_name": "", "fallback_application_name": "", "client_encoding": "", "options": ""}
"""Parameters that PgBouncer sets in the session of the server, where they stay. Empty ones are not sent."""
_END_S = 1.0
_servers: set[frozenset[tuple[str, str]]] = set()
"""The addresses at which this process has found a server."""


class PoolerError(TargetError):
    """An address is that of a connection pooler."""


def open_session(parameters: Mapping[str, Any], limit_s: float | None) -> WatchedConnection:
    """Return a session in autocommit mode, in which nothing has been changed.

    `parameters` are libpq's, with the password; `limit_s` limits the time to connect, and None sets no limit. Raises
    psycopg.Error, TimeoutError, and TargetError for a pooler or for something that does not answer as PostgreSQL does.
    """
    place = frozenset((name, str(value)) for name, value in parameters.items() if name not in _UNSENT)
    if place not in _servers:
        _look(parameters, limit_s)
        _servers.add(place)
    return _connect_directly(parameters, limit_s)


def open_pooled_session(parameters: Mapping[str, Any], limit_s: float | None) -> WatchedConnection:
    """Return a session for questions alone at an address that may be a pooler's: it leaves nothing there.

    Raises psycopg.Error, TimeoutError.
    """
    values = {**parameters, **_UNSENT, "prepare_threshold": None, "autocommit": True}
    return connected_within(limit_s, lambda: WatchedConnection.connect(**values))


def _look(parameters: Mapping[str, Any], limit_s: float | None) -> None:
    try:
        connection = _connect_directly({**parameters, **_UNSENT}, limit_s)
    except psycopg.Error:
        if parameters.get("options") or os.environ.get("PGOPTIONS"):
            # some services need them to find the server: the second connection will show it
            return
        raise
    # its place at the server is free before the next session needs one
    with socket.socket(fileno=os.dup(connection.fileno())) as own, suppress(OSError):
        own.settimeout(_END_S)
        connection.close()
        while own.recv(4096):
            pass


def _connect_directly(parameters: Mapping[str, Any], limit_s: float | None) -> WatchedConnection:
    began = time.monotonic()
    connection = connected_within(limit_s, lambda: WatchedConnection.connect(**parameters, autocommit=True))
    try:
        with limit_answers(connection):
            _refuse_pooler(connection, began)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_pooler(connection: psycopg.Connection[Any], began: float) -> None:
    """Raise PoolerError for a session of a pooler; connecting `began` then, in seconds of the monotonic clock."""
    if (connection.info.parameter_status("server_version") or "").endswith(_CONSOLE):
        raise PoolerError(
            f"{_place(connection)} is PgBouncer's console, not a server",
            hint="name the server itself, and one of its databases",
        )
    # two transactions: a pooler may pass on the number of its first session, and then use another one
    first, age_s = _ask(connection)
    before_s = age_s - (time.monotonic() - began)
    second, _ = _ask(connection)
    reported = connection.info.backend_pid
    if first != second:
        evidence = f"two statements of one session were executed by two processes of the server, {first} and {second}"
    elif first != reported:
        # libpq reads it as a signed number
        evidence = f"it reports {reported & 0xFFFFFFFF} as the process of the session, which is {first} at the server"
    elif before_s > _CLOCKS_S:
        evidence = f"the server's session began {before_s:.0f} s before the connection"
    else:
        return
    raise PoolerError(
        f"{_place(connection)} is a connection pooler, not a server: {evidence}",
        hint=f"name the server itself: {_pooler_path(connection)}",
    )


def _ask(connection: psycopg.Connection[Any]) -> tuple[int, float]:
    """Return the process of the session at the server, and the age of the session in seconds."""
    for _ in range(ATTEMPTS - 1):
        # a timeout of the role, which nothing may lift before the server is known to be one
        with suppress(psycopg.errors.QueryCanceled):
            return _session_of(connection)
    return _session_of(connection)


def _session_of(connection: psycopg.Connection[Any]) -> tuple[int, float]:
    row = connection.execute(_SESSION).fetchone()
    process, age_s = row  # type: ignore[misc]
    return int(process), float(age_s)


def _pooler_path(connection: psycopg.Connection[Any]) -> str:
    try:
        row = connection.execute(_SERVER).fetchone()
    except psycopg.Error:
        row = None
    if row is None:
        return "the pooler's configuration has its address"
    host, port = row
    through = f"at {host}" if host is not None else "through a socket on its own host"
    return f"the pooler reaches it {through}, port {port}"


def _place(connection: psycopg.Connection[Any]) -> str:
    info = connection.info
    return f"{info.host or info.hostaddr}, port {info.port},"
