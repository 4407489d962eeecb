"""Connects to a server, and finds out whether its processes run on this host."""

import os
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.targets.connection import Address, TolerantText, given_parameters, reach, resolved_address
from pgdyno.targets.response_limits import limit_answers

Connection = psycopg.Connection[tuple[Any, ...]]
LOCAL_HZ, REMOTE_HZ = 10, 1
OWN_SESSIONS = "pgprobe"
"""By this name, every query leaves out pgdyno's own sessions."""


@dataclass(frozen=True, slots=True)
class Place:
    """The server's process and data directory on this host."""

    postmaster: int
    data_directory: Path | None
    """None if this user may not read it."""


@dataclass(frozen=True, slots=True)
class WatchedServer:
    address: Address
    database: str
    title: str = ""
    """User, database, host and port; no password. Unchecked text."""
    place: Place | None = None
    """None if the server runs elsewhere, or is not visible from here."""

    def connect(self) -> Connection:
        """Open a session. Raises TargetError."""
        connection = self.address.connect(self.database, application_name=OWN_SESSIONS)
        for name in ("text", "name"):
            connection.adapters.register_loader(name, TolerantText)
        return connection

    def probe_options(self, place: Place | None, waits_hz: int | None) -> list[str]:
        """Return pgprobe's options for the server at `place`; libpq's variables say how it connects."""
        options = [f"--waits-hz={waits_hz or (REMOTE_HZ if place is None else LOCAL_HZ)}"]
        if place is None:
            return [*options, "--no-host"]
        data = [] if place.data_directory is None else [f"--data={place.data_directory}"]
        return [*options, "--no-log", *data, f"--postmaster={place.postmaster}"]


def find(target: str | None, ask_password: Callable[[], str] | None) -> WatchedServer:
    """Connect to the server that `target` names, as psql would, and check whether it is on this host.

    `ask_password` is called if the server requires a password that was not given; None if it cannot be asked for.
    Raises UsageError for an invalid connection string, TargetError.
    """
    _, connection = reach(given_parameters(target or ""), ask_password, OWN_SESSIONS)
    with closing(connection), limit_answers(connection):
        info = connection.info
        host = "[local]" if info.host.startswith(("/", "@")) else info.host or info.hostaddr
        port = "" if str(info.port) == "5432" else f":{info.port}"
        title = f"{info.user}@{host}{port}/{info.dbname}"
        # the probe must not look again in variables and service files, which a connection string may contradict
        return WatchedServer(resolved_address(connection), info.dbname, title, place_of(connection))


def place_of(connection: Connection) -> Place | None:
    """Return the location on this host of the backend of `connection`; None if it is elsewhere.

    The process ID alone proves nothing: the process title must contain this user and database, and for TCP this port.
    """
    process = Path(f"/proc/{connection.info.backend_pid}")
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        came = f"({own.getsockname()[1]})" if own.family in (socket.AF_INET, socket.AF_INET6) else "[local]"
    try:
        title = (process / "cmdline").read_text(errors="replace")
        # the name of a program may contain spaces and parentheses
        postmaster = int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, LookupError):
        return None
    is_backend = title.startswith("postgres: ") and f" {connection.info.dbname} " in title and came in title
    return Place(postmaster, _data_directory(connection, postmaster)) if is_backend else None


def _data_directory(connection: Connection, postmaster: int) -> Path | None:
    # the view hides it from a role without pg_read_all_settings
    row = connection.execute("SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'").fetchone()
    if row is not None:
        return Path(row[0])
    with suppress(OSError):
        # a postmaster's working directory is its data directory
        return Path(f"/proc/{postmaster}/cwd").readlink()
    return None
