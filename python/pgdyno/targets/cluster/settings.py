"""The settings of a server, as they are written to its configuration or its database.

pgdyno writes its own few settings, then the plan's. All others keep the server's defaults, because these are part of
what is measured.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.known_settings import context_refusal, refusal
from pgdyno.targets.home import target_errors

BEGIN = "# ---- pgdyno writes what follows anew at every start ----"


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise TargetError if a setting is reserved for pgdyno, or is not a valid name."""
    for name in settings:
        reason = refusal(name)
        if reason is not None:
            raise TargetError(f"cannot set {name}: {reason}", hint="remove it from the target's settings")


def own_settings(port: int, socket_folder: Path) -> dict[str, str]:
    """Return the settings that pgdyno needs for itself or for what it reads in the log."""
    return {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": str(socket_folder),
        "cluster_name": "pgdyno",
        "log_destination": "stderr",
        "logging_collector": "off",
        "log_line_prefix": "%m [%p] ",
        "log_timezone": "UTC",
        "log_checkpoints": "on",
        # pgdyno searches the log for the server's messages in English
        "lc_messages": "C",
    }


def write_settings(data_directory: Path, own: Mapping[str, str], asked: Mapping[str, str]) -> None:
    """Write both after initdb's content of postgresql.conf, in place of those of an earlier start."""
    path = data_directory / "postgresql.conf"
    with target_errors(path, "cannot write"):
        # follows no link: the folder belongs to the server's user, and pgdyno may be root
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "r+", encoding="utf-8") as file:
            kept = file.read().partition(BEGIN)[0].rstrip("\n")
            file.seek(0)
            file.write(f"{kept}\n{render(own, asked)}")
            file.truncate()


def render(own: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """Format the block for postgresql.conf. The server takes the last of several values for a name."""
    lines = [BEGIN, *_lines(own), "# of the plan", *_lines(asked)]
    return "\n".join(lines) + "\n"


def _lines(settings: Mapping[str, str]) -> list[str]:
    return [f"{name} = {quote(value)}" for name, value in settings.items()]


def quote(value: str) -> str:
    """Quotes `value` for postgresql.conf, where backslashes and quotes are doubled."""
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


_LISTS = {"search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries"}
"""Settings whose values are lists of names, each of which is quoted separately."""


def set_settings(connection: psycopg.Connection[tuple[Any, ...]], dbname: str, settings: Mapping[str, str]) -> None:
    """Add these settings to those of the database `dbname`. Raises psycopg.Error."""
    for name, value in settings.items():
        values = [each.strip() for each in value.split(",")] if name.lower() in _LISTS else [value]
        statement = sql.SQL("ALTER DATABASE {} SET {} TO {}").format(
            sql.Identifier(dbname),
            sql.Identifier(*name.lower().split(".")),
            sql.SQL(", ").join(sql.Literal(each) for each in values),
        )
        connection.execute(statement)


def reset_settings(connection: psycopg.Connection[tuple[Any, ...]], dbname: str) -> None:
    """Remove all settings of the database `dbname`. Raises psycopg.Error."""
    connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(dbname)))


def check_contexts(connection: psycopg.Connection[tuple[Any, ...]], settings: Iterable[str]) -> None:
    """Raise TargetError if one of the names in `settings` cannot be set for a database on this server."""
    for name in settings:
        row = connection.execute("SELECT context FROM pg_settings WHERE lower(name) = lower(%s)", [name]).fetchone()
        # a name with a dot may belong to an extension that is not loaded yet
        reason = "the server has no such setting" if row is None and "." not in name else None
        if row is not None:
            reason = context_refusal(row[0])
        if reason is not None:
            raise TargetError(f"cannot set {name}: {reason}", hint="remove it from the target's settings")
