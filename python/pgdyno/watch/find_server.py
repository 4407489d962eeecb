"""Connects to a server, and finds out whether its processes run on this host."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError
from pgdyno.records.secret_values import SECRET_PARAMETERS
from pgdyno.targets.connection import TolerantText, connecting_hint, connecting_limit_s, given_parameters
from pgdyno.targets.direct_session import open_session
from pgdyno.targets.response_limits import answering

Connection = psycopg.Connection[tuple[Any, ...]]
CONNECT_S = "10"
LOCAL_HZ, REMOTE_HZ = 10, 1
_SHOWN_BY_NAME = {"application_name": "pgprobe", "client_encoding": "UTF8"}
"""By this name, every query leaves out pgdyno's own sessions."""


@dataclass(frozen=True, slots=True)
class Place:
    """The server's process and data directory on this host."""

    postmaster: int
    data_directory: Path | None
    """None if this user may not read it."""

    def probe_options(self) -> list[str]:
        if self.data_directory is None:
            return [f"--postmaster={self.postmaster}"]
        # the file shows a restart; if it is not readable, only the process is known
        is_readable = os.access(self.data_directory / "postmaster.pid", os.R_OK)
        return [f"--data={self.data_directory}", *([] if is_readable else [f"--postmaster={self.postmaster}"])]


@dataclass(slots=True)
class Found:
    parameters: dict[str, Any]
    """All connection parameters, including the password."""
    title: str = ""
    """User, database, host and port; no password. Unchecked text."""
    place: Place | None = None
    """None if the server runs elsewhere, or is not visible from here."""

    def connect(self) -> Connection:
        """Open another session. Raises psycopg.OperationalError."""
        limit_s = connecting_limit_s(self.parameters)
        try:
            connection: Connection = open_session(psycopg.Connection, self.parameters, limit_s)
        except TimeoutError as error:
            raise psycopg.OperationalError(f"not done within {limit_s:g} s") from error
        for name in ("text", "name"):
            connection.adapters.register_loader(name, TolerantText)
        return connection

    def probe_options(self, place: Place | None, waits_hz: int | None) -> list[str]:
        """Return pgprobe's options for a server at `place`; they contain no password."""
        options = ["--no-host"] if place is None else place.probe_options()
        hidden = SECRET_PARAMETERS | _SHOWN_BY_NAME.keys()
        plain = {name: value for name, value in self.parameters.items() if name not in hidden}
        hz = waits_hz or (REMOTE_HZ if place is None else LOCAL_HZ)
        return [f"--waits-hz={hz}", *options, f"--dbname={make_conninfo(**plain)}"]


def find(target: str | None, ask_password: Callable[[], str] | None) -> tuple[Found, Connection]:
    """Connect to the server that `target` names, as psql would, and check whether it is on this host.

    `ask_password` is called if the server requires a password that was not given; None if it cannot be asked for.
    Raises UsageError for an invalid connection string, TargetError.
    """
    timeout = os.environ.get("PGCONNECT_TIMEOUT") or CONNECT_S
    found = Found({"connect_timeout": timeout, **given_parameters(target or ""), **_SHOWN_BY_NAME})
    try:
        try:
            connection = found.connect()
        except psycopg.OperationalError as error:
            if ask_password is None or not _needs_password(error):
                raise
            found.parameters["password"] = ask_password()
            connection = found.connect()
    except psycopg.OperationalError as error:
        hint = "give the password in PGPASSWORD, ~/.pgpass or a service file" if _needs_password(error) else None
        raise TargetError(f"cannot connect: {str(error).strip()}", hint=hint or connecting_hint(str(error))) from error
    try:
        with answering(connection):
            found.place = place_of(connection)
    except BaseException:
        connection.close()
        raise
    info = connection.info
    host = "[local]" if info.host.startswith(("/", "@")) else info.host or info.hostaddr
    port = "" if str(info.port) == "5432" else f":{info.port}"
    found.title = f"{info.user}@{host}{port}/{info.dbname}"
    return found, connection


def _needs_password(error: psycopg.OperationalError) -> bool:
    return error.pgconn is not None and bool(error.pgconn.needs_password)


def place_of(connection: Connection) -> Place | None:
    """Return the location on this host of the backend of `connection`; None if it is elsewhere.

    The process ID alone proves nothing: the process title must contain this user and database, and for TCP this port.
    """
    title = _text(f"/proc/{connection.info.backend_pid}/cmdline")
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        came = f"({own.getsockname()[1]})" if own.family in (socket.AF_INET, socket.AF_INET6) else "[local]"
    if not title.startswith("postgres: ") or f" {connection.info.dbname} " not in title or came not in title:
        return None
    # the name of a program may contain spaces and parentheses
    after_name = _text(f"/proc/{connection.info.backend_pid}/stat").rpartition(")")[2].split()
    return Place(int(after_name[1]), _data_directory(connection, int(after_name[1]))) if len(after_name) > 1 else None


def _data_directory(connection: Connection, postmaster: int) -> Path | None:
    try:
        row = connection.execute("SELECT pg_catalog.current_setting('data_directory')").fetchone()
        return Path(row[0]) if row else None
    except psycopg.Error:
        if connection.closed:
            raise
    try:
        # a postmaster's working directory is its data directory
        return Path(f"/proc/{postmaster}/cwd").readlink()
    except OSError:
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
