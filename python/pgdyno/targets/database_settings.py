"""Settings of a database: ALTER DATABASE … SET, which new sessions in it take up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.setting_contexts import context_refusal

_LISTS = {"search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries"}
"""Settings whose values are lists of names, each to be quoted by itself."""


def set_settings(connection: psycopg.Connection[tuple[Any, ...]], dbname: str, settings: Mapping[str, str]) -> None:
    """Gives `dbname` these settings beside those that it has. Raises psycopg.Error."""
    for name, value in settings.items():
        values = [each.strip() for each in value.split(",")] if name.lower() in _LISTS else [value]
        statement = sql.SQL("ALTER DATABASE {} SET {} TO {}").format(
            sql.Identifier(dbname),
            sql.Identifier(*name.lower().split(".")),
            sql.SQL(", ").join(sql.Literal(each) for each in values),
        )
        connection.execute(statement)


def reset_settings(connection: psycopg.Connection[tuple[Any, ...]], dbname: str) -> None:
    """Takes all settings away from `dbname`. Raises psycopg.Error."""
    connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(dbname)))


def check_contexts(connection: psycopg.Connection[tuple[Any, ...]], settings: Iterable[str]) -> None:
    """Raises TargetError when one of `settings`, by name, cannot be a database's on this server."""
    for name in settings:
        row = connection.execute("SELECT context FROM pg_settings WHERE lower(name) = lower(%s)", [name]).fetchone()
        # a name with a dot may belong to an extension that is not loaded yet
        reason = "the server has no such setting" if row is None and "." not in name else None
        if row is not None:
            reason = context_refusal(row[0])
        if reason is not None:
            raise TargetError(f"cannot set {name}: {reason}", hint="remove it from the target's settings")
